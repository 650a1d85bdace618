"""The clocks: what both promise, what only the fake one can."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.engine import clock as real
from loopfsm.engine.clock import SystemClock
from loopfsm.errors import ToolFailed
from loopfsm.ports import Clock
from loopfsm.testing import FakeClock, Hangs, ScriptedTool, Sleeps, tool_context
from loopfsm.tools.registry import tool

# ---------------------------------------------------------------- what every clock does


def make_fake() -> Clock:
    return FakeClock(auto=True)


@pytest.fixture(params=[SystemClock, make_fake], ids=["real", "fake"])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


async def after(clock: Clock, *delays: float) -> list[float]:
    """Wait for a timer of each delay; the delays in the order in which they came due."""
    order: list[float] = []
    done = asyncio.Event()

    def ring(delay: float) -> Callable[[], None]:
        def callback() -> None:
            order.append(delay)
            if len(order) == len(delays):
                done.set()

        return callback

    for delay in delays:
        clock.call_later(delay, ring(delay))
    await done.wait()
    return order


def test_timers_run_in_the_order_of_their_moments(clock: Clock) -> None:
    """A shorter delay comes first, whatever the order of asking."""
    assert asyncio.run(after(clock, 0.02, 0.0, 0.01)) == [0.0, 0.01, 0.02]


def test_time_has_passed_when_a_timer_runs(clock: Clock) -> None:
    """A timer never runs before its moment, nor inside `call_later`."""

    async def run() -> float:
        began = clock.now()
        await after(clock, 0.01)
        return clock.now() - began

    assert asyncio.run(run()) > 0.009


def test_a_negative_delay_counts_as_none(clock: Clock) -> None:
    """A moment that has passed is now."""
    assert asyncio.run(after(clock, -5.0)) == [-5.0]


def test_a_cancelled_timer_never_runs(clock: Clock) -> None:
    """Cancelling forgets the callback, and again does no harm, not even after it ran."""

    async def run() -> list[str]:
        rung: list[str] = []
        ran = clock.call_later(0.0, lambda: rung.append("ran"))
        cancelled = clock.call_later(0.0, lambda: rung.append("cancelled"))
        cancelled.cancel()
        cancelled.cancel()
        await after(clock, 0.01)
        ran.cancel()
        return rung

    assert asyncio.run(run()) == ["ran"]


# ------------------------------------------------------------------------ the real clock


def test_the_real_clock_tells_the_time() -> None:
    """Its time is that of the machine, in seconds since the epoch."""
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_the_real_clock_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the machine's clock is set back, time stands still, for every instance."""
    told = iter([100.0, 40.0, 99.0, 101.0])
    monkeypatch.setattr(real, "_latest", 0.0)
    monkeypatch.setattr(time, "time", lambda: next(told))
    assert [SystemClock().now() for _ in range(4)] == [100.0, 100.0, 100.0, 101.0]


# ------------------------------------------------------------------------ the fake clock


def test_fake_time_stands_still() -> None:
    """Only `advance` moves the time, from where it was started."""
    clock = FakeClock(start=10)
    assert clock.now() == 10
    clock.advance(2.5)
    assert clock.now() == 12.5


def test_time_does_not_go_back() -> None:
    """A negative step is refused."""
    with pytest.raises(ValueError, match="does not go back"):
        FakeClock().advance(-1)


@given(st.lists(st.integers(0, 20)), st.integers(0, 20))
def test_each_due_callback_runs_once_at_its_own_moment(delays: list[int], step: int) -> None:
    """`advance` runs exactly what is due, sorted by moment then by age, and keeps the rest."""
    clock = FakeClock()
    rung: list[tuple[float, int]] = []
    for age, delay in enumerate(delays):
        clock.call_later(delay, lambda age=age: rung.append((clock.now(), age)))  # type: ignore[misc]  # a default binds the loop's variable
    clock.advance(step)
    due = sorted((float(delay), age) for age, delay in enumerate(delays) if delay <= step)
    waiting = [delay for delay in delays if delay > step]
    assert due == rung
    assert len(waiting) == clock.pending
    assert min(waiting, default=None) == clock.next_due
    assert clock.now() == step


