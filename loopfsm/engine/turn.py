"""One call of `advance` under way: the state so far, its units, its commands."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from loopfsm.engine.inputs import CallTool, Command, Due, Evaluate, Expired, Prepare, Verify, WakeAt
from loopfsm.machines import AnyNoun, Machines
from loopfsm.model.compiled import maker_of
from loopfsm.model.event import Unit
from loopfsm.model.failure import RUN, UNDECIDED, Failure, FailureKind, FailureState
from loopfsm.model.loop_state import LoopState, RunState, RunView
from loopfsm.model.question import Question, QuestionState
from loopfsm.model.step import Step, StepState
from loopfsm.recovery.base import RecoveryCase
from loopfsm.recovery.registry import RecoveryRegistry
from loopfsm.unit import Draft

_call_tool = maker_of(CallTool)


@attrs.define
class Turn:
    """Accumulates what one call of `advance` does; nothing of it outlives the call."""

    state: RunState
    registry: RecoveryRegistry
    machines: Machines
    now: float
    units: list[Unit] = attrs.field(factory=list)
    commands: list[Command] = attrs.field(factory=list)
    applied: list[LoopState] = attrs.field(factory=list)
    """Where each recovery applied in this call leads the loop."""
    end: tuple[LoopState, str] | None = None
    """The final state that a recovery of this call decided, and why."""

    def unit(self, cause: str, work: Callable[[Draft], None]) -> bool:
        """Do `work` as one unit: all of it stands, or it raises and none does.

        Returns whether it changed or noted anything.
        """
        draft = Draft(self.state, self.machines, self.now)
        work(draft)
        for step_id in draft.satisfied:
            schedule(draft, step_id)
        after, unit = draft.finish(cause)
        self.state = after
        for noun in draft.written.values():
            command = command_for(noun, self.registry)
            if command is not None:
                self.commands.append(command)
        if draft.ending is not None:
            self.end = (draft.ending, draft.end_reason)
        if draft.leads_to is not None:
            self.applied.append(draft.leads_to)
        if unit.events:
            self.units.append(unit)
        return bool(unit.events)

    def case_of(self, failure: Failure, draft: Draft) -> RecoveryCase:
        """The case that a failure is for its strategies, inside a unit."""
        return case_of(failure, draft, self.state, self.now)


def case_of(failure: Failure, view: RunView, state: RunState, now: float) -> RecoveryCase:
    """The case that a failure is for its strategies: `view` is what they see of the run."""
    return RecoveryCase(
        failure=failure,
        step=None if failure.subject == RUN else view.step(failure.subject),
        state=view,
        policy=state.plan.policy,
        now=now,
        granted=failure.kind is FailureKind.CANCELLED
        or (failure.ordered and failure.state not in UNDECIDED),
    )


def schedule(draft: Draft, step_id: str) -> None:
    """Make a PENDING step READY if every dependency of it is satisfied."""
    step, unmet = draft.step(step_id), draft.unmet(step_id)
    if step.state is StepState.PENDING and draft.may(step, "schedule", unmet=unmet):
        draft.fire(step, "schedule", unmet=unmet)


def command_for(noun: AnyNoun, registry: RecoveryRegistry) -> Command | None:
    """What the world has to do because this noun stands as it stands; None: nothing.

    A function of the noun alone, so that a resumed run asks for the same.
    """
    if isinstance(noun, Step):
        return _command_for_step(noun)
    if isinstance(noun, Failure) and noun.state is FailureState.RECOVERY_PLANNED:
        handler = registry.get(noun.strategy or "")
        return Prepare(noun.id, noun.plans) if handler is not None and handler.prepares else None
    if isinstance(noun, Question) and noun.state is QuestionState.OPEN:
        return None if noun.deadline is None else WakeAt(noun.deadline, Expired(noun.id))
    return None


def _command_for_step(step: Step) -> Command | None:
    if step.state is StepState.RUNNING:
        return _call_tool(step.id, step.attempt)
    if step.state is StepState.EXECUTED:
        return Evaluate(step.id, step.attempt)
    if step.state is StepState.EVALUATED:
        return Verify(step.id, step.attempt)
    if step.state is StepState.RETRY_PENDING and step.not_before is not None:
        return WakeAt(step.not_before, Due(step.id))
    return None
