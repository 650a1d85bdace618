"""The step machine: the rows that belong to no strategy.

Each strategy adds its own rows in its file; `recovery/registry.py` composes the one
machine that runs. Guards and ensures here are also what the strategies' rows are made of.

Over 400 lines: one machine stays in one file, data and contracts side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.model.failure import UNDECIDED, FailureState
from loopfsm.model.loop_state import RunView
from loopfsm.model.step import (
    EXECUTION_FIELDS,
    FAILED_STATES,
    FINAL,
    IN_FLIGHT,
    NO_EXECUTION,
    NOT_UNDER_WAY,
    Step,
    StepState,
    Verdict,
)

Changes = Mapping[str, Any]

# Guards


def dependencies_satisfied(step: Step, *, unmet: int) -> bool:
    """Every dependency is verified, or optional and skipped."""
    return unmet == 0


def effect_is_known(step: Step) -> bool:
    """A repeat does nothing twice: idempotent, not acted, a trusted report, or granted since."""
    if step.spec.idempotent:
        return True
    if step.state in IN_FLIGHT:
        return False
    if step.acted_in == 0 or step.granted_in >= step.acted_in:
        return True
    return step.act_reported_failed and step.spec.max_retries is not None


def outside_every_planned_scope(step: Step, *, held_by: str | None) -> bool:
    """No planned recovery is going to write this step."""
    return held_by is None


def budget_left(step: Step, *, spent_budget: str | None) -> bool:
    """No budget of the run is spent."""
    return spent_budget is None


def result_is_of_this_attempt(step: Step, *, attempt: int) -> bool:
    """The result belongs to the attempt under way, not to one that was given up."""
    return attempt == step.attempt


def recoveries_left(step: Step, *, recoveries: int) -> bool:
    """The lineage has recoveries left."""
    return recoveries > 0


def optional_or_granted(step: Step, *, granted: bool) -> bool:
    """The author marked the step optional, or a person ordered it."""
    return step.spec.optional or granted


def failed_in_evaluation(step: Step) -> bool:
    """The step waits because of its evaluation."""
    return step.failed_in is StepState.EVALUATION_FAILED


# Updates


def begin_attempt(step: Step, *, now: float) -> Changes:
    """Count the attempt and note when it began."""
    return {"attempt": step.attempt + 1, "start_time": now}


def record_output(step: Step, *, output: Any, now: float) -> Changes:
    """Keep the result; from now on the step has acted."""
    return {
        "output": output,
        "end_time": now,
        "acted_in": step.attempt,
        "act_reported_failed": False,
    }


def record_evaluation(step: Step, *, verdict: Verdict) -> Changes:
    """Keep the evaluator's verdict."""
    return {"evaluation": verdict}


def record_verification(step: Step, *, verdict: Verdict) -> Changes:
    """Keep the verifier's verdict."""
    return {"verification": verdict}


def record_failed_attempt(step: Step, *, now: float, executed: bool, reported: bool) -> Changes:
    """Note what the attempt may have done outside; a call never made did nothing."""
    if not executed:
        return {"end_time": now}
    return {"end_time": now, "acted_in": step.attempt, "act_reported_failed": reported}


def record_rejection(step: Step) -> Changes:
    """The result stands, and is refused: the step has acted, whatever was reported."""
    return {"evaluation": Verdict.FAILED, "acted_in": step.attempt, "act_reported_failed": False}


def record_failed_verification(step: Step) -> Changes:
    """Keep the verdict beside the output it refuses."""
    return {"verification": Verdict.FAILED}


def clear_interrupted_attempt(step: Step) -> Changes:
    """Forget the attempt that died; it may have acted."""
    return {**NO_EXECUTION, "acted_in": step.attempt, "act_reported_failed": False}


def note_unknown_outcome(step: Step, *, now: float) -> Changes:
    """The attempt died: it may have acted, and nobody knows."""
    return {"end_time": now, "acted_in": step.attempt, "act_reported_failed": False}


def remember_failed_state(step: Step) -> Changes:
    """Note where to return when the question is answered."""
    return {"failed_in": step.state}


def take_answer(step: Step, *, grants_repeat: bool) -> Changes:
    """Leave the question; a granted repeat is a new act with a new idempotency key."""
    if not grants_repeat:
        return {"failed_in": None}
    return {"failed_in": None, "granted_in": step.attempt, "generation": step.generation + 1}


