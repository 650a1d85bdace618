"""Every exception of the library, one tree with three branches.

    LoopfsmError
    |-- DefinitionError (ValueError)      the author's mistake, found at the door
    |   |-- LifecycleError                a row that cannot be
    |   |-- FactMissing                   a guard, update or ensure lacks a fact it reads
    |   |-- PlanError                     a plan that cannot run; carries every problem
    |   |-- ToolError                     a tool declared wrongly
    |   `-- NotSerialisable (TypeError)   a value that no journal can keep
    |-- Refused (RuntimeError)            not now; nothing has changed
    |   |-- TransitionRefused             no row of the machine takes this trigger here
    |   |-- AnswerRefused                 a person's word that fits no open question
    |   |-- RecoveryRefused               a strategy said no; its unit is undone
    |   |-- DriveRefused                  the run cannot be driven this way now
    |   |   |-- LeaseHeld                 somebody else drives it
    |   |   |-- LeaseLost                 somebody else has taken it over
    |   |   `-- RunChanged                its rows or tools are not those it was begun with
    |   |-- JournalRefused                the journal cannot be used, and is as it was
    |   `-- UnknownRun (LookupError)      the journal has no such run
    `-- Broken (AssertionError)           a contract did not hold: ours, or that of the rows' author
        |-- PostconditionViolated         a state, row or unit contract was false on entry
        `-- CoreBroken                    the core contradicts itself; please report

`ToolFailed` stands beside the tree: a *tool* raises it to report its own failure.

An error carries its facts as attributes; `str()` says what was tried, in which
state, why not, and what is allowed instead. All of them pickle and copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


class LoopfsmError(Exception):
    """Base of everything the library raises on purpose."""


class DefinitionError(LoopfsmError, ValueError):
    """The author's mistake in a definition; raised before anything started."""


@attrs.frozen(auto_exc=True)
class LifecycleError(DefinitionError):
    """A row, state or invariant that cannot be part of this machine."""

    machine: str
    problem: str

    def __str__(self) -> str:
        return f"machine {self.machine!r}: {self.problem}"


@attrs.frozen(auto_exc=True)
class FactMissing(DefinitionError):
    """A guard, update, invariant or ensure reads a fact that the caller did not give."""

    machine: str
    function: str
    fact: str
    given: tuple[str, ...]

    def __str__(self) -> str:
        given = ", ".join(self.given) or "none"
        return (
            f"machine {self.machine!r}: {self.function} reads the fact {self.fact!r}, "
            f"which was not given; given: {given}"
        )


@attrs.frozen
class Problem:
    """One mistake in a plan: where it stands, what was found, what to do."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


@attrs.frozen(auto_exc=True)
class PlanError(DefinitionError):
    """A plan that cannot run. `problems` holds all of them, in the order of the plan."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@attrs.frozen(auto_exc=True)
class ToolError(DefinitionError):
    """A tool that is declared wrongly, or is unknown."""

    tool: str
    problem: str

    def __str__(self) -> str:
        return f"tool {self.tool!r}: {self.problem}"


@attrs.frozen(auto_exc=True)
class NotSerialisable(DefinitionError, TypeError):
    """A value that no journal can keep: where it stands inside, and what it is."""

    place: str
    """The path to the value, such as `output.files[3]`."""
    found: str
    """Its type, or what is wrong with it."""
    instead: str = ""

    def __str__(self) -> str:
        instead = f"; {self.instead}" if self.instead else ""
        return f"{self.place} cannot be kept in a journal: {self.found}{instead}"


class Refused(LoopfsmError, RuntimeError):
    """This event cannot happen now. Nothing has changed."""


@attrs.frozen
class Attempted:
    """A row that was tried, and the first of its guards that said no."""

    row: str
    guard: str
    says: str

    def __str__(self) -> str:
        return f"{self.row} needs {self.guard} ({self.says})"


@attrs.frozen(auto_exc=True)
class TransitionRefused(Refused):
    """No row of the machine takes `trigger` from `state` with these facts."""

    machine: str
    id: str
    state: str
    trigger: str
    attempted: tuple[Attempted, ...]
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        if self.attempted:
            why = "; ".join(str(row) for row in self.attempted)
        else:
            why = f"no row leaves {self.state} by it"
        allowed = ", ".join(self.allowed) or f"nothing: {self.state} is final"
        return (
            f"{self.machine} {self.id!r} in {self.state} refused {self.trigger!r}: {why}. "
            f"Allowed from {self.state}: {allowed}"
        )


