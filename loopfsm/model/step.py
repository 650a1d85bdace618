"""A step: the author's words (`StepSpec`) and its life (`Step`).

`StepSpec` is shared and never changes; `Step` is replaced, never mutated, and only
by a row of the step machine. What may have happened outside is told by two numbers:
`acted_in`, the last attempt that acted or may have, and `granted_in`, the attempt
after which a person allowed a repeat. `effect_is_known` compares them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from attrs import field, frozen

from loopfsm.errors import PlanError, Problem


class StepState(Enum):
    """Where a step stands. Final ones are immutable (S31)."""

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    EXECUTED = "EXECUTED"
    EVALUATED = "EVALUATED"
    VERIFIED_COMPLETED = "VERIFIED_COMPLETED"
    EVALUATION_FAILED = "EVALUATION_FAILED"
    VERIFICATION_FAILED = "VERIFICATION_FAILED"
    RETRY_PENDING = "RETRY_PENDING"
    WAITING_FOR_HUMAN = "WAITING_FOR_HUMAN"
    SKIPPED = "SKIPPED"
    REPLACED = "REPLACED"
    CANCELLED = "CANCELLED"
    ABSTAINED = "ABSTAINED"
    FAILED = "FAILED"


FAILED_STATES = (StepState.EVALUATION_FAILED, StepState.VERIFICATION_FAILED)
"""The states from which a recovery starts."""

DONE = (StepState.VERIFIED_COMPLETED, StepState.SKIPPED)
"""The states that let a run complete."""

IN_FLIGHT = (StepState.RUNNING, StepState.EXECUTED, StepState.EVALUATED)
"""The states in which an attempt is under way: a scope that holds one is not quiet."""

FINAL = (*DONE, StepState.REPLACED, StepState.CANCELLED, StepState.ABSTAINED, StepState.FAILED)
"""The states that no row of this package leaves."""

NOT_UNDER_WAY = tuple(state for state in StepState if state not in (*FINAL, *IN_FLIGHT))
"""What the end of a run cancels: an attempt under way ends and is recorded first."""


class Verdict(Enum):
    """What an evaluator or a verifier said of a result."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


@frozen
class Output:
    """A whole-value reference to the output of another step, or to a part of it.

    `path` holds mapping keys and list indexes, outermost first; empty: the whole output.
    """

    step_id: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.step_id, *self.path))


@frozen
class EnvironmentValue:
    """A reference to an environment variable; its value is never journaled."""

    name: str

    def looked_up(self, environment: Mapping[str, str]) -> FromEnvironment:
        """The value, as text that knows where it comes from; KeyError when it is not set."""
        return FromEnvironment(environment[self.name], self.name)


@frozen
class Unreadable:
    """Stands for an output that was kept and cannot be read back; `why` says why."""

    why: str


class FromEnvironment(str):
    """The value of an environment variable. What is shown or kept is `$NAME` in its place."""

    __slots__ = ("name",)

    def __new__(cls, value: str, name: str) -> FromEnvironment:
        """Keep the name beside the value."""
        found = super().__new__(cls, value)
        found.name = name
        return found

    name: str

    def __repr__(self) -> str:
        return repr(self.shown)

    @property
    def shown(self) -> str:
        """What stands for the value wherever people or files can see it."""
        return f"${self.name}"


def output(step_id: str, *path: str) -> Output:
    """Refer, in the args of a step, to what `step_id` returned (or the part at `path`)."""
    return Output(step_id, path)


def references(value: object) -> Iterator[Output]:
    """Every `Output` inside a JSON-like value, in reading order."""
    if isinstance(value, Output):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from references(item)


