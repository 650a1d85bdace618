"""Python functions as tools: async ones on the event loop, sync ones in daemon threads.

A thread cannot be stopped. When the awaitable of a sync call is cancelled, the caller goes
on at once and the thread is *abandoned*: it counts against `max_abandoned` until it ends,
and what it brought in the end goes to `ToolContext.late`.

Why threads of our own: those of `concurrent.futures` (and so of `asyncio.to_thread`) are
joined when the interpreter exits, so that one function asleep for an hour would hold the
whole process for an hour.

What crosses between threads is built from operations that are atomic by themselves (append
and pop of a deque, add and discard of a set), so that no lock is taken on the way.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, get_args

from attrs import define, field, frozen

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.ports import ToolContext
from loopfsm.tools.declaring import as_given, declarations, not_started

if TYPE_CHECKING:
    from loopfsm.situations.declared import Declared

P = ParamSpec("P")
R = TypeVar("R")
Late = Callable[[Any, BaseException | None], None]

WOULD_MISLEAD = (KeyboardInterrupt, SystemExit, asyncio.CancelledError, StopIteration)
"""Raised by a tool in a coroutine, these would stop the event loop, or look like a cancellation
or the end of the coroutine; they are reported as the failure of the call they came from."""


def _misleading(error: BaseException) -> ToolFailed:
    return ToolFailed(f"the function raised {error!r}", evidence={"raised": type(error).__name__})


@define(eq=False)
class _Job:
    """One sync call on its way through a thread."""

    work: Callable[[], Any]
    late: Late
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Any, BaseException | None]]
    finished: bool = False

    def perform(self) -> tuple[Any, BaseException | None]:
        try:
            return self.work(), None
        except BaseException as error:  # noqa: BLE001  # it is the outcome of the call
            return None, error

    def deliver(self, value: Any, error: BaseException | None) -> None:
        if self.future.cancelled():
            self.late(value, error)
        else:
            self.future.set_result((value, error))


class DaemonThreads:
    """Daemon threads that are reused when idle and never joined.

    There are as many as calls were ever under way at once; whoever starts the calls bounds
    that number.
    """

    def __init__(self, max_abandoned: int = 8) -> None:
        self.max_abandoned = max_abandoned
        """Abandoned calls that may still run when another one starts."""
        self._numbers = itertools.count(1)
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._idle: deque[SimpleQueue[_Job]] = deque()
        """The inbox of each idle thread; the one used last is used next."""
        self._awaited: set[_Job] = set()
        self._abandoned: set[_Job] = set()

    @property
    def awaited(self) -> int:
        """How many calls are under way for somebody who waits."""
        return len(self._awaited)

    @property
    def abandoned(self) -> int:
        """How many calls still run although nobody waits for them any more."""
        return len(self._abandoned)

    async def run(self, work: Callable[[], Any], late: Late) -> Any:
        """Call `work` in a thread and return what it returns, or raise what it raises.

        Cancelled, it returns at once; `late(result, error)` is then called on this event
        loop when the thread ends (never, if the loop is closed by then). Raises
        `ToolFailed(executed=False)` when nothing could be started.
        """
        if self._process != os.getpid():
            self._forget()  # a forked child has none of its parent's threads
        if self.abandoned >= self.max_abandoned:
            raise not_started(
                f"{self.abandoned} calls that were given up still run in their threads, "
                f"at most {self.max_abandoned} may; this call was not started",
                "locked",  # they hold what this one needs
                "threads",
                unblock="wait until one of these calls has ended, or start this process anew",
            )
        loop = asyncio.get_running_loop()
        bound = functools.partial(contextvars.copy_context().run, work)
        job = _Job(work=bound, late=late, loop=loop, future=loop.create_future())
        self._awaited.add(job)
        try:
            self._start(job)
            value, error = await job.future
        except asyncio.CancelledError:
            self._abandon(job)
            raise
        finally:
            self._awaited.discard(job)
        if error is None:
            return value
        try:
            if isinstance(error, WOULD_MISLEAD):
                raise _misleading(error) from error
            raise error
        finally:
            del error, job  # the traceback refers to this frame: break the cycle

    def _start(self, job: _Job) -> None:
        try:
            self._idle.pop().put(job)
        except IndexError:
            name = f"loopfsm-tool-{next(self._numbers)}"
            thread = threading.Thread(target=self._serve, args=[job], name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise ToolFailed(f"no thread for this call: {error}", executed=False) from error

    def _serve(self, job: _Job) -> None:
        """The life of a thread."""
        inbox: SimpleQueue[_Job] = SimpleQueue()
        while True:
            value, error = job.perform()
            self._idle.append(inbox)  # first, so that whoever is woken now finds this thread
            job.finished = True
            self._abandoned.discard(job)
            with suppress(RuntimeError):  # the event loop is closed: nobody is left to tell
                job.loop.call_soon_threadsafe(job.deliver, value, error)
            del job, value, error  # an idle thread keeps nothing alive
            job = inbox.get()

    def _abandon(self, job: _Job) -> None:
        if not job.future.cancelled():  # the outcome and the cancellation came together
            job.loop.call_soon(job.late, *job.future.result())
            return
        self._abandoned.add(job)
        if job.finished:  # looked at after `add`: whichever side is second discards it
            self._abandoned.discard(job)


SHARED = DaemonThreads()
"""The threads of every tool that brings none of its own."""


@frozen
class _Parameters:
    """What a function takes, read once when the tool is declared."""

    required: tuple[str, ...]
    accepted: frozenset[str]
    open: bool
    """It takes any further argument by name."""
    context: str | None
    """The parameter that wants the `ToolContext`."""

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> _Parameters:
        try:
            parameters = _signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise ToolError(name, f"its parameters cannot be read: {error}") from error
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        for parameter in parameters:
            if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
                problem = f"arguments are given by name, but {parameter.name!r} is positional-only"
                raise ToolError(name, problem)
        context = next((p.name for p in named if _wants_context(p)), None)
        own = [p for p in named if p.name != context]
        return cls(
            required=tuple(p.name for p in own if p.default is p.empty),
            accepted=frozenset(p.name for p in own),
            open=any(p.kind is p.VAR_KEYWORD for p in parameters),
            context=context,
        )

    def bind(self, name: str, args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """The keyword arguments of the call; `ToolFailed(executed=False)` when they do not fit."""
        missing = [p for p in self.required if p not in args]
        unknown = [a for a in args if a == self.context or not (self.open or a in self.accepted)]
        if missing or unknown:
            problems = [f"missing argument {p!r}" for p in missing]
            problems += [f"unknown argument {a!r}" for a in unknown]
            takes = ", ".join(sorted(self.accepted)) or "no arguments"
            message = f"tool {name!r} was not called: {'; '.join(problems)}; it takes {takes}"
            raise not_started(message, "bad_args", name)
        return dict(args) if self.context is None else {**args, self.context: context}


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, AttributeError, SyntaxError):  # a name imported for checkers only
        return inspect.signature(function)


def _returned_by(function: Callable[..., Any]) -> Any:
    try:
        annotation = _signature(function).return_annotation
    except (TypeError, ValueError):
        return Any
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, function)
    is_unknown = annotation is inspect.Signature.empty or isinstance(annotation, str)
    return Any if is_unknown else annotation


def _evaluated(annotation: str, function: Callable[..., Any]) -> Any:
    """One annotation by itself: what another one names need not be known."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    if not hasattr(inner, "__globals__"):  # an object with a `__call__`
        call = getattr(type(inner), "__call__", inner)  # noqa: B004  # its code is wanted
        inner = inspect.unwrap(getattr(inner, "__func__", call))

    def alone() -> None: ...

    alone.__annotations__ = {"return": annotation}
    names = getattr(inner, "__globals__", {})
    try:
        return inspect.get_annotations(alone, globals=names, eval_str=True)["return"]
    except Exception:  # noqa: BLE001  # a name for checkers only, or what evaluating it raises
        return annotation