@attrs.frozen(auto_exc=True)
class AnswerRefused(Refused):
    """An answer that fits no open question; its token stays unused."""

    choice: str
    problem: str
    allowed: tuple[str, ...]

    @classmethod
    def of_used_token(cls, choice: str, token: str) -> AnswerRefused:
        """The refusal of a word that was sent before."""
        return cls(choice, f"the token {token!r} was used before", ())

    def __str__(self) -> str:
        allowed = "; ".join(self.allowed) or "no question is open"
        return f"answer {self.choice!r} refused: {self.problem}. Allowed: {allowed}"


@attrs.frozen(auto_exc=True)
class RecoveryRefused(Refused):
    """A strategy returned success=False, or its postconditions did not hold."""

    strategy: str
    message: str
    evidence: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.strategy} was not carried out: {self.message}"


@attrs.frozen(auto_exc=True)
class DriveRefused(Refused):
    """The run cannot be driven this way now."""

    problem: str
    instead: str

    def __str__(self) -> str:
        return f"{self.problem}. {self.instead}"


@attrs.frozen(auto_exc=True)
class LeaseHeld(DriveRefused):
    """Somebody else drives the run. `until` is in seconds since the epoch."""

    run_id: str
    holder: str
    until: float


@attrs.frozen(auto_exc=True)
class LeaseLost(DriveRefused):
    """Another driver has taken the run over; this one has written nothing since."""

    run_id: str
    epoch: int
    """The epoch in which this driver held the run."""

    @classmethod
    def to_another(cls, run_id: str, epoch: int) -> LeaseLost:
        """The refusal of a driver that has been replaced."""
        problem = f"the run {run_id} was taken over by another driver"
        instead = "Nothing was written; resume it when that driver has left"
        return cls(problem, instead, run_id, epoch)


@attrs.frozen(auto_exc=True)
class RunChanged(DriveRefused):
    """A row that the run used has changed, or a row or tool is gone; `problems` names them all."""

    run_id: str
    problems: tuple[Problem, ...]


@attrs.frozen(auto_exc=True)
class JournalRefused(Refused):
    """The journal cannot be used; nothing in it has been changed."""

    path: str
    problem: str
    instead: str

    @classmethod
    def of_taken_id(cls, path: str, run_id: str) -> JournalRefused:
        """The refusal of a new run whose id another one has."""
        instead = "Resume that one, or give the new one another id"
        return cls(path, f"it has a run {run_id!r} already", instead)

    def __str__(self) -> str:
        return f"journal {self.path!r}: {self.problem}. {self.instead}"


@attrs.frozen(auto_exc=True)
class UnknownRun(Refused, LookupError):
    """The journal has no such run."""

    run_id: str
    known: tuple[str, ...]
    """Ids like it, or the latest ones."""

    def __str__(self) -> str:
        known = ", ".join(self.known) or "it has none"
        return f"no run {self.run_id!r} in this journal; it knows: {known}"


class Broken(LoopfsmError, AssertionError):
    """A contract did not hold: a defect of the core or of whoever wrote the rows."""


@attrs.frozen(auto_exc=True)
class PostconditionViolated(Broken):
    """A contract of `row` was false on entry of `state`. The unit has been undone."""

    machine: str
    id: str
    row: str
    state: str
    function: str
    says: str

    def __str__(self) -> str:
        return (
            f"{self.machine} {self.id!r}: row {self.row} into {self.state} broke "
            f"{self.function} ({self.says}); nothing has changed"
        )


@attrs.frozen(auto_exc=True)
class CoreBroken(Broken):
    """The core contradicts itself. Please report it, with the trace."""

    problem: str

    def __str__(self) -> str:
        return f"loopfsm contradicts itself, please report it: {self.problem}"


@attrs.frozen(auto_exc=True)
class ToolFailed(Exception):
    """Raised by a tool to report its own failure.

    `executed=False` says that nothing was done, so that a repeat is safe;
    `evidence` (JSON-like) is kept with the failure.
    """

    message: str
    executed: bool = True
    evidence: Mapping[str, Any] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return self.message
