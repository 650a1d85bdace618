"""Python functions as tools: where they run, how they fail, what cancelling them means."""

import asyncio
import contextvars
import functools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.testing import tool_context
from loopfsm.tools.python import DaemonThreads, PythonTool

ROOT = Path(__file__).parents[2]


def sync_tool(function: Callable[..., Any], threads: DaemonThreads) -> PythonTool[..., Any]:
    return PythonTool(name="tested", function=function, threads=threads)


def thread_number() -> int:
    return threading.get_ident()


class Gate:
    """A function that holds its thread until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, value: Any = None) -> Any:
        self.entered.set()
        assert self.open.wait(10)
        if isinstance(value, BaseException):
            raise value
        return value

    async def start(self, used: PythonTool[..., Any], **how: Any) -> "asyncio.Task[Any]":
        value = how.pop("value", None)
        task = asyncio.create_task(used.call({"value": value}, tool_context(**how)))
        while not self.entered.is_set():  # noqa: ASYNC110  # set by a thread
            await asyncio.sleep(0)
        return task


async def cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_sync_function_runs_in_a_daemon_thread_and_an_async_one_on_the_loop() -> None:
    """Only sync functions leave the thread of the event loop, for one that holds up no exit."""

    async def here() -> threading.Thread:
        return threading.current_thread()

    async def both() -> None:
        thread = await sync_tool(threading.current_thread, DaemonThreads()).call({}, tool_context())
        assert thread is not threading.current_thread()
        assert thread.daemon
        on_loop = await PythonTool(name="here", function=here).call({}, tool_context())
        assert on_loop is threading.current_thread()

    asyncio.run(both())


def test_an_idle_thread_is_used_again() -> None:
    """Calls one after the other share one thread; at the same time, each has its own."""
    threads = DaemonThreads()
    barrier = threading.Barrier(3)

    async def run() -> None:
        used = sync_tool(thread_number, threads)
        assert len({await used.call({}, tool_context()) for _ in range(20)}) == 1
        meet = sync_tool(lambda: (barrier.wait(10), threading.get_ident())[1], threads)
        together = await asyncio.gather(*(meet.call({}, tool_context()) for _ in range(3)))
        assert len(set(together)) == 3

    asyncio.run(run())


def test_the_threads_serve_several_event_loops() -> None:
    """A pool outlives an event loop: the next one finds its idle threads."""
    used = sync_tool(thread_number, DaemonThreads())

    async def run() -> Any:
        return await used.call({}, tool_context())

    assert asyncio.run(run()) == asyncio.run(run())


def test_context_variables_reach_the_thread() -> None:
    """The function sees the caller's context variables, and changes only a copy."""
    variable = contextvars.ContextVar("variable", default="unset")

    def look() -> str:
        seen = variable.get()
        variable.set("changed in the thread")
        return seen

    async def run() -> None:
        variable.set("of the caller")
        assert await sync_tool(look, DaemonThreads()).call({}, tool_context()) == "of the caller"
        assert variable.get() == "of the caller"

    asyncio.run(run())


