"""REQUEST_HUMAN: ask a person, say what was tried, and wait (specification 3.9)."""

from __future__ import annotations

from typing import Any

from loopfsm.lifecycle import Row
from loopfsm.lifecycles.step import one_question_is_open, remember_failed_state
from loopfsm.model.failure import RUN, Failure, FailureKind, RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.question import Choice, Question
from loopfsm.model.step import FAILED_STATES, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult, falling_with
from loopfsm.unit import Draft

ROW = Row(
    id="STEP-22",
    trigger="request_human",
    source=FAILED_STATES,
    target=StepState.WAITING_FOR_HUMAN,
    update=remember_failed_state,
    ensures_run=(one_question_is_open,),
)


class RequestHuman(RecoveryHandler):
    """Put the failure before a person, with the choices that its subject allows."""

    strategy = RecoveryStrategy.REQUEST_HUMAN
    rows = (ROW,)
    trigger = "request_human"
    begins = False

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        return (case.failure.subject,)

    def refusal(self, case: RecoveryCase, unit: Draft) -> str:
        return "" if case.step is None else super().refusal(case, unit)

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        failure = unit.failure(case.failure.id)
        unit.create(question_about(failure, case, unit))
        why = f"asked a person: {failure.message}"
        unit.fire(failure, "escalate", why=why)
        status = None
        if case.step is not None:
            status = unit.fire(case.step, "request_human").state
        return RecoveryResult(
            success=True,
            new_state=LoopState.WAITING_FOR_HUMAN,
            step_status=status,
            message=why,
        )


def question_about(failure: Failure, case: RecoveryCase, unit: Draft) -> Question:
    """The question: what happened, what was tried, what can be ordered (S16)."""
    deadline_s = case.policy.question_deadline_s
    text, choices, context = _about_run(failure) if case.step is None else _about_step(case, unit)
    return Question(
        number=unit.count_questions() + 1,
        subject=failure.subject,
        failure_id=failure.id,
        text=text,
        choices=choices,
        context=context,
        asked_at=case.now,
        deadline=None if deadline_s is None else case.now + deadline_s,
    )


def _about_step(case: RecoveryCase, unit: Draft) -> tuple[str, dict[str, str], dict[str, Any]]:
    step, failure = case.failed_step, case.failure
    falling = len(falling_with(step, unit)) - 1
    fall = f", and {falling} more that depend on it" if falling else ""
    choices = {
        Choice.RETRY.value: f"run {step.id} once more, whatever it may have done already",
        Choice.SKIP.value: f"go on without {step.id}{fall}",
        Choice.STOP.value: "stop the run here and keep what is verified",
    }
    context = {
        "step": step.id,
        "tool": step.spec.tool,
        "kind": failure.kind.value,
        "message": failure.message,
        "attempts": step.attempt,
        "retries": step.retry_count,
        "recoveries_spent": int(unit.spent("recoveries", step.lineage)),
        "failed_recoveries": failure.failed_strategies,
        "evidence": dict(failure.evidence),
    }
    return f"{step.id} failed: {failure.message}", choices, context


def _about_run(failure: Failure) -> tuple[str, dict[str, str], dict[str, Any]]:
    choices = {Choice.STOP.value: "stop the run here and keep what is verified"}
    if failure.kind is FailureKind.BUDGET_SPENT:
        raising = "raise the budget to a higher number and go on"
        choices = {Choice.RAISE.value: raising, **choices}
    return failure.message, choices, {"subject": RUN, **failure.evidence}