def _wants_context(parameter: inspect.Parameter) -> bool:
    """Annotated `ToolContext`, or named `context` and not annotated as something else."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return "ToolContext" in annotation
    if ToolContext in (annotation, *get_args(annotation)):
        return True
    return parameter.name == "context" and annotation in (parameter.empty, Any)


def _runs_on_loop(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004  # an object with an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


@frozen(kw_only=True)
class PythonTool(Generic[P, R]):
    """A function as a tool; called like the function itself it is still the function.

    Args given by a plan are passed by name. A parameter annotated `ToolContext` (or named
    `context`, without an annotation) receives the context. Exceptions of the function
    propagate unchanged, except `WOULD_MISLEAD`.
    """

    name: str
    function: Callable[P, R]
    idempotent: bool = False
    read_only: bool = False
    timeout_s: float | None = 300.0
    threads: DaemonThreads = field(default=SHARED, eq=False, repr=False)
    """Where a sync function runs."""
    situations: tuple[Declared, ...] = field(default=(), converter=as_given, hash=False)
    """What its failing results mean; tables of the keys of `Declared` are taken, too."""
    interactive: bool = False
    """It needs a person beside it."""
    on_loop: bool = field(init=False, eq=False, repr=False)
    """The function is async and runs on the event loop."""
    returns: Any = field(init=False, eq=False, repr=False)
    """The type that the function says it returns; `Any` when it says none."""
    _parameters: _Parameters = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            raise ToolError(self.name, f"{self.function!r} cannot be called")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise ToolError(self.name, "it yields; a tool returns one result")
        object.__setattr__(self, "situations", declarations(self.name, self.situations))
        object.__setattr__(self, "on_loop", _runs_on_loop(self.function))
        object.__setattr__(self, "returns", _returned_by(self.function))
        object.__setattr__(self, "_parameters", _Parameters.of(self.name, self.function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, on this thread."""
        return self.function(*args, **kwargs)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function with `args`; see `DaemonThreads.run` for sync ones."""
        arguments = self._parameters.bind(self.name, args, context)
        work: Callable[[], Any] = functools.partial(self.function, **arguments)
        if self.on_loop:
            return await _awaited(work)
        value = await self.threads.run(work, context.late)
        # A plain function that hands out a coroutine, such as a decorated async one.
        return await _awaited(lambda: value) if inspect.isawaitable(value) else value


async def _awaited(work: Callable[[], Any]) -> Any:
    try:
        return await work()
    except SystemExit as error:
        raise _misleading(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _misleading(error) from error  # something inside was cancelled, not this call
