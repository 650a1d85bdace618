"""For every guard of every row: a change of its example in which that guard alone is false."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import StepState
from tests.machines.cases import NOT_IDEMPOTENT


@frozen(kw_only=True)
class Denial:
    """What differs from the accepted example: facts, and fields of the noun."""

    facts: Mapping[str, Any] = field(factory=dict)
    fields: Mapping[str, Any] = field(factory=dict)


_OTHER_ATTEMPT = Denial(facts={"attempt": 2})
_ACTED_UNKNOWN = {"spec": NOT_IDEMPOTENT, "acted_in": 1, "act_reported_failed": False}

DENIALS: Mapping[tuple[str, str], Denial] = {
    ("STEP-01", "dependencies_satisfied"): Denial(facts={"unmet": 1}),
    ("STEP-02", "outside_every_planned_scope"): Denial(facts={"held_by": "F1"}),
    ("STEP-02", "budget_left"): Denial(facts={"spent_budget": "tool_calls"}),
    ("STEP-03", "result_is_of_this_attempt"): _OTHER_ATTEMPT,
    ("STEP-04", "result_is_of_this_attempt"): _OTHER_ATTEMPT,
    ("STEP-05", "result_is_of_this_attempt"): _OTHER_ATTEMPT,
    ("STEP-06", "result_is_of_this_attempt"): _OTHER_ATTEMPT,
    ("STEP-07", "result_is_of_this_attempt"): _OTHER_ATTEMPT,
    ("STEP-08", "result_is_of_this_attempt"): _OTHER_ATTEMPT,
    ("STEP-09", "effect_is_known"): Denial(fields={"spec": NOT_IDEMPOTENT}),
    ("STEP-09", "recoveries_left"): Denial(facts={"recoveries": 0}),
    ("STEP-11", "optional_or_granted"): Denial(facts={"granted": False}),
    ("STEP-12", "failed_in_evaluation"): Denial(
        fields={"failed_in": StepState.VERIFICATION_FAILED}
    ),
    ("STEP-20", "retries_left_or_granted"): Denial(facts={"max_retries": 0}),
    ("STEP-20", "effect_is_known"): Denial(fields=_ACTED_UNKNOWN),
    ("STEP-20", "delay_fits_the_time_left"): Denial(facts={"seconds_left": 2.0}),
    ("STEP-21", "delay_elapsed"): Denial(facts={"now": 89.9}),
    ("STEP-23", "abstention_allowed_or_granted"): Denial(facts={"critical_failed": True}),
    ("FAIL-01", "is_a_recovery"): Denial(facts={"strategy": "TERMINATE"}),
    ("FAIL-01", "recoveries_left"): Denial(facts={"recoveries": 0}),
    ("FAIL-02", "is_a_last_rung"): Denial(facts={"strategy": "RETRY"}),
    ("FAIL-03", "scope_is_quiet"): Denial(facts={"in_flight": "a"}),
    ("FAIL-06", "ordered_by_person"): Denial(fields={"ordered": False}),
    ("FAIL-06", "recoveries_left"): Denial(facts={"recoveries": 0}),
    ("QUES-01", "run_goes_on"): Denial(facts={"draining": "F2"}),
    ("QUES-01", "choice_is_offered"): Denial(facts={"choice": "skip"}),
    ("QUES-01", "number_fits_the_choice"): Denial(facts={"raised_to": 9.0}),
    ("QUES-01", "token_is_unused"): Denial(facts={"used_for": "Q1"}),
    ("QUES-03", "run_goes_on"): Denial(facts={"draining": "F2"}),
    ("QUES-03", "deadline_has_passed"): Denial(facts={"now": 59.9}),
    ("LOOP-03", "abstention_was_decided"): Denial(facts={"end": LoopState.FAILED}),
    ("LOOP-04", "failure_was_decided"): Denial(facts={"end": None}),
    ("LOOP-05", "recovery_under_way"): Denial(facts={"applied": False}),
    ("LOOP-06", "plan_was_changed"): Denial(facts={"replanned": False}),
    ("LOOP-07", "recovery_leads_on"): Denial(facts={"leads_on": False}),
    ("LOOP-09", "only_the_budget_is_asked"): Denial(facts={"asking_for_budget": False}),
    ("LOOP-09", "no_recovery_is_planned"): Denial(facts={"planned": True}),
    ("LOOP-10", "question_is_open"): Denial(facts={"asking": False}),
    ("LOOP-10", "no_recovery_is_planned"): Denial(facts={"planned": True}),
    ("LOOP-11", "all_steps_are_done"): Denial(facts={"unfinished": 1}),
    ("LOOP-11", "nothing_was_left_out"): Denial(fields={"without": ("a",)}),
    ("LOOP-12", "all_steps_are_done"): Denial(facts={"unfinished": 1}),
}
