"""What the host supplies. Each port is small; `loopfsm.testing` has a fake of each."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from loopfsm.model.event import Event, Unit
from loopfsm.model.step import Step, Verdict


class Timer(Protocol):
    """A pending callback."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it already ran."""


class Clock(Protocol):
    """The only source of time in a run."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the event loop `delay_s` seconds from now."""


def dropped(_result: Any, _error: BaseException | None) -> None:
    """Nobody waits for the outcome of a call that was given up."""


@frozen(kw_only=True)
class ToolContext:
    """What a tool may know about the attempt it works for."""

    run_id: str
    step_id: str
    attempt: int
    """Counts from 1."""
    idempotency_key: str
    """The same for every repeat that must not act twice; changes when a repeat is a new act."""
    deadline: float | None
    """When the attempt times out, in seconds of the run's clock; None: never."""
    log: logging.LoggerAdapter[logging.Logger]
    spend: Callable[[int, float], None]
    """`spend(tokens, cost)` charges the run's budgets."""
    output_cap_bytes: int = 65536
    """Output beyond this many bytes goes to a file."""
    late: Callable[[Any, BaseException | None], None] = dropped
    """`late(result, error)`: what became of a cancelled call that could not be stopped.

    The tool calls it on the event loop's thread, once, when such a call has ended at last."""


@runtime_checkable
class Tool(Protocol):
    """Something a step can call."""

    @property
    def name(self) -> str:
        """The name by which plans call it."""

    @property
    def timeout_s(self) -> float | None:
        """Seconds an attempt may take unless the step says otherwise; None: no limit."""

    @property
    def read_only(self) -> bool:
        """The tool changes nothing, so that a verifier may use it."""

    @property
    def idempotent(self) -> bool:
        """Repeating a call leaves the world as one call does."""

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Do the work and return a JSON-like result; raise `ToolFailed` (or anything) to fail.

        Cancelling the awaitable must stop the work as far as it can be stopped; the
        cancellation returns once it has, or at once when it cannot be (a thread).
        """


@frozen
class Judgement:
    """What an evaluator or verifier says: a verdict, and why."""

    verdict: Verdict
    message: str = ""
    evidence: Mapping[str, Any] = field(factory=dict)


Evaluator = Callable[[Step, Any], Judgement | bool | Awaitable[Judgement | bool]]
"""`evaluator(step, output)`: is the result good? Synchronous ones join the result's commit.

One that has to be awaited is declared with `async def`.
"""

Verifier = Callable[[Step, Any], Judgement | bool | Awaitable[Judgement | bool]]
"""`verifier(step, output)`: does the world show what the result claims? Declared alike."""


class Journal(Protocol):
    """Where a run is kept. One `append` is one commit."""

    @property
    def durable(self) -> bool:
        """Another process can read the run after this one has ended."""

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        """Keep the units, all or none, in order."""

    def events(self, run_id: str) -> Iterable[Event]:
        """Every event of the run, in order."""