# What must be true on entry


def execution_fields_are_none(step: Step) -> bool:
    """Nothing of an earlier attempt is left."""
    return all(getattr(step, name) is None for name in EXECUTION_FIELDS)


def failed_state_is_remembered(step: Step) -> bool:
    """The step knows the failed state it came from."""
    return step.failed_in in FAILED_STATES


def attempt_is_one_more(before: Step, after: Step) -> bool:
    """Exactly one attempt was added."""
    return after.attempt == before.attempt + 1


def start_time_is_set(before: Step, after: Step, *, now: float) -> bool:
    """The attempt began now."""
    return after.start_time == now


def output_is_none(before: Step, after: Step) -> bool:
    """An attempt starts without an output."""
    return after.output is None


def output_is_recorded(before: Step, after: Step, *, output: Any) -> bool:
    """The output is the one that this attempt returned."""
    return after.output is output and after.attempt == before.attempt


def end_is_not_before_start(before: Step, after: Step) -> bool:
    """Time does not run backwards inside an attempt."""
    return (
        after.start_time is not None
        and after.end_time is not None
        and after.end_time >= after.start_time
    )


def effect_is_on_record(before: Step, after: Step) -> bool:
    """A result was returned, so that the step has acted in this attempt."""
    return after.acted_in == after.attempt


def evaluation_is_favourable(before: Step, after: Step) -> bool:
    """The evaluator passed the result, or there is none."""
    return after.evaluation in (Verdict.PASSED, Verdict.NOT_CHECKED)


def verification_is_favourable(before: Step, after: Step) -> bool:
    """The verifier found what the result claims, or there is none."""
    return after.verification in (Verdict.PASSED, Verdict.NOT_CHECKED)


def retry_count_is_untouched(before: Step, after: Step) -> bool:
    """A death of the process is not a retry of the step."""
    return after.retry_count == before.retry_count


def returned_where_it_came_from(before: Step, after: Step) -> bool:
    """The step stands again in the state it failed in."""
    return after.state is before.failed_in and after.failed_in is None


# What must be true of the run at the end of the unit


def one_failure_is_open(step: Step, before: RunView, after: RunView) -> bool:
    """Exactly one failure of this step is open, and the ladder can see it."""
    failure = after.failure_of(step.id)
    return failure is not None and failure.state in UNDECIDED


def one_question_is_open(step: Step, before: RunView, after: RunView) -> bool:
    """A person is asked about this step, with choices and what was tried."""
    failure = after.failure_of(step.id)
    question = after.question_of(step.id)
    return (
        failure is not None
        and failure.state is FailureState.ESCALATED
        and question is not None
        and question.failure_id == failure.id
        and bool(question.choices)
        and bool(question.context)
    )


def answer_became_the_plan(step: Step, before: RunView, after: RunView) -> bool:
    """What was answered is the recovery that runs next, and the question is settled."""
    failure = after.failure_of(step.id)
    return (
        failure is not None
        and failure.state is FailureState.RECOVERY_PLANNED
        and after.question_of(step.id) is None
    )


def skip_is_recorded_in_the_goal(step: Step, before: RunView, after: RunView) -> bool:
    """The goal says that it is pursued without this step."""
    return step.id in after.run.without


def dependents_follow_the_skip(step: Step, before: RunView, after: RunView) -> bool:
    """No unfinished dependent waits for a result that will never come."""
    for dependent in (after.step(name) for name in after.dag.dependents(step.id)):
        falls = not step.spec.optional or step.id in dependent.spec.used_outputs
        if falls and dependent.state not in FINAL:
            return False
    return True


def no_failure_is_left(step: Step, before: RunView, after: RunView) -> bool:
    """Nothing about this step is unsettled."""
    return after.failure_of(step.id) is None


def failure_is_recovered(step: Step, before: RunView, after: RunView) -> bool:
    """A failure that this step had is RECOVERED, not merely forgotten."""
    earlier = before.failure_of(step.id)
    return earlier is None or after.failure(earlier.id).state is FailureState.RECOVERED


def run_is_ending(step: Step, before: RunView, after: RunView) -> bool:
    """The same unit ends the run."""
    return after.ending is not None


S = StepState

