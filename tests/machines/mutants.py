"""For every ensure and state invariant of every row: a mutant in which it alone is false.

A mutant is the row with an altered update. Where no update can make the contract false
(it asks a fact that a guard of the same row asks too), the mutant has lost its guards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from loopfsm.model.step import StepState, Verdict
from tests.machines.cases import NOT_IDEMPOTENT


@frozen(kw_only=True)
class Mutant:
    """How the row was altered: what its update changes otherwise, and on which example."""

    changes: Mapping[str, Any] = field(factory=dict)
    fields: Mapping[str, Any] = field(factory=dict)
    facts: Mapping[str, Any] = field(factory=dict)
    guarded: bool = True
    """False: the mutant has lost its guards."""


def _changes(**changes: Any) -> Mutant:
    return Mutant(changes=changes)


_TWICE = {"spec": NOT_IDEMPOTENT, "acted_in": 1, "act_reported_failed": False}
_HELD = _changes(scope=("a",))
_LEFT_OVER = _changes(output="left over")

INVARIANTS: Mapping[tuple[str, str], Mutant] = {
    ("STEP-01", "execution_fields_are_none"): _LEFT_OVER,
    ("STEP-01", "effect_is_known"): Mutant(changes=_TWICE),
    ("STEP-01", "dependencies_satisfied"): Mutant(facts={"unmet": 1}, guarded=False),
    ("STEP-09", "execution_fields_are_none"): _LEFT_OVER,
    ("STEP-09", "effect_is_known"): Mutant(changes=_TWICE),
    ("STEP-09", "dependencies_satisfied"): Mutant(facts={"unmet": 1}),
    ("STEP-21", "execution_fields_are_none"): _LEFT_OVER,
    ("STEP-21", "effect_is_known"): Mutant(changes=_TWICE),
    ("STEP-21", "dependencies_satisfied"): Mutant(facts={"unmet": 1}),
    ("STEP-22", "failed_state_is_remembered"): _changes(failed_in=None),
    ("FAIL-01", "recovery_is_on_record"): _changes(scope=()),
    ("FAIL-02", "recovery_is_on_record"): _changes(strategy=None),
    ("FAIL-03", "scope_is_given_back"): _HELD,
    ("FAIL-04", "scope_is_given_back"): _HELD,
    ("FAIL-05", "scope_is_given_back"): _HELD,
    ("FAIL-06", "recovery_is_on_record"): Mutant(fields={"scope": ()}),
    ("FAIL-07", "scope_is_given_back"): _HELD,
    ("FAIL-08", "scope_is_given_back"): _HELD,
    ("FAIL-09", "recovery_is_on_record"): _changes(scope=()),
    ("FAIL-10", "scope_is_given_back"): _HELD,
    ("FAIL-11", "scope_is_given_back"): _HELD,
    ("LOOP-03", "reason_is_given"): _changes(reason=""),
    ("LOOP-04", "reason_is_given"): _changes(reason=""),
}

ENSURES: Mapping[tuple[str, str], Mutant] = {
    ("STEP-02", "attempt_is_one_more"): _changes(attempt=2),
    ("STEP-02", "start_time_is_set"): _changes(start_time=99.0),
    ("STEP-02", "output_is_none"): _changes(output="left over"),
    ("STEP-03", "output_is_recorded"): _changes(output="another"),
    ("STEP-03", "end_is_not_before_start"): _changes(end_time=9.0),
    ("STEP-03", "effect_is_on_record"): _changes(acted_in=0),
    ("STEP-04", "evaluation_is_favourable"): _changes(evaluation=Verdict.FAILED),
    ("STEP-05", "verification_is_favourable"): _changes(verification=Verdict.FAILED),
    ("STEP-06", "end_is_not_before_start"): _changes(end_time=None),
    ("STEP-07", "effect_is_on_record"): _changes(acted_in=0),
    ("STEP-08", "effect_is_on_record"): _changes(acted_in=0),
    ("STEP-09", "retry_count_is_untouched"): _changes(retry_count=1),
    ("STEP-10", "retry_count_is_untouched"): _changes(retry_count=1),
    ("STEP-10", "effect_is_on_record"): _changes(acted_in=0),
    ("STEP-12", "returned_where_it_came_from"): _changes(failed_in=StepState.EVALUATION_FAILED),
    ("STEP-13", "returned_where_it_came_from"): _changes(failed_in=StepState.EVALUATION_FAILED),
    ("STEP-20", "retry_is_counted"): _changes(retry_count=2),
    ("STEP-20", "attempt_is_cleared"): _changes(start_time=10.0),
    ("STEP-20", "delay_is_on_record"): _changes(not_before=101.0),
    ("STEP-21", "nothing_holds_it_back"): _changes(not_before=90.0),
    ("FAIL-05", "handler_failure_is_kept"): _changes(failed_strategies=()),
    ("FAIL-06", "plan_is_kept"): _changes(ordered=False),
    ("QUES-01", "answer_is_on_record"): _changes(token=None),
}