class _Empty(Mapping[str, Any]):
    """A mapping without anything in it; equal to any other such, and there is only one."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __reduce__(self) -> str:
        return "EMPTY"

    def __repr__(self) -> str:
        return "{}"


EMPTY: Mapping[str, Any] = _Empty()
"""The default of every mapping: one for all, since there are as many as steps."""


@frozen
class Call:
    """A tool and the arguments it is called with."""

    tool: str
    args: Mapping[str, Any] = EMPTY


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _interned(step_id: str) -> str:
    return sys.intern(step_id) if type(step_id) is str else step_id


def _as_tuple(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(ids)


@frozen(kw_only=True, weakref_slot=False)
class StepSpec:
    """What the author of a plan says about one step. Needs implied by references are added.

    Raises:
        PlanError: a limit is no number, or one below what makes sense.
    """

    id: str
    tool: str
    args: Mapping[str, Any] = EMPTY
    needs: tuple[str, ...] = field(default=(), converter=_as_tuple)
    description: str = ""
    verify: Call | None = None
    """A read-only call that looks at the world after the step."""
    optional: bool = False
    """May be skipped; its dependents run all the same unless they use its output."""
    critical: bool = False
    """A failure of this step forbids abstention (S17)."""
    idempotent: bool | None = None
    """Repeating the call leaves the world as one call does; None: as its tool says."""
    timeout_s: float | None = None
    """Seconds an attempt may take; None: the tool's own limit."""
    max_retries: int | None = None
    """Re-executions after the first; a number is the author's word that a reported
    failure left nothing behind. None: the policy's."""

    def __attrs_post_init__(self) -> None:
        self._refuse_bad_limits()
        needs = dict.fromkeys((*self.needs, *self.used_outputs))
        # One string for each id: a plan of 100,000 steps names each of them many times.
        object.__setattr__(self, "id", _interned(self.id))
        object.__setattr__(self, "needs", tuple(map(_interned, needs)))

    def _refuse_bad_limits(self) -> None:
        problems = []
        seconds, retries = self.timeout_s, self.max_retries
        if seconds is not None and not (_is_number(seconds) and 0 < seconds < math.inf):
            says = f"found {seconds!r}, expected seconds above 0, or None for the tool's own limit"
            problems.append(Problem(f"step {self.id}: timeout_s", says))
        whole = isinstance(retries, int) and not isinstance(retries, bool)
        if retries is not None and not (whole and retries >= 0):
            says = f"found {retries!r}, expected a whole number of at least 0, or None"
            problems.append(Problem(f"step {self.id}: max_retries", says))
        if problems:
            raise PlanError(tuple(problems))

    @property
    def used_outputs(self) -> tuple[str, ...]:
        """The ids of the steps whose outputs the args use; the verifier may use its own step's."""
        used = [reference.step_id for reference in references(self.args)]
        if self.verify is not None:
            others = (reference.step_id for reference in references(self.verify.args))
            used += [step_id for step_id in others if step_id != self.id]
        return tuple(dict.fromkeys(used))


@frozen(kw_only=True, weakref_slot=False)
class Step:
    """The life of one step. Times are seconds of the run's clock."""

    spec: StepSpec
    state: StepState = StepState.PENDING
    attempt: int = 0
    """Starts so far."""
    retry_count: int = 0
    """Re-executions ordered so far, by the ladder or by a person."""
    generation: int = 0
    """Part of the idempotency key: rises when a repeat is a new act."""
    output: Any = None
    start_time: float | None = None
    end_time: float | None = None
    not_before: float | None = None
    evaluation: Verdict | None = None
    verification: Verdict | None = None
    acted_in: int = 0
    """The last attempt that acted or may have; 0: none."""
    act_reported_failed: bool = False
    """That attempt's tool itself reported a failure (so nothing is unknown about it)."""
    granted_in: int = -1
    """The attempt after which a person granted a repeat; -1: never."""
    failed_in: StepState | None = None
    """The failed state a waiting step came from."""
    metadata: Mapping[str, Any] = EMPTY

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def lineage(self) -> str:
        """The id that a step shares with its replacements; limits are counted on it (B10)."""
        return self.spec.id


EXECUTION_FIELDS = ("output", "start_time", "end_time", "evaluation", "verification")
"""What belongs to one attempt; None outside it."""

NO_EXECUTION: Mapping[str, None] = dict.fromkeys(EXECUTION_FIELDS)
"""The change that clears them."""