ROWS = (
    Row(
        id="STEP-01",
        trigger="schedule",
        source=(S.PENDING,),
        target=S.READY,
        guards=(dependencies_satisfied,),
    ),
    Row(
        id="STEP-02",
        trigger="start",
        source=(S.READY,),
        target=S.RUNNING,
        guards=(outside_every_planned_scope, budget_left),
        update=begin_attempt,
        ensures=(attempt_is_one_more, start_time_is_set, output_is_none),
        spends="tool_calls",
    ),
    Row(
        id="STEP-03",
        trigger="record",
        source=(S.RUNNING,),
        target=S.EXECUTED,
        guards=(result_is_of_this_attempt,),
        update=record_output,
        ensures=(output_is_recorded, end_is_not_before_start, effect_is_on_record),
    ),
    Row(
        id="STEP-04",
        trigger="pass_evaluation",
        source=(S.EXECUTED,),
        target=S.EVALUATED,
        guards=(result_is_of_this_attempt,),
        update=record_evaluation,
        ensures=(evaluation_is_favourable,),
    ),
    Row(
        id="STEP-05",
        trigger="pass_verification",
        source=(S.EVALUATED,),
        target=S.VERIFIED_COMPLETED,
        guards=(result_is_of_this_attempt,),
        update=record_verification,
        ensures=(verification_is_favourable,),
        ensures_run=(failure_is_recovered, no_failure_is_left),
    ),
    Row(
        id="STEP-06",
        trigger="fail_evaluation",
        source=(S.RUNNING,),
        target=S.EVALUATION_FAILED,
        guards=(result_is_of_this_attempt,),
        update=record_failed_attempt,
        ensures=(end_is_not_before_start,),
        ensures_run=(one_failure_is_open,),
    ),
    Row(
        id="STEP-07",
        trigger="fail_evaluation",
        source=(S.EXECUTED,),
        target=S.EVALUATION_FAILED,
        guards=(result_is_of_this_attempt,),
        update=record_rejection,
        ensures=(effect_is_on_record,),
        ensures_run=(one_failure_is_open,),
    ),
    Row(
        id="STEP-08",
        trigger="fail_verification",
        source=(S.EVALUATED,),
        target=S.VERIFICATION_FAILED,
        guards=(result_is_of_this_attempt,),
        update=record_failed_verification,
        ensures=(effect_is_on_record,),
        ensures_run=(one_failure_is_open,),
    ),
    Row(
        id="STEP-09",
        trigger="interrupt",
        source=(S.RUNNING,),
        target=S.READY,
        guards=(effect_is_known, recoveries_left),
        update=clear_interrupted_attempt,
        ensures=(retry_count_is_untouched,),
        spends="recoveries",
    ),
    Row(
        id="STEP-10",
        trigger="interrupt",
        source=(S.RUNNING,),
        target=S.EVALUATION_FAILED,
        update=note_unknown_outcome,
        ensures=(retry_count_is_untouched, effect_is_on_record),
        ensures_run=(one_failure_is_open,),
    ),
    Row(
        id="STEP-11",
        trigger="skip",
        source=(S.PENDING, S.READY, S.RETRY_PENDING, *FAILED_STATES),
        target=S.SKIPPED,
        guards=(optional_or_granted,),
        ensures_run=(
            skip_is_recorded_in_the_goal,
            dependents_follow_the_skip,
            no_failure_is_left,
        ),
    ),
    Row(
        id="STEP-12",
        trigger="answered",
        source=(S.WAITING_FOR_HUMAN,),
        target=S.EVALUATION_FAILED,
        guards=(failed_in_evaluation,),
        update=take_answer,
        ensures=(returned_where_it_came_from,),
        ensures_run=(answer_became_the_plan,),
    ),
    Row(
        id="STEP-13",
        trigger="answered",
        source=(S.WAITING_FOR_HUMAN,),
        target=S.VERIFICATION_FAILED,
        update=take_answer,
        ensures=(returned_where_it_came_from,),
        ensures_run=(answer_became_the_plan,),
    ),
    Row(
        id="STEP-14",
        trigger="cancel",
        source=NOT_UNDER_WAY,
        target=S.CANCELLED,
        ensures_run=(no_failure_is_left, run_is_ending),
    ),
)

INVARIANTS = {
    S.READY: (execution_fields_are_none, effect_is_known, dependencies_satisfied),
    S.WAITING_FOR_HUMAN: (failed_state_is_remembered,),
}

STEP: Lifecycle[Step] = Lifecycle(
    "step", states=StepState, initial=S.PENDING, rows=ROWS, invariants=INVARIANTS
)