@pytest.mark.parametrize("error", [KeyError("own"), ToolFailed("own"), GeneratorExit("own")])
def test_an_exception_propagates_unchanged(error: BaseException) -> None:
    """What the function raises is what the caller gets: the same object."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        asyncio.run(_call(sync_tool(fail, DaemonThreads())))
    assert caught.value is error


async def _call(used: PythonTool[..., Any]) -> Any:
    return await used.call({}, tool_context())


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), StopIteration()],
    ids=repr,
)
def test_an_exception_that_would_end_the_loop_fails_its_call_alone(error: BaseException) -> None:
    """An exit or cancellation raised in a thread is the failure of that call; the pool lives."""
    threads = DaemonThreads()

    def fail() -> None:
        raise error

    async def run() -> None:
        with pytest.raises(ToolFailed) as caught:
            await _call(sync_tool(fail, threads))
        assert caught.value.__cause__ is error
        assert caught.value.executed is True
        assert await _call(sync_tool(lambda: "alive", threads)) == "alive"

    asyncio.run(run())


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()], ids=repr)
def test_an_async_function_cannot_end_the_loop_either(error: BaseException) -> None:
    """The same holds on the event loop, where nobody asked for a cancellation."""

    async def fail() -> None:
        raise error

    with pytest.raises(ToolFailed) as caught:
        asyncio.run(_call(PythonTool(name="fail", function=fail)))
    assert caught.value.__cause__ is error


def test_cancelling_an_async_call_cancels_the_function() -> None:
    """A cancelled async call is a cancellation, in the function and for the caller."""
    seen: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append("cancelled")

    async def run() -> None:
        task = asyncio.create_task(_call(PythonTool(name="hang", function=hang)))
        await asyncio.sleep(0)
        await cancelled(task)

    asyncio.run(run())
    assert seen == ["cancelled"]


def test_a_coroutine_handed_out_by_a_plain_function_is_awaited() -> None:
    """An async function behind a plain wrapper returns its result, not a coroutine."""

    async def inner() -> str:
        return "awaited"

    def hands_out() -> Any:
        return inner()

    assert asyncio.run(_call(sync_tool(hands_out, DaemonThreads()))) == "awaited"


@pytest.mark.parametrize("value", ["late", ValueError("late")], ids=["result", "error"])
def test_a_cancelled_call_returns_at_once_and_its_outcome_comes_late(value: Any) -> None:
    """A thread that was given up counts as abandoned until it ends; then `late` hears of it."""
    gate, threads = Gate(), DaemonThreads()

    async def run() -> None:
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def late(result: Any, error: BaseException | None) -> None:
            outcome.set_result((result, error, threading.current_thread()))

        task = await gate.start(sync_tool(gate, threads), value=value, late=late)
        assert (threads.awaited, threads.abandoned) == (1, 0)
        await cancelled(task)
        assert (threads.awaited, threads.abandoned) == (0, 1)
        gate.open.set()
        expected = (None, value) if isinstance(value, BaseException) else (value, None)
        assert (*expected, threading.current_thread()) == await outcome
        assert threads.abandoned == 0

    asyncio.run(run())


def test_a_result_that_comes_with_the_cancellation_is_late_too() -> None:
    """When thread and canceller finish in the same pass of the loop, the result is not lost."""
    gate, threads = Gate(), DaemonThreads()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        late = lambda result, error: outcome.set_result((result, error))  # noqa: E731  # short
        task = await gate.start(sync_tool(gate, threads), value=7, late=late)
        (job,) = threads._awaited
        gate.open.set()
        while not job.future.done():  # noqa: ASYNC110  # our turn comes before the caller's
            await asyncio.sleep(0)
        await cancelled(task)
        assert await outcome == (7, None)
        assert threads.abandoned == 0

    asyncio.run(run())


def test_too_many_abandoned_calls_refuse_the_next_start() -> None:
    """With `max_abandoned` threads given up nothing new starts, until one of them has ended."""
    gate, threads = Gate(), DaemonThreads(max_abandoned=1)

    async def run() -> None:
        ended = asyncio.Event()
        late = lambda _result, _error: ended.set()  # noqa: E731  # short
        await cancelled(await gate.start(sync_tool(gate, threads), late=late))
        started = threading.Event()
        with pytest.raises(ToolFailed, match="not started") as caught:
            await _call(sync_tool(started.set, threads))
        assert caught.value.executed is False
        assert not started.is_set()
        gate.open.set()
        await ended.wait()
        await _call(sync_tool(started.set, threads))
        assert started.is_set()

    asyncio.run(run())


def test_an_outcome_after_the_end_of_the_loop_is_dropped() -> None:
    """When the event loop is closed the thread ends quietly and is free again."""
    gate, threads = Gate(), DaemonThreads()

    async def run() -> None:
        await cancelled(await gate.start(sync_tool(gate, threads)))

    asyncio.run(run())
    gate.open.set()
    while threads.abandoned:
        time.sleep(0)
    assert asyncio.run(_call(sync_tool(lambda: "next", threads))) == "next"


def test_a_forked_process_starts_its_own_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process has none of its parent's threads, and does not wait for them."""
    threads = DaemonThreads()
    used = sync_tool(thread_number, threads)
    before = asyncio.run(_call(used))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert asyncio.run(_call(used)) != before


def test_a_call_without_a_thread_was_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the machine gives no more threads the call fails, and nothing was executed."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads = DaemonThreads()
    with pytest.raises(ToolFailed, match="can't start new thread") as caught:
        asyncio.run(_call(sync_tool(thread_number, threads)))
    assert caught.value.executed is False
    assert threads.awaited == 0


class _Unreadable:
    __signature__ = 42

    def __call__(self) -> None: ...


def test_a_function_that_is_no_function_is_refused() -> None:
    """What cannot be called, or whose parameters cannot be read, is a wrong declaration."""
    with pytest.raises(ToolError, match="cannot be called"):
        PythonTool(name="x", function=42)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ToolError, match="cannot be read"):
        PythonTool(name="x", function=_Unreadable())


@pytest.mark.slow  # starts an interpreter
def test_the_process_exits_although_a_tool_still_sleeps() -> None:
    """A cancelled sync call that sleeps for a minute does not hold up the interpreter's exit."""
    program = """
        import asyncio, time
        from loopfsm.testing import tool_context
        from loopfsm.tools.registry import tool

        @tool
        def doze() -> None:
            time.sleep(60)

        async def main() -> None:
            try:
                await asyncio.wait_for(doze.call({}, tool_context()), 0.1)
            except TimeoutError:
                print("went on")

        asyncio.run(main())
    """
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (0, "went on\n", "") == (done.returncode, done.stdout, done.stderr)
    assert time.monotonic() - started < 5


def _sized(unknown: "Nowhere") -> "list[int]":  # type: ignore[name-defined]  # noqa: F821  # the case
    return [unknown]


@functools.wraps(_sized)
def _decorated(*args: Any) -> Any:
    return args


class _Sizes:
    def __call__(self, unknown: "Nowhere") -> "list[int]":  # type: ignore[name-defined]  # noqa: F821
        return [unknown]

    def method(self, unknown: "Nowhere") -> "list[int]":  # type: ignore[name-defined]  # noqa: F821
        return [unknown]


@pytest.mark.parametrize(
    "function",
    [_sized, _Sizes(), _Sizes().method, functools.partial(_sized), _decorated],
    ids=["function", "object", "method", "partial", "wrapped"],
)
def test_a_parameter_of_unknown_type_hides_no_return_type(function: Callable[..., Any]) -> None:
    """What a tool returns is read by itself; the names of its parameters need not be known."""
    assert list[int] == PythonTool(name="x", function=function).returns
