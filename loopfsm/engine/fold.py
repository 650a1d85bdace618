"""How each input is folded over the state: what a result, an answer, a timer means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.engine.inputs import (
    Drive,
    Due,
    Judged,
    Park,
    Prepared,
    Result,
)
from loopfsm.engine.turn import Turn, schedule
from loopfsm.model.event import CHARGED, LATE_RESULT
from loopfsm.model.failure import (
    RUN,
    Failure,
    FailureKind,
    FailureState,
)
from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import Step, StepState, Verdict
from loopfsm.ports import Judgement
from loopfsm.unit import Draft

# Results


def fold_result(turn: Turn, draft: Draft, result: Result) -> None:
    """An attempt ended: record it and judge it, or fail the step."""
    step = draft.step(result.step_id)
    charge_usage(draft, result)
    trigger = "record" if result.failure is None else "fail_evaluation"
    if step.state is not StepState.RUNNING or not draft.may(step, trigger, attempt=result.attempt):
        note_late(draft, result)
    elif result.failure is None:
        attempt, output = result.attempt, result.output
        step = draft.fire(step, "record", attempt=attempt, output=output, now=turn.now)
        judge(draft, step, result.evaluation, result.verification)
    else:
        fail(
            draft,
            step,
            "fail_evaluation",
            result.failure,
            result.message,
            result.evidence,
            attempt=result.attempt,
            now=turn.now,
            executed=result.failure is not FailureKind.NOT_EXECUTED,
            reported=result.failure is FailureKind.REPORTED,
        )


def charge_usage(draft: Draft, item: Result | Judged) -> None:
    """What an attempt used is used, whatever becomes of its result."""
    usage = (("tokens", item.tokens), ("cost", item.cost))
    draft.charge(CHARGED, ("step", item.step_id), *usage)


def note_late(draft: Draft, item: Result | Judged) -> None:
    """Put a result or verdict on record that comes after its attempt was given up."""
    facts: dict[str, Any] = {"stands": draft.step(item.step_id).state.value}
    facts["attempt"] = item.attempt
    if isinstance(item, Result):
        facts["message"] = item.message
    draft.note(LATE_RESULT, item.step_id, item.attempt, facts)


def fold_judged(turn: Turn, draft: Draft, judged: Judged) -> None:
    """An awaited verdict came: pass or fail the step it belongs to, if it still stands there."""
    step = draft.step(judged.step_id)
    charge_usage(draft, judged)
    phase = "verification" if judged.evaluation is None else "evaluation"
    judgement = judged.verification if judged.evaluation is None else judged.evaluation
    expected = StepState.EVALUATED if judged.evaluation is None else StepState.EXECUTED
    refused = judgement is not None and judgement.verdict is Verdict.FAILED
    trigger = f"{'fail' if refused else 'pass'}_{phase}"
    if step.state is expected and draft.may(step, trigger, attempt=judged.attempt):
        judge(draft, step, judged.evaluation, judged.verification)
    else:
        note_late(draft, judged)


def judge(
    draft: Draft,
    step: Step,
    evaluation: Judgement | None,
    verification: Judgement | None,
) -> None:
    """Take a recorded result as far as the verdicts at hand lead."""
    attempt = {"attempt": step.attempt}
    if step.state is StepState.EXECUTED and evaluation is not None:
        if evaluation.verdict is Verdict.FAILED:
            kind, said = FailureKind.REJECTED, evaluation
            fail(draft, step, "fail_evaluation", kind, said.message, said.evidence, **attempt)
            return
        step = draft.fire(step, "pass_evaluation", verdict=evaluation.verdict, **attempt)
    if step.state is StepState.EVALUATED and verification is not None:
        if verification.verdict is Verdict.FAILED:
            kind, said = FailureKind.NOT_VERIFIED, verification
            fail(draft, step, "fail_verification", kind, said.message, said.evidence, **attempt)
            return
        step = draft.fire(step, "pass_verification", verdict=verification.verdict, **attempt)
        confirm(draft, step.id, f"{step.id} is verified")
    elif step.state is StepState.EVALUATED and step.spec.verify is not None:
        draft.charge(CHARGED, ("step", step.id), ("tool_calls", 1))


def fail(
    draft: Draft,
    step: Step,
    trigger: str,
    kind: FailureKind,
    message: str,
    evidence: Mapping[str, Any],
    **facts: Any,
) -> None:
    """Fail the step, with one new failure; an earlier one of its lineage is superseded (B10)."""
    earlier = draft.failure_of(step.id)
    if earlier is not None:
        why = f"{step.id} failed again"
        draft.fire(earlier, "supersede", why=why)
    draft.create(
        Failure(
            number=draft.count_failures() + 1,
            subject=step.id,
            kind=kind,
            message=message,
            occurred_at=draft.now,
            attempt=step.attempt,
            evidence=evidence,
        )
    )
    draft.fire(step, trigger, **facts)


def confirm(draft: Draft, subject: str, why: str) -> None:
    """Settle the failure whose recovery has now proved itself."""
    failure = draft.failure_of(subject)
    if failure is not None:
        draft.fire(failure, "confirm", why=why)


# Timers, preparations


def fold_due(turn: Turn, draft: Draft, due: Due) -> None:
    """The wait of a delayed retry is over, unless something else moved the step."""
    step = draft.step(due.step_id)
    if draft.may(step, "due", now=turn.now):
        draft.fire(step, "due", now=turn.now, unmet=draft.unmet(step.id))


def fold_prepared(turn: Turn, draft: Draft, prepared: Prepared) -> None:
    """Keep what a preparation brought, or count it as a failed recovery."""
    failure = draft.failure(prepared.failure_id)
    if failure.state is not FailureState.RECOVERY_PLANNED or failure.plans != prepared.plan:
        return
    if prepared.error:
        fail_recovery(draft, failure.id, prepared.error, prepared.evidence)
    else:
        draft.keep_prepared(failure.id, prepared.value)


def fail_recovery(draft: Draft, failure_id: str, why: str, evidence: Mapping[str, Any]) -> None:
    """A handler failed and nothing changed; its attempt stays spent."""
    draft.fire(draft.failure(failure_id), "handler_failed", why=why, evidence=evidence)


# The run as a whole


def withdraw(draft: Draft, failure: Failure, why: str) -> None:
    """Give a planned recovery up; its attempt stays spent."""
    recoveries = draft.recoveries_left(failure.subject)
    draft.fire(failure, "withdraw", recoveries=recoveries, why=why)


def fail_run(draft: Draft, kind: FailureKind, message: str, evidence: Mapping[str, Any]) -> None:
    """Create a failure that concerns the run; an open one about a budget gives way."""
    if kind is FailureKind.BROKEN and draft.draining is not None:
        fail_recovery(draft, draft.draining, message, {})  # an end by choice is none any more
    withdraw_run_failure(draft, message)
    draft.create(
        Failure(
            number=draft.count_failures() + 1,
            subject=RUN,
            kind=kind,
            message=message,
            occurred_at=draft.now,
            evidence=evidence,
        )
    )


def withdraw_run_failure(draft: Draft, why: str) -> None:
    """Withdraw the question about the run and supersede its failure, where there are any."""
    question = draft.question_of(RUN)
    if question is not None:
        draft.fire(question, "withdraw")
    failure = draft.failure_of(RUN)
    if failure is not None:
        draft.fire(failure, "supersede", why=why)


# Driving


def fold_drive(turn: Turn, draft: Draft, drive: Drive) -> None:
    """Somebody drives the run: schedule what can be, or take up what a dead process left."""
    draft.drive(turn.now)
    if draft.run.state is LoopState.INITIALIZED:
        for spec in draft.plan.steps:
            schedule(draft, spec.id)
    elif drive.resumed:
        take_up(turn, draft)
        for subject in sorted(turn.state.asked):
            question = draft.question_of(subject)
            if question is not None:
                draft.written["question", question.id] = question


def fold_park(turn: Turn, draft: Draft, park: Park) -> None:
    """The driver leaves."""
    draft.drive(None)


def take_up(turn: Turn, draft: Draft) -> None:
    """Interrupt the attempts and withdraw the preparations that died with their process."""
    for step_id in sorted((*turn.state.in_flight, *turn.state.delayed)):
        step = draft.step(step_id)
        if step.state is StepState.RUNNING:
            interrupt(draft, step)
        else:
            draft.written["step", step.id] = step
    planned = turn.state.planned
    for failure_id in sorted(planned, key=planned.__getitem__):
        withdraw(draft, draft.failure(failure_id), "the process that prepared it died")


def interrupt(draft: Draft, step: Step) -> None:
    """The process died during the attempt: start over where that is safe, else fail the step."""
    facts = {
        "recoveries": draft.recoveries_left(step.id),
        "unmet": draft.unmet(step.id),
        "now": draft.now,
    }
    taken = draft.machines.step.explain(step, "interrupt", **facts).row
    if taken is not None and taken.target is StepState.READY:
        draft.fire(step, "interrupt", **facts)
    else:
        kind, why = FailureKind.INTERRUPTED, "the process died during the attempt"
        fail(draft, step, "interrupt", kind, why, {}, **facts)
