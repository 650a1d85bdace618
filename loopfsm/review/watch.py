"""What must never be seen in the events of a call, whatever the machines themselves say.

The watch keeps its own books: it replays events over the nouns it knows, counts what was
planned and started, and remembers what every attempt may have done outside. Nothing here
asks a guard or an index of the core, so that a rule taken back from the tables is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from attrs import evolve, field, frozen

from loopfsm.engine.inputs import Answer, Cancel, Command, Drive, Input, Judged, Refuse, Result
from loopfsm.engine.state import state_of
from loopfsm.model.event import CREATED, LATE_RESULT, Event, Unit
from loopfsm.model.failure import (
    LAST_RUNGS,
    OPEN,
    RUN,
    SETTLED,
    UNDECIDED,
    WHOLE_PLAN,
    Failure,
    FailureKind,
    FailureState,
)
from loopfsm.model.loop_state import ENDED, LoopState, RunState
from loopfsm.model.question import Choice, Question, QuestionState
from loopfsm.model.step import (
    FAILED_STATES,
    FINAL,
    IN_FLIGHT,
    Step,
    StepState,
    Verdict,
)


@frozen
class Memory:
    """What the watch remembers of one step beside its noun; part of an explored state."""

    may_repeat: bool = True
    """A further attempt could do nothing twice, or a person allowed it."""
    recoveries: int = 0
    """Recoveries that no person ordered, interrupts included."""
    retries: int = 0
    """Those among them that re-execute the step."""


@frozen
class Memories:
    """The memory of every step, and the starts of the run."""

    of_step: Mapping[str, Memory]
    starts: int = 0
    crashed: bool = field(default=False, eq=False)


def violations(
    memories: Memories,
    before: RunState,
    item: Iterable[Input],
    after: RunState,
    units: Iterable[Unit],
    commands: Iterable[Command],
) -> tuple[Memories, list[str]]:
    """Replay one call; return the new memories and every law that it broke."""
    inputs = tuple(item)
    watch = _Watch(before, memories, inputs)
    for one in inputs:
        watch.take(one)
    for unit in units:
        for event in unit.events:
            watch.see(event)
    watch.compare(after)
    found = [*watch.found, *at_rest(after), *_refused(inputs, commands)]
    return Memories(dict(watch.memory), watch.starts), found


_CREATED: Mapping[str, type[Any]] = {"failure": Failure, "question": Question}


class _Watch:
    """The nouns as the events leave them, checked event by event."""

    def __init__(self, before: RunState, memories: Memories, inputs: tuple[Input, ...]) -> None:
        self.before = before
        self.inputs = inputs
        self.steps = dict(before.steps)
        self.failures = dict(before.failures)
        self.questions = dict(before.questions)
        self.run = before.run
        self.memory = dict(memories.of_step)
        self.starts = memories.starts
        self.skipped = False
        self.found: list[str] = []

    def take(self, item: Input) -> None:
        """Remember what an input says of the world."""
        if isinstance(item, Result):
            self.memory[item.step_id] = self._after_result(item)
        elif isinstance(item, Judged):
            judgements = (item.evaluation, item.verification)
            if any(j is not None and j.verdict is Verdict.FAILED for j in judgements):
                self._no_repeat(item.step_id)
        elif isinstance(item, Answer) and item.choice == Choice.RETRY:
            memory = self.memory[item.subject]
            self.memory[item.subject] = evolve(memory, may_repeat=True)
        elif isinstance(item, Drive) and item.resumed:
            for step in self.steps.values():
                if step.state is StepState.RUNNING:
                    self._no_repeat(step.id)

    def _after_result(self, result: Result) -> Memory:
        step, memory = self.steps[result.step_id], self.memory[result.step_id]
        spec = step.spec
        if result.attempt != step.attempt or step.state is not StepState.RUNNING:
            return memory  # given up before: what it may have done is remembered
        if spec.idempotent or result.failure is FailureKind.NOT_EXECUTED:
            return memory
        trusted = result.failure is FailureKind.REPORTED and spec.max_retries is not None
        return evolve(memory, may_repeat=trusted)

    def _no_repeat(self, step_id: str) -> None:
        if not self.steps[step_id].spec.idempotent:
            self.memory[step_id] = evolve(self.memory[step_id], may_repeat=False)

    def see(self, event: Event) -> None:
        """Check an event against what stood before it, then let it stand."""
        if event.noun == "step" and event.row != LATE_RESULT and "state" in event.changes:
            self._see_step(self.steps[event.id], event)
        elif event.noun == "failure":
            self._see_failure(self.failures.get(event.id), event)
        elif event.noun == "loop" and "state" in event.changes:
            self._see_loop(event.changes["state"])
        self._apply(event)

    def _see_step(self, step: Step, event: Event) -> None:
        to = event.changes["state"]
        if to is StepState.RUNNING:
            self._see_start(step)
        if step.state in IN_FLIGHT:
            self._see_result(step, to)
        if to is StepState.CANCELLED and step.state in IN_FLIGHT:
            self._say(f"the end of the run cancels {step.id}, whose attempt is under way")
        if step.state is StepState.RUNNING and to is StepState.READY:
            self._count_recovery(step.id, retry=False)
        elif step.state is StepState.RUNNING and self._was_interrupted(step):
            memory = self.memory[step.id]
            if memory.may_repeat and memory.recoveries < self.before.plan.policy.recoveries:
                self._say(f"{step.id} fails of a crash, although it could be begun anew")
        failure = self._failure_of(step.id)
        ordered = failure is not None and failure.ordered
        if to is StepState.ABSTAINED and not ordered and self._critical_failed():
            self._say(f"{step.id} abstains although a critical step stands failed")
        if to is StepState.RETRY_PENDING:
            left = self.before.left_of("seconds")
            wait = event.changes["not_before"] - event.at
            if left is not None and wait and wait >= left:
                self._say(f"{step.id} waits {wait:g} s, and the run has {left:g} s left")
        if to is StepState.SKIPPED:
            self.skipped = True
            if failure is not None and not ordered and not step.spec.optional:
                self._say(f"{step.id} is required, and skipped although nobody ordered it")

    def _failure_of(self, subject: str) -> Failure | None:
        unsettled = (f for f in self.failures.values() if f.state not in SETTLED)
        return next((failure for failure in unsettled if failure.subject == subject), None)

    def _critical_failed(self) -> bool:
        stands_failed = (*FAILED_STATES, StepState.WAITING_FOR_HUMAN)
        return any(s.spec.critical and s.state in stands_failed for s in self.steps.values())

    def _see_start(self, step: Step) -> None:
        self.starts += 1
        if self.before.driven_at is None and not self._is_taken_up():
            self._say(f"{step.id} starts although nobody drives the run")
        limit = self.before.limit_of("tool_calls")
        raised = [i.raised_to for i in self.inputs if isinstance(i, Answer) and i.raised_to]
        if limit is not None and self.starts > max([limit, *raised]):
            self._say(f"{step.id} starts although the budget tool_calls is spent")
        for failure in self.failures.values():
            held = failure.scope == WHOLE_PLAN or step.id in failure.scope
            if failure.state is FailureState.RECOVERY_PLANNED and held:
                self._say(f"{step.id} starts inside the planned scope of {failure.id}")
        for need in step.spec.needs:
            needed = self.steps[need]
            skipped = needed.state is StepState.SKIPPED and needed.spec.optional
            uses = need in step.spec.used_outputs
            if needed.state is not StepState.VERIFIED_COMPLETED and (not skipped or uses):
                self._say(f"{step.id} starts although {need} is {needed.state.name}")
        if not self.memory[step.id].may_repeat:
            self._say(f"{step.id} is not idempotent, may have acted, and starts again unasked")

    def _is_taken_up(self) -> bool:
        return any(isinstance(item, Drive) for item in self.inputs)

    def _was_interrupted(self, step: Step) -> bool:
        """Its process had died: no result moves it."""
        return self._is_taken_up() and step == self.before.steps[step.id]

    def _see_result(self, step: Step, to: StepState) -> None:
        stale = {
            item.attempt
            for item in self.inputs
            if isinstance(item, (Result, Judged))
            and item.step_id == step.id
            and item.attempt != step.attempt
        }
        current = any(
            isinstance(item, (Result, Judged))
            and item.step_id == step.id
            and item.attempt == step.attempt
            for item in self.inputs
        )
        if stale and not current and not self._is_taken_up():
            self._say(
                f"a result of attempt {min(stale)} of {step.id} moves its attempt to {to.name}"
            )

    def _see_failure(self, failure: Failure | None, event: Event) -> None:
        to = event.changes.get("state")
        if failure is None:
            if event.changes["kind"] is FailureKind.BROKEN:
                self._say(f"a contract was broken: {event.changes['message']}")
            return
        if to is FailureState.RECOVERY_FAILED and not self._may_fail(failure, event):
            self._say(f"{failure.strategy} failed: {event.changes['reason']}")
        if to is FailureState.RECOVERY_PLANNED and failure.state in UNDECIDED:
            strategy = event.changes["strategy"]
            if strategy not in LAST_RUNGS:
                self._count_recovery(failure.subject, retry="RETRY" in strategy)
            elif event.spent:
                self._say(f"{strategy} spends {event.spent}, though it tries nothing again")
        if failure.state is FailureState.RECOVERY_PLANNED:
            self._see_planned(failure, to)
        if to is FailureState.RECOVERY_IN_PROGRESS:
            names = self.steps if failure.scope == WHOLE_PLAN else failure.scope
            for name in names:
                if name in self.steps and self.steps[name].state in IN_FLIGHT:
                    self._say(f"{failure.strategy} is applied while {name} is under way")

    def _see_planned(self, failure: Failure, to: FailureState | None) -> None:
        """What becomes of a planned recovery when the process dies that was to apply it."""
        if to is FailureState.RECOVERY_PLANNED:
            self._count_recovery(failure.subject, retry=False)
            if not failure.ordered:
                self._say(f"{failure.strategy} outlives a crash although nobody ordered it")
        if to is FailureState.UNHANDLED and failure.ordered:
            spent = self.memory[failure.subject].recoveries
            if spent < self.before.plan.policy.recoveries:
                self._say(f"the order {failure.strategy} of a person is lost in a crash")

    def _may_fail(self, failure: Failure, event: Event) -> bool:
        """The recovery failed for a reason outside it, not because a contract was broken.

        Its preparation failed; or it was planned in an earlier call, and its guards no
        longer hold.
        """
        if any(getattr(item, "error", "") for item in self.inputs):
            return True
        earlier = self.before.failures.get(failure.id)
        waited = earlier is not None and earlier.state is FailureState.RECOVERY_PLANNED
        evidence = event.changes["evidence"].get(f"recovery {failure.strategy}", {})
        return waited and evidence.get("error") == "TransitionRefused"

    def _count_recovery(self, subject: str, *, retry: bool) -> None:
        memory = self.memory[subject]
        policy = self.before.plan.policy
        recoveries, retries = memory.recoveries + 1, memory.retries + int(retry)
        self.memory[subject] = evolve(memory, recoveries=recoveries, retries=retries)
        if recoveries > policy.recoveries:
            self._say(f"{subject} gets more recoveries than its lineage may have")
        if subject != RUN and retries > policy.retries_of(self.steps[subject].spec):
            self._say(f"{subject} is retried more often than it may be")

    def _see_loop(self, to: LoopState) -> None:
        changes = self.skipped
        if (to is LoopState.REPLANNING) and not changes:
            self._say("the loop replans although only retries were applied")
        if (to is LoopState.ITERATION_COMPLETE) and changes:
            self._say("the loop calls an iteration complete in which the plan was reduced")

    def _apply(self, event: Event) -> None:
        if event.noun == "loop":
            self.run = evolve(self.run, **event.changes)
            return
        table: dict[str, Any] = getattr(self, f"{event.noun}s")
        if event.row == CREATED:
            table[event.id] = _CREATED[event.noun](**event.changes)
        elif event.changes:
            table[event.id] = evolve(table[event.id], **event.changes)

    def compare(self, after: RunState) -> None:
        """The events must lead to the state: nothing changes that no event tells."""
        for kept, nouns in (
            (self.steps, after.steps),
            (self.failures, after.failures),
            (self.questions, after.questions),
        ):
            for noun_id, noun in kept.items():
                if nouns[noun_id] != noun:
                    self._say(f"{noun_id} changed without an event")
        if self.run != after.run:
            self._say("the loop changed without an event")

    def _say(self, violation: str) -> None:
        self.found.append(violation)


def intrusion(
    before: RunState, item: Input, after: RunState, commands: Iterable[Command]
) -> Iterator[str]:
    """An input that does not belong changes nothing, and a refusal names what refused."""
    for command in commands:
        if not isinstance(command, Refuse) or isinstance(item, Cancel):
            continue
        if " needs " not in command.error.problem:
            yield f"an answer is refused for no rule: {command.error.problem}"
    for nouns in ("steps", "failures", "questions", "spent"):
        if getattr(before, nouns) != getattr(after, nouns):
            yield f"an input that does not belong changes the {nouns}: {item}"


def _refused(inputs: tuple[Input, ...], commands: Iterable[Command]) -> Iterator[str]:
    for command in commands:
        if isinstance(command, Refuse):
            yield f"an answer that was offered is refused: {command.error.problem}"


def at_rest(state: RunState) -> Iterator[str]:
    """What must be true of a state between two calls."""
    yield from _failures_and_questions(state)
    yield from _loop_state(state)
    nouns = (state.steps.values(), state.failures.values(), state.questions.values())
    recount = state_of(state.run, state.plan, state.dag, *nouns, state.spent)  # type: ignore[arg-type]  # any dag will do
    for index in _INDEXES:
        if getattr(recount, index) != getattr(state, index):
            told, counted = getattr(state, index), getattr(recount, index)
            yield f"the index {index} is {told}, recounted {counted}"


_INDEXES = tuple(
    name
    for name in attrs.fields_dict(RunState)
    if name not in ("run", "plan", "dag", "spent", "driven_at", "ready", "prepared")
)


def _failures_and_questions(state: RunState) -> Iterator[str]:
    open_failures: dict[str, list[Failure]] = {}
    unsettled: dict[str, int] = {}
    for failure in state.failures.values():
        if failure.state in OPEN:
            open_failures.setdefault(failure.subject, []).append(failure)
        if failure.state not in SETTLED:
            unsettled[failure.subject] = unsettled.get(failure.subject, 0) + 1
    for subject, count in unsettled.items():
        if count > 1:
            yield f"{subject} has {count} failures that are not settled"
    asked = {q.subject for q in state.questions.values() if q.state is QuestionState.OPEN}
    for step in state.steps.values():
        stands = {failure.state for failure in open_failures.get(step.id, ())}
        if step.state in FAILED_STATES:
            if len(stands) != 1 or stands == {FailureState.ESCALATED}:
                yield f"{step.id} is {step.state.name}, its open failures: {stands or 'none'}"
        elif step.state is StepState.WAITING_FOR_HUMAN:
            if stands != {FailureState.ESCALATED} or step.id not in asked:
                yield f"{step.id} waits for a person who is not asked"
        elif stands:
            yield f"{step.id} is {step.state.name}, yet a failure of it is open: {stands}"


def _loop_state(state: RunState) -> Iterator[str]:
    stands = state.run.state
    planned = any(f.state is FailureState.RECOVERY_PLANNED for f in state.failures.values())
    asked = any(q.state is QuestionState.OPEN for q in state.questions.values())
    if stands in ENDED:
        moving = [step.id for step in state.steps.values() if step.state not in FINAL]
        if moving:
            yield f"the run is {stands.name}, but {', '.join(moving)} could still move"
        if asked or any(f.state not in SETTLED for f in state.failures.values()):
            yield f"the run is {stands.name}, but something about it is unsettled"
        skipped = any(step.state is StepState.SKIPPED for step in state.steps.values())
        if stands is LoopState.COMPLETED and skipped:
            yield "the run is COMPLETED although a step was skipped"
        return
    expected = LoopState.EXECUTING
    if planned:
        expected = LoopState.RECOVERING
    elif asked:
        expected = LoopState.WAITING_FOR_HUMAN
    if stands not in (expected, LoopState.INITIALIZED):
        yield f"the loop rests in {stands.name}, expected {expected.name}"
