"""What the world must be asked to do: nothing under way may wait for what nobody does.

Kept beside the watch, and like it without asking the core: what stands in a state that only
the world can end has been asked of the world, once, and again of whoever takes the run up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopfsm.engine.inputs import (
    Accepted,
    CallTool,
    Command,
    Drive,
    Due,
    Evaluate,
    Expired,
    Input,
    Prepare,
    Refuse,
    Verify,
    WakeAt,
)
from loopfsm.model.failure import FailureState
from loopfsm.model.loop_state import ENDED, RunState
from loopfsm.model.question import QuestionState
from loopfsm.model.step import Step, StepState
from loopfsm.review.plans import Reconsider


def unasked(
    before: RunState, inputs: Iterable[Input], after: RunState, commands: Iterable[Command]
) -> Iterator[str]:
    """What is under way after a call and was never asked for, and what was asked for nothing."""
    if after.driven_at is None or after.run.state in ENDED:
        return
    listed = [each for each in commands if not isinstance(each, (Accepted, Refuse))]
    given = set(listed)
    if len(listed) > len(given):
        yield f"somebody is asked twice: {', '.join(map(tell, listed))}"
    due = set(under_way(after))
    begun = any(isinstance(item, Drive) for item in inputs)
    for command in due - given - (set() if begun else set(under_way(before))):
        yield f"nobody is asked to {tell(command)}"
    for command in given - due:
        yield f"somebody is asked to {tell(command)}, and nothing waits for it"


def under_way(state: RunState) -> Iterator[Command]:
    """What the nouns wait for."""
    for step in state.steps.values():
        yield from _of_step(step)
    for question in state.questions.values():
        if question.state is QuestionState.OPEN and question.deadline is not None:
            yield WakeAt(question.deadline, Expired(question.id))
    for failure in state.failures.values():
        planned = failure.state is FailureState.RECOVERY_PLANNED
        if planned and failure.strategy == Reconsider.strategy and failure.id not in state.prepared:
            yield Prepare(failure.id, failure.plans)


def _of_step(step: Step) -> Iterator[Command]:
    if step.state is StepState.RUNNING:
        yield CallTool(step.id, step.attempt)
    elif step.state is StepState.EXECUTED:
        yield Evaluate(step.id, step.attempt)
    elif step.state is StepState.EVALUATED:
        yield Verify(step.id, step.attempt)
    elif step.state is StepState.RETRY_PENDING:
        yield WakeAt(step.not_before or 0.0, Due(step.id))


def tell(command: Command) -> str:
    """A command, as a person would tell it."""
    if isinstance(command, WakeAt):
        about = command.then
        subject = about.step_id if isinstance(about, Due) else about.question_id
        return f"wake {subject} at {command.at:g}"
    subject = getattr(command, "step_id", "") or getattr(command, "failure_id", "")
    return f"{type(command).__name__} {subject}"
