"""One unit under construction: rows fired over the immutable state of a run.

A `Draft` is the only thing that makes new nouns. It fires rows, charges what they spend,
keeps every index of `RunState` in step with the nouns, and at the end asks the run
contracts of every row it fired. Whatever raises in between, the state it started from is
untouched: dropping the draft is the undo. Its cost is that of what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from loopfsm.lifecycle import Fired, Lifecycle
from loopfsm.machines import KIND_OF, AnyNoun, Machines, budget_key
from loopfsm.model.compiled import evolved, maker_of
from loopfsm.model.event import CREATED, GOAL_REDUCED, Event, Unit
from loopfsm.model.failure import (
    SETTLED,
    UNDECIDED,
    WHOLE_PLAN,
    Failure,
    FailureState,
)
from loopfsm.model.loop_state import (
    LoopState,
    Map,
    MapMutation,
    PlanDag,
    ReadyQueue,
    Run,
    RunState,
)
from loopfsm.model.passage import PASSAGES
from loopfsm.model.plan import Plan
from loopfsm.model.question import Choice, Question, QuestionState
from loopfsm.model.step import EMPTY, Step, StepState

_event = maker_of(Event)
_unit = maker_of(Unit)
Facts = Mapping[str, Any]
Spent = tuple[tuple[str, float], ...]
"""Budgets, and how much of each."""


def is_satisfied_by(step: Step) -> bool:
    """Whether a dependency on this step is satisfied: verified, or optional and skipped (B21)."""
    if step.state is StepState.VERIFIED_COMPLETED:
        return True
    return step.state is StepState.SKIPPED and step.spec.optional


class Draft:
    """A unit in the making. Implements `RunView`: what it has written so far is visible."""

    def __init__(self, before: RunState, machines: Machines, now: float) -> None:
        self.before = before
        self.machines = machines
        self.now = now
        self.run: Run = before.run
        self.ending: LoopState | None = None
        self.end_reason = ""
        self.leads_to: LoopState | None = None
        """Where the recovery that this unit applies leads the loop."""
        self.fired: list[tuple[Lifecycle[Any], Fired[Any]]] = []
        self.satisfied: list[str] = []
        """Steps whose last unmet dependency was satisfied in this unit."""
        self.written: dict[tuple[str, str], AnyNoun] = {}
        """The nouns of this unit as they stand, by kind and id."""
        self._events: list[Event] = []
        self._edits: dict[str, MapMutation[Any, Any]] = {}
        self._scalars: dict[str, Any] = {}

    # What can be seen

    @property
    def plan(self) -> Plan:
        return self.before.plan

    @property
    def dag(self) -> PlanDag:
        return self.before.dag

    def step(self, step_id: str) -> Step:
        written = self.written.get(("step", step_id))
        return written if isinstance(written, Step) else self.before.step(step_id)

    def failure(self, failure_id: str) -> Failure:
        failure: Failure = self._map("failures")[failure_id]
        return failure

    def question(self, question_id: str) -> Question:
        question: Question = self._map("questions")[question_id]
        return question

    def failure_of(self, subject: str) -> Failure | None:
        failure_id = self._map("unsettled").get(subject)
        return None if failure_id is None else self.failure(failure_id)

    def question_of(self, subject: str) -> Question | None:
        question_id = self._map("asked").get(subject)
        return None if question_id is None else self.question(question_id)

    def holder_of(self, step_id: str) -> str | None:
        holder: str | None = self.draining or self._map("held").get(step_id)
        return holder

    @property
    def is_asking(self) -> bool:
        return len(self._map("asked")) > 0

    @property
    def is_settled(self) -> bool:
        return self._scalar("moving") == 0 and len(self._map("unsettled")) == 0

    def unsettled_subjects(self) -> Iterable[str]:
        written = (noun.subject for noun in self.written.values() if isinstance(noun, Failure))
        subjects = dict.fromkeys((*self.before.unsettled, *written))
        return tuple(name for name in subjects if self.failure_of(name) is not None)

    @property
    def draining(self) -> str | None:
        draining: str | None = self._scalar("draining")
        return draining

    def unmet(self, step_id: str) -> int:
        """How many dependencies of the step are not satisfied."""
        unmet: int = self._map("unmet").get(step_id, 0)
        return unmet

    def spent(self, budget: str, lineage: str = "") -> float:
        """How much of a budget has been used."""
        spent: float = self._map("spent").get(budget_key(budget, lineage), 0)
        return spent

    def left_of(self, budget: str) -> float | None:
        """What is left of a run's budget; None: it has no limit."""
        limit = self.before.limit_of(budget)
        return None if limit is None else limit - self.spent(budget)

    def recoveries_left(self, subject: str) -> int:
        """How many recoveries the lineage of a subject has left."""
        used = self.spent("recoveries", self.lineage_of(subject))
        return self.plan.policy.recoveries - int(used)

    def lineage_of(self, subject: str) -> str:
        """The lineage of a step id; the run is its own."""
        return self.step(subject).lineage if subject in self.before.steps else subject

    def in_flight_of(self, scope: Iterable[str]) -> str | None:
        """A step of the scope with an attempt under way, or None when the scope is quiet."""
        in_flight = self._map("in_flight")
        if scope == WHOLE_PLAN:
            return min(in_flight, default=None)
        return next((step_id for step_id in scope if step_id in in_flight), None)

    def state_of(self, subject: str) -> StepState | None:
        """The state of the subject's step; None when the subject is no step."""
        return self.step(subject).state if subject in self.before.steps else None

    def count_failures(self) -> int:
        """How many failures the run has had."""
        return len(self._map("failures"))

    def count_questions(self) -> int:
        """How many questions the run has asked."""
        return len(self._map("questions"))

    # What can be done

    def may(self, noun: AnyNoun, trigger: str, **facts: Any) -> bool:
        """Whether `fire` would take a row."""
        return self.machines.of(noun).row_taken(noun, trigger, facts) is not None

    def fire(self, noun: Any, trigger: str, **facts: Any) -> Any:
        """Fire a row; keep the new noun, its event, and what it spends. Returns the new noun."""
        return self.fire_spending((), noun, trigger, facts)

    def fire_spending(self, spending: Spent, noun: Any, trigger: str, facts: Facts) -> Any:
        """Do as `fire` does, and charge `spending` beside what the row spends."""
        machine = self.machines.of(noun)
        fired = machine.transition(noun, trigger, facts)
        row, after = fired.row, fired.after
        spent = spending
        if row.spends is not None:
            lineage = after.lineage if isinstance(after, Step) else self._lineage(after)
            spent = ((budget_key(row.spends, lineage), 1), *spending)
        if spent:
            self._charge(spent)
        self.fired.append((machine, fired))
        noun_id = self._keep(noun, after)
        attempt = after.attempt if isinstance(after, Step) else 0
        changes, read = fired.changes, fired.facts
        self._events.append(
            _event(row.id, machine.name, noun_id, self.now, attempt, changes, read, spent)
        )
        return after

    def create(self, noun: Failure | Question) -> None:
        """Bring a failure or a question into being, in the initial state of its machine."""
        changes = {
            name: value for name, value in attrs.asdict(noun, recurse=False).items() if name != "id"
        }
        self._keep(None, noun)
        self._events.append(Event(CREATED, KIND_OF[type(noun)], noun.id, self.now, 0, changes))

    def note(self, row: str, step_id: str, attempt: int, facts: Mapping[str, Any]) -> None:
        """Put something on record that changes nothing."""
        self._events.append(Event(row, "step", step_id, self.now, attempt, EMPTY, facts))

    def charge(self, row: str, subject: tuple[str, str], *spent: tuple[str, float]) -> None:
        """Use some of the run's budgets, on record."""
        used = tuple((budget, amount) for budget, amount in spent if amount)
        if used:
            self._charge(used)
            noun, noun_id = subject
            self._events.append(Event(row, noun, noun_id, self.now, spent=used))

    def leave_out(self, step_id: str) -> None:
        """Record in the goal that it is pursued without this step."""
        if step_id not in self.run.without:
            without = (*self.run.without, step_id)
            self.run = attrs.evolve(self.run, without=without)
            self._events.append(
                Event(GOAL_REDUCED, "loop", self.run.id, self.now, 0, {"without": without})
            )

    def keep_prepared(self, failure_id: str, value: object) -> None:
        """Keep what the preparation of a planned recovery brought, until it is applied."""
        self._edit("prepared")[failure_id] = value

    def drive(self, at: float | None) -> None:
        """Note until when time has been charged; None: nobody drives the run."""
        self._scalars["driven_at"] = at

    def end(self, state: LoopState, reason: str) -> None:
        """Say that this unit ends the run; the caller settles what is left."""
        self.ending = state
        self.end_reason = reason

    def dequeue(self, place: int) -> None:
        """Take what stands at `place` out of the queue of READY steps."""
        queue: ReadyQueue = self._scalar("ready")
        self._scalars["ready"] = queue.without(place)

    def finish(self, cause: str) -> tuple[RunState, Unit]:
        """Ask the run contracts; return the next state and the unit that leads to it."""
        for machine, fired in self.fired:
            if fired.row.ensures_run:
                machine.ensures_of_run_hold(fired, self.before, self)
        for (kind, noun_id), noun in self.written.items():
            if kind == "step":
                self._edit("steps")[noun_id] = noun
        changes = {"run": self.run, **self._scalars}
        for name, edit in self._edits.items():
            changes[name] = edit.finish()
        after = evolved(self.before, changes)
        return after, _unit(cause, tuple(self._events))

    # Keeping nouns and indexes

    def _map(self, name: str) -> Any:
        edit = self._edits.get(name)
        return getattr(self.before, name) if edit is None else edit

    def _edit(self, name: str) -> MapMutation[Any, Any]:
        edit = self._edits.get(name)
        if edit is None:
            before: Map[Any, Any] = getattr(self.before, name)
            edit = self._edits[name] = before.mutate()
        return edit

    def _scalar(self, name: str) -> Any:
        return self._scalars[name] if name in self._scalars else getattr(self.before, name)

    def _charge(self, spent: Spent) -> None:
        totals = self._edit("spent")
        for key, amount in spent:
            totals[key] = totals.get(key, 0) + amount

    def _lineage(self, noun: AnyNoun) -> str:
        return self.lineage_of(noun.subject) if isinstance(noun, (Failure, Question)) else noun.id

    def _keep(self, before: Any, after: AnyNoun) -> str:
        noun_class, noun_id = type(after), after.id
        self.written[KIND_OF[noun_class], noun_id] = after
        _KEEPERS[noun_class](self, before, after)
        return noun_id

    def _keep_run(self, before: Run, after: Run) -> None:
        self.run = after

    def _keep_step(self, before: Step, after: Step) -> None:
        passage = PASSAGES[before.state._name_, after.state._name_]
        for count, change in passage.counts:
            self._scalars[count] = self._scalar(count) + change
        for index in passage.joins:
            self._edit(index)[after.id] = True
        for index in passage.leaves:
            self._edit(index).pop(after.id)
        if passage.queues:
            self._enqueue(after.id)
        if passage.counts_for_others and is_satisfied_by(before) != is_satisfied_by(after):
            self._count_unmet(after.id, -1 if is_satisfied_by(after) else 1)

    def _enqueue(self, step_id: str) -> None:
        queue: ReadyQueue = self._scalar("ready")
        self._scalars["ready"] = queue.including(step_id)

    def _count_unmet(self, step_id: str, change: int) -> None:
        unmet = self._edit("unmet")
        for dependent in self.dag.dependents(step_id):
            left = unmet.get(dependent, 0) + change
            if left:
                unmet[dependent] = left
            else:
                unmet.pop(dependent, None)
                self.satisfied.append(dependent)

    def _keep_failure(self, before: Failure | None, after: Failure) -> None:
        self._edit("failures")[after.id] = after
        if before is not None and before.scope != after.scope:
            self._release(before)
        if before is None or before.scope != after.scope:
            self._hold(after)
        if after.state in SETTLED:
            if self._map("unsettled").get(after.subject) == after.id:
                self._edit("unsettled").pop(after.subject)
        else:
            self._edit("unsettled")[after.subject] = after.id
        self._member("undecided", after.id, after.state in UNDECIDED, after.number)
        is_planned = after.state is FailureState.RECOVERY_PLANNED
        self._member("planned", after.id, is_planned, after.number)
        if not is_planned and after.id in self._map("prepared"):
            self._edit("prepared").pop(after.id)

    def _member(self, index: str, key: str, belongs: bool, order: int) -> None:
        if belongs != (key in self._map(index)):
            if belongs:
                self._edit(index)[key] = order
            else:
                self._edit(index).pop(key)

    def _hold(self, failure: Failure) -> None:
        if failure.scope == WHOLE_PLAN:
            self._scalars["draining"] = self.draining or failure.id
            return
        for step_id in failure.scope:
            if step_id not in self._map("held"):
                self._edit("held")[step_id] = failure.id

    def _release(self, failure: Failure) -> None:
        if self.draining == failure.id:
            self._scalars["draining"] = None
        for step_id in failure.scope:
            if self._map("held").get(step_id) == failure.id:
                self._edit("held").pop(step_id)
                if self.state_of(step_id) is StepState.READY:
                    self._enqueue(step_id)

    def _keep_question(self, before: Question | None, after: Question) -> None:
        self._edit("questions")[after.id] = after
        if after.state is QuestionState.OPEN:
            self._edit("asked")[after.subject] = after.id
        elif self._map("asked").get(after.subject) == after.id:
            self._edit("asked").pop(after.subject)
        if after.token is not None:
            self._edit("tokens")[after.token] = after.id
        if after.choice == Choice.RAISE and after.raised_to is not None:
            self._edit("limits")[after.context["budget"]] = after.raised_to


_KEEPERS: dict[type, Callable[..., None]] = {
    Step: Draft._keep_step,
    Failure: Draft._keep_failure,
    Question: Draft._keep_question,
    Run: Draft._keep_run,
}
