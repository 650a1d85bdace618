"""What the host supplies. Each port is small; `loopfsm.testing` has a fake of each."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import field, frozen

from loopfsm.model.event import Event, Unit
from loopfsm.model.step import EMPTY, Step, Verdict

if TYPE_CHECKING:  # only journals need them, and a library that is imported has none yet
    from loopfsm.model.loop_state import RunState
    from loopfsm.model.record import Header, Message, Origin, Record, Restore


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
    output_dir: Path | None = None
    """Where such files are kept as long as the run is; None: wherever the tool finds a place."""
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


class Lease(Protocol):
    """The right to write one run, for one driver at a time.

    Every method raises `LeaseLost` when another driver has taken the run over.
    """

    @property
    def epoch(self) -> int:
        """Rises by one with every driver of the run."""

    def append(
        self,
        units: Iterable[Unit],
        after: RunState,
        now: float,
        replies: Mapping[str, str] = EMPTY,
    ) -> None:
        """One commit: the units, the nouns they wrote as they stand in `after`, and the replies.

        All or nothing; when it returns, it is as durable as the journal is. `replies` settles
        messages: token -> empty when the word was taken, else why not.
        """

    def messages(self) -> Sequence[Message]:
        """What people have sent and nobody has read, oldest first."""

    def renew(self, now: float) -> None:
        """Say that the driver is still there."""

    def release(self, now: float) -> None:
        """Let the next driver in. Does nothing when the lease is lost."""


class Journal(Protocol):
    """Where runs are kept: their current nouns, and every event that led to them."""

    @property
    def durable(self) -> bool:
        """Another process can read the run after this one has ended."""

    def create(self, state: RunState, now: float, origin: Origin) -> None:
        """Keep a new run; `JournalRefused` when its id is taken."""

    def acquire(
        self, run_id: str, now: float, lease_s: float, rows: Mapping[str, str] = EMPTY
    ) -> Lease:
        """Take the lease of a run; a dead holder on this host is taken over at once.

        `rows` holds the fingerprint of each row the driver may use; each is kept with the run
        when it is used first.

        Raises:
            LeaseHeld: somebody drives it. It says who, and until when they may be silent.
            UnknownRun: there is no such run.
        """

    def header(self, run_id: str) -> Header:
        """What is known of a run; `UnknownRun` when there is none of that id."""

    def load(self, run_id: str, restore: Restore | None = None) -> Record:
        """Read the nouns of a run back; `restore` gives outputs the type their tool returns."""

    def events(self, run_id: str, after: int = 0) -> Iterable[Event]:
        """Every event of the run from number `after` + 1 on, in order; numbers count from 1."""

    def runs(self) -> Sequence[Header]:
        """Every run, oldest first."""

    def send(self, run_id: str, message: Message) -> None:
        """Leave a word for whoever drives the run; `AnswerRefused` when its token is used."""

    def message(self, run_id: str, token: str) -> Message | None:
        """The word of that token, with its reply if there is one."""

    def output_dir(self, run_id: str) -> Path | None:
        """Where tools keep outputs that are too long for a result; it need not exist yet."""

    def keepable(self, output: Any, annotation: Any) -> Any:
        """What a later process will read of this output; raises `NotSerialisable`."""
