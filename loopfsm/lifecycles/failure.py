"""The failure machine: from what went wrong, through its recoveries, to how it was settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.model.failure import LAST_RUNGS, UNDECIDED, UNSETTLED, Failure, FailureState
from loopfsm.model.loop_state import RunView
from loopfsm.model.step import FINAL

Changes = Mapping[str, Any]

# Guards


def is_a_recovery(failure: Failure, *, strategy: str) -> bool:
    """The strategy tries again, in one way or another."""
    return strategy not in LAST_RUNGS


def is_a_last_rung(failure: Failure, *, strategy: str) -> bool:
    """The strategy asks, abstains or terminates: it needs no recovery left."""
    return strategy in LAST_RUNGS


def recoveries_left(failure: Failure, *, recoveries: int) -> bool:
    """The lineage has recoveries left."""
    return recoveries > 0


def scope_is_quiet(failure: Failure, *, in_flight: str | None) -> bool:
    """No step of the recorded scope has an attempt under way."""
    return in_flight is None


def ordered_by_person(failure: Failure) -> bool:
    """A person ordered this recovery, so that it outlives a crash."""
    return failure.ordered


# Updates


def plan_recovery(
    failure: Failure, *, strategy: str, scope: tuple[str, ...], ordered: bool, why: str
) -> Changes:
    """Record what will be done, and which steps it will write."""
    return {
        "strategy": strategy,
        "scope": scope,
        "ordered": ordered,
        "reason": why,
        "plans": failure.plans + 1,
    }


def record_handler_failure(failure: Failure, *, why: str, evidence: Mapping[str, Any]) -> Changes:
    """Keep what went wrong with the recovery; its scope is free again."""
    strategy = failure.strategy or ""
    return {
        "failed_strategies": (*failure.failed_strategies, strategy),
        "scope": (),
        "reason": why,
        "evidence": {**failure.evidence, f"recovery {strategy}": dict(evidence)},
    }


def drop_plan(failure: Failure, *, why: str) -> Changes:
    """Give the scope back; who ordered the recovery stays known."""
    return {"scope": (), "reason": why}


def give_reason(failure: Failure, *, why: str) -> Changes:
    """Say why."""
    return {"reason": why}


# What must be true on entry


def recovery_is_on_record(failure: Failure) -> bool:
    """A planned recovery names its strategy and the steps it will write."""
    return failure.strategy is not None and failure.scope != ()


def scope_is_given_back(failure: Failure) -> bool:
    """No step is held by a failure without a planned recovery."""
    return failure.scope == ()


def handler_failure_is_kept(before: Failure, after: Failure) -> bool:
    """What failed is remembered, in order, with its evidence."""
    return after.failed_strategies == (*before.failed_strategies, before.strategy)


def plan_is_kept(before: Failure, after: Failure) -> bool:
    """A person's order is what it was."""
    return after.strategy == before.strategy and after.scope == before.scope and after.ordered


# What must be true of the run at the end of the unit


def scopes_are_disjoint(failure: Failure, before: RunView, after: RunView) -> bool:
    """Each step of the scope is held by this failure, unless its recovery ends the run."""
    return all(after.holder_of(step_id) == failure.id for step_id in failure.scope)


def step_waits_for_a_person(failure: Failure, before: RunView, after: RunView) -> bool:
    """A person is asked about the subject of this failure."""
    question = after.question_of(failure.subject)
    return question is not None and question.failure_id == failure.id


def step_is_done(failure: Failure, before: RunView, after: RunView) -> bool:
    """The failure's step, if it has one, reached a state that settles the failure."""
    return failure.subject == "run" or after.step(failure.subject).state in FINAL


def run_is_ending(failure: Failure, before: RunView, after: RunView) -> bool:
    """The same unit ends the run."""
    return after.ending is not None


F = FailureState

ROWS = (
    Row(
        id="FAIL-01",
        trigger="plan",
        source=UNDECIDED,
        target=F.RECOVERY_PLANNED,
        guards=(is_a_recovery, recoveries_left),
        update=plan_recovery,
        ensures_run=(scopes_are_disjoint,),
        spends="recoveries",
    ),
    Row(
        id="FAIL-02",
        trigger="plan",
        source=UNDECIDED,
        target=F.RECOVERY_PLANNED,
        guards=(is_a_last_rung,),
        update=plan_recovery,
        ensures_run=(scopes_are_disjoint,),
    ),
    Row(
        id="FAIL-03",
        trigger="begin",
        source=(F.RECOVERY_PLANNED,),
        target=F.RECOVERY_IN_PROGRESS,
        guards=(scope_is_quiet,),
        update=drop_plan,
    ),
    Row(
        id="FAIL-04",
        trigger="confirm",
        source=(F.RECOVERY_IN_PROGRESS,),
        target=F.RECOVERED,
        update=give_reason,
        ensures_run=(step_is_done,),
    ),
    Row(
        id="FAIL-05",
        trigger="handler_failed",
        source=(F.RECOVERY_PLANNED,),
        target=F.RECOVERY_FAILED,
        update=record_handler_failure,
        ensures=(handler_failure_is_kept,),
    ),
    Row(
        id="FAIL-06",
        trigger="withdraw",
        source=(F.RECOVERY_PLANNED,),
        target=F.RECOVERY_PLANNED,
        guards=(ordered_by_person, recoveries_left),
        ensures=(plan_is_kept,),
        spends="recoveries",
    ),
    Row(
        id="FAIL-07",
        trigger="withdraw",
        source=(F.RECOVERY_PLANNED,),
        target=F.UNHANDLED,
        update=drop_plan,
    ),
    Row(
        id="FAIL-08",
        trigger="escalate",
        source=(F.RECOVERY_PLANNED,),
        target=F.ESCALATED,
        update=drop_plan,
        ensures_run=(step_waits_for_a_person,),
    ),
    Row(
        id="FAIL-09",
        trigger="answered",
        source=(F.ESCALATED,),
        target=F.RECOVERY_PLANNED,
        update=plan_recovery,
        ensures_run=(scopes_are_disjoint,),
    ),
    Row(
        id="FAIL-10",
        trigger="supersede",
        source=UNSETTLED,
        target=F.SUPERSEDED,
        update=drop_plan,
    ),
    Row(
        id="FAIL-11",
        trigger="close",
        source=UNSETTLED,
        target=F.TERMINAL,
        update=drop_plan,
        ensures_run=(run_is_ending,),
    ),
)

INVARIANTS = {
    F.UNHANDLED: (scope_is_given_back,),
    F.RECOVERY_PLANNED: (recovery_is_on_record,),
    F.RECOVERY_FAILED: (scope_is_given_back,),
    F.RECOVERY_IN_PROGRESS: (scope_is_given_back,),
    F.ESCALATED: (scope_is_given_back,),
    F.RECOVERED: (scope_is_given_back,),
    F.SUPERSEDED: (scope_is_given_back,),
    F.TERMINAL: (scope_is_given_back,),
}

FAILURE: Lifecycle[Failure] = Lifecycle(
    "failure", states=FailureState, initial=F.UNHANDLED, rows=ROWS, invariants=INVARIANTS
)