def test_a_timer_set_by_a_callback_runs_in_the_same_step() -> None:
    """What a callback asks for within the span of the step is run within it."""
    clock = FakeClock()
    rung: list[float] = []

    def again() -> None:
        rung.append(clock.now())
        clock.call_later(2, again)

    clock.call_later(2, again)
    clock.advance(7)
    assert rung == [2, 4, 6]
    assert (clock.next_due, clock.pending) == (8, 1)


def test_a_cancelled_timer_is_not_pending() -> None:
    """Neither `next_due` nor `pending` tell of a cancelled timer."""
    clock = FakeClock()
    clock.call_later(1, lambda: None).cancel()
    assert (clock.next_due, clock.pending) == (None, 0)


# ------------------------------------------------------------------------- auto


def test_with_auto_waiting_costs_nothing() -> None:
    """An hour passes as soon as nothing else can happen, timer after timer, moment by moment."""
    clock = FakeClock(auto=True)

    async def run() -> list[float]:
        moments = []
        for _ in range(3):
            await after(clock, 3600)
            moments.append(clock.now())
        return moments

    assert asyncio.run(run()) == [3600, 7200, 10800]


def test_auto_serves_one_event_loop_after_the_other() -> None:
    """A loop that ended with a timer pending does not keep the next one waiting."""
    clock = FakeClock(auto=True)

    async def leave() -> None:
        clock.call_later(5, lambda: None)

    asyncio.run(leave())
    asyncio.run(after(clock, 10))
    assert clock.now() == 10


def test_auto_survives_a_callback_that_raises() -> None:
    """A failing callback is the event loop's to report; the other timers still run."""
    clock = FakeClock(auto=True)

    def fail() -> None:
        raise KeyError("missing")

    async def run() -> list[Any]:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, what: reported.append(what["exception"])
        )
        clock.call_later(1, fail)
        await after(clock, 2)
        return reported

    assert [type(error) for error in asyncio.run(run())] == [KeyError]


async def within(clock: Clock, timeout_s: float, work: Any) -> Any:
    """What a driver does: a timer of the clock cancels the attempt."""
    task = asyncio.ensure_future(work)
    timer = clock.call_later(timeout_s, lambda: task.cancel() and None)
    try:
        return await task
    finally:
        timer.cancel()


def test_auto_lets_work_on_the_loop_finish_before_a_timeout() -> None:
    """However many passes a tool needs, its timeout waits until nothing is ready any more."""
    clock = FakeClock(auto=True)

    async def busy() -> str:
        for _ in range(500):
            await asyncio.sleep(0)
        return "finished"

    assert asyncio.run(within(clock, 1, busy())) == "finished"
    assert clock.now() == 0


def test_auto_lets_a_thread_finish_before_a_timeout() -> None:
    """A sync tool in the shared threads holds the clock back, however long it really takes."""
    clock = FakeClock(auto=True)

    gate = threading.Event()

    @tool
    def slow() -> str:
        assert gate.wait(10)
        return "finished"

    async def run() -> Any:
        asyncio.get_running_loop().call_later(0.03, gate.set)  # far more than a quiet loop needs
        return await within(clock, 1, slow.call({}, tool_context()))

    assert asyncio.run(run()) == "finished"
    assert clock.now() == 0


def test_auto_times_out_what_hangs() -> None:
    """A tool that waits for nothing that could happen meets its timeout, at its moment."""
    clock = FakeClock(auto=True)
    hanging = ScriptedTool("hanging", [Hangs()])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(within(clock, 30, hanging.call({}, tool_context())))
    assert clock.now() == 30


def test_auto_wakes_a_sleeping_tool_before_its_timeout() -> None:
    """Of a tool's own timer and its timeout, the earlier one comes first."""
    clock = FakeClock(auto=True)
    sleeping = ScriptedTool("sleeping", [Sleeps(29)], clock=clock)
    assert asyncio.run(within(clock, 30, sleeping.call({}, tool_context()))) is None
    assert clock.now() == 29


def test_a_failure_is_no_wait() -> None:
    """A tool that fails at once leaves the clock where it was."""
    clock = FakeClock(auto=True)

    async def fail() -> None:
        raise ToolFailed("at once")

    with pytest.raises(ToolFailed):
        asyncio.run(within(clock, 1, fail()))
    assert clock.now() == 0
