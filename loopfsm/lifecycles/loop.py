"""The loop machine: four states at rest, three passed on the way, four final ones.

Nothing but `engine/rest.py` fires these rows: at the end of every call of `advance` it takes
the first row that holds, in the order of this table, again and again, until none does. So
the order of the rows is the order of precedence: an end, a recovery, a question, completion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.model.loop_state import ENDED, LoopState, Run, RunView

Changes = Mapping[str, Any]

# Guards


def recovery_under_way(run: Run, *, planned: bool, applied: bool) -> bool:
    """A recovery is planned, or was applied in this call and is not on record yet."""
    return planned or applied


def recovery_leads_on(run: Run, *, leads_on: bool) -> bool:
    """A recovery was applied after which the loop goes on, or nothing is left to wait for."""
    return leads_on


def plan_was_changed(run: Run, *, leads_on: bool, replanned: bool) -> bool:
    """A recovery was applied that changed the plan or its scope."""
    return leads_on and replanned


def question_is_open(run: Run, *, asking: bool) -> bool:
    """A person is asked."""
    return asking


def only_the_budget_is_asked(run: Run, *, asking_for_budget: bool) -> bool:
    """A person is asked about a spent budget, and about nothing else."""
    return asking_for_budget


def no_recovery_is_planned(run: Run, *, planned: bool) -> bool:
    """No recovery waits to be applied."""
    return not planned


def all_steps_are_done(run: Run, *, unfinished: int) -> bool:
    """Every step is verified or skipped (D16: the one definition of complete)."""
    return unfinished == 0


def nothing_was_left_out(run: Run) -> bool:
    """No step was skipped: reduced is not done."""
    return run.without == ()


def abstention_was_decided(run: Run, *, end: LoopState | None) -> bool:
    """A recovery that abstains has been applied."""
    return end is LoopState.ABSTAINED


def failure_was_decided(run: Run, *, end: LoopState | None) -> bool:
    """A recovery that terminates has been applied, or a contract was broken."""
    return end is LoopState.FAILED


# Updates


def give_reason(run: Run, *, why: str) -> Changes:
    """Say why the run ended so."""
    return {"reason": why}


# What must be true on entry


def reason_is_given(run: Run) -> bool:
    """An end short of completion has a reason."""
    return run.reason != ""


def question_is_on_record(run: Run, before: RunView, after: RunView) -> bool:
    """There is a question that an answer can be given to."""
    return after.is_asking


def nothing_is_unfinished(run: Run, before: RunView, after: RunView) -> bool:
    """No step is left in a state that could still move."""
    return after.is_settled


L = LoopState

ROWS = (
    Row(id="LOOP-01", trigger="begin", source=(L.INITIALIZED,), target=L.PLANNING),
    Row(id="LOOP-02", trigger="execute", source=(L.PLANNING,), target=L.EXECUTING),
    Row(
        id="LOOP-03",
        trigger="abstain",
        source=(L.EXECUTING, L.RECOVERING, L.WAITING_FOR_HUMAN),
        target=L.ABSTAINED,
        guards=(abstention_was_decided,),
        update=give_reason,
        ensures_run=(nothing_is_unfinished,),
    ),
    Row(
        id="LOOP-04",
        trigger="fail",
        source=tuple(state for state in LoopState if state not in ENDED),
        target=L.FAILED,
        guards=(failure_was_decided,),
        update=give_reason,
    ),
    Row(
        id="LOOP-05",
        trigger="recover",
        source=(L.EXECUTING, L.WAITING_FOR_HUMAN),
        target=L.RECOVERING,
        guards=(recovery_under_way,),
    ),
    Row(
        id="LOOP-06",
        trigger="apply",
        source=(L.RECOVERING,),
        target=L.REPLANNING,
        guards=(plan_was_changed,),
    ),
    Row(
        id="LOOP-07",
        trigger="apply",
        source=(L.RECOVERING,),
        target=L.ITERATION_COMPLETE,
        guards=(recovery_leads_on,),
    ),
    Row(
        id="LOOP-08",
        trigger="plan_next",
        source=(L.ITERATION_COMPLETE, L.REPLANNING),
        target=L.PLANNING,
    ),
    Row(
        id="LOOP-09",
        trigger="budget_spent",
        source=(L.EXECUTING, L.RECOVERING),
        target=L.WAITING_FOR_HUMAN,
        guards=(only_the_budget_is_asked, no_recovery_is_planned),
        ensures_run=(question_is_on_record,),
    ),
    Row(
        id="LOOP-10",
        trigger="ask",
        source=(L.EXECUTING, L.RECOVERING),
        target=L.WAITING_FOR_HUMAN,
        guards=(question_is_open, no_recovery_is_planned),
        ensures_run=(question_is_on_record,),
    ),
    Row(
        id="LOOP-11",
        trigger="complete",
        source=(L.EXECUTING,),
        target=L.COMPLETED,
        guards=(all_steps_are_done, nothing_was_left_out),
        ensures_run=(nothing_is_unfinished,),
    ),
    Row(
        id="LOOP-12",
        trigger="complete",
        source=(L.EXECUTING,),
        target=L.PARTIALLY_COMPLETED,
        guards=(all_steps_are_done,),
        ensures_run=(nothing_is_unfinished,),
    ),
)

INVARIANTS = {L.ABSTAINED: (reason_is_given,), L.FAILED: (reason_is_given,)}

LOOP: Lifecycle[Run] = Lifecycle(
    "loop", states=LoopState, initial=L.INITIALIZED, rows=ROWS, invariants=INVARIANTS
)
