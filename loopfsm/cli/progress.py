"""One plain line per transition that matters: step, from, to, attempt, why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import define, field, frozen

from loopfsm.cli.printing import json_line, one_line
from loopfsm.model.event import CREATED, LATE_RESULT, Event
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import FAILED_STATES, FINAL, StepState

SHOWN = (
    StepState.RUNNING,
    *FAILED_STATES,
    StepState.RETRY_PENDING,
    StepState.WAITING_FOR_HUMAN,
    *FINAL,
)
"""The states whose entry is worth a line; the others are passed on the way."""

WORDS_OF_KIND: Mapping[FailureKind, str] = MappingProxyType(
    {
        FailureKind.REPORTED: "failed",
        FailureKind.NOT_EXECUTED: "could not be called",
        FailureKind.TIMED_OUT: "timed out",
        FailureKind.REJECTED: "its result was refused",
        FailureKind.NOT_VERIFIED: "its result was not found in the world",
        FailureKind.INTERRUPTED: "was interrupted",
        FailureKind.BUDGET_SPENT: "a budget of the run is spent",
        FailureKind.CANCELLED: "was cancelled",
        FailureKind.BROKEN: "a contract of the core did not hold",
    }
)
"""How a failure is told to a person."""

Say = Callable[[str], None]


def event_data(event: Event, number: int | None = None) -> Mapping[str, object]:
    """An event as data; `number` counts the events of its run from 1, where it is known."""
    return {
        "type": "event",
        **({} if number is None else {"number": number}),
        "row": event.row,
        "noun": event.noun,
        "id": event.id,
        "at": event.at,
        "attempt": event.attempt,
        "changes": event.changes,
        "facts": event.facts,
        "spent": event.spent,
    }


@frozen
class JsonProgress:
    """Every event as one JSON object."""

    say: Say

    def knows(self, state: RunState) -> None:
        """Each line says all by itself."""

    def event(self, event: Event, number: int | None = None) -> None:
        """Print the event."""
        self.say(json_line(event_data(event, number)))

    def end(self) -> None:
        """Nothing is held back."""


@define
class PlainProgress:
    """Lines for a person. A step's failure and its message come as two events, in any order."""

    say: Say
    _started_at: float | None = None
    _before: RunState | None = None
    """The run as it stood before the first event that is told."""
    _states: dict[str, StepState] = field(factory=dict)
    _strategies: dict[str, str] = field(factory=dict)
    """Failure or step id -> the recovery planned last for it."""
    _subjects: dict[str, str] = field(factory=dict)
    """The id of a failure or question -> its step."""
    _messages: dict[str, str] = field(factory=dict)
    """What was said of a step's failure before the step entered its failed state."""
    _unexplained: dict[str, str] = field(factory=dict)
    """The line of a step that entered a failed state, until its message comes."""

    def knows(self, state: RunState) -> None:
        """Learn how a run stands whose earlier events are not told."""
        self._before = state
        for noun in (*state.failures.values(), *state.questions.values()):
            self._subjects[noun.id] = noun.subject

    def event(self, event: Event, number: int | None = None) -> None:
        """Print what the event means, if it matters."""
        if self._started_at is None:
            self._started_at = event.at
        if event.row == LATE_RESULT:
            self._line(event, f"a late result of attempt {event.attempt} came and is not used")
        elif event.noun == "failure":
            self._failure(event)
        elif event.noun == "question":
            self._question(event)
        elif event.noun == "step" and "state" in event.changes:
            self._step(event, StepState(event.changes["state"]))

    def end(self) -> None:
        """Print what was held back."""
        for line in self._unexplained.values():
            self.say(line)
        self._unexplained.clear()

    def _failure(self, event: Event) -> None:
        if event.row == CREATED:
            subject = self._subjects[event.id] = str(event.changes["subject"])
            kind = FailureKind(event.changes["kind"])
            told = WORDS_OF_KIND[kind]
            if message := event.changes.get("message"):
                told = f"{told}: {message}"
            if subject in self._unexplained:
                self.say(f"{self._unexplained.pop(subject)}: {one_line(told)}")
            else:
                self._messages[subject] = told
        elif strategy := event.changes.get("strategy"):
            self._strategies[self._subjects.get(event.id, event.id)] = str(strategy)

    def _question(self, event: Event) -> None:
        if event.row == CREATED:
            self._subjects[event.id] = str(event.changes["subject"])
        elif choice := event.changes.get("choice"):
            subject = self._subjects.get(event.id, event.id)
            said = event.changes.get("said")
            told = f"answered: {choice}{f' ({said})' if said else ''}"
            self.say(f"{self._elapsed(event)}  {one_line(subject)}: {one_line(told)}")

    def _step(self, event: Event, entered: StepState) -> None:
        left = self._states.get(event.id) or self._state_before(event.id)
        self._states[event.id] = entered
        if (left, entered) == (StepState.RUNNING, StepState.READY):
            self._line(event, f"attempt {event.attempt} was interrupted, and a repeat is safe")
        if entered not in SHOWN:
            return
        if left is StepState.WAITING_FOR_HUMAN and entered in FAILED_STATES:
            return  # the answer itself is told
        told = f"{left.value} -> {entered.value}"
        if event.attempt:
            told += f" (attempt {event.attempt})"
        if entered in FAILED_STATES:
            message = self._messages.pop(event.id, None)
            if message is None:
                self._unexplained[event.id] = self._format(event, told)
                return
            told += f": {message}"
        elif entered is StepState.RETRY_PENDING:
            strategy = self._strategies.get(event.id, "")
            wait_s = (event.changes.get("not_before") or event.at) - event.at
            when = f"again in {wait_s:.2f} s" if wait_s > 0 else "again at once"
            told += f": {strategy}, {when}" if strategy else f": {when}"
        self._line(event, told)

    def _state_before(self, step_id: str) -> StepState:
        return StepState.PENDING if self._before is None else self._before.step(step_id).state

    def _line(self, event: Event, told: str) -> None:
        self.say(self._format(event, told))

    def _format(self, event: Event, told: str) -> str:
        return f"{self._elapsed(event)}  {one_line(event.id)}: {one_line(told)}"

    def _elapsed(self, event: Event) -> str:
        return f"{event.at - (self._started_at or event.at):8.2f}s"
