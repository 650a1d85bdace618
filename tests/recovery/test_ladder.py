"""The ladder: the first rung that holds, and for each one before it why not."""

from __future__ import annotations

from typing import Any

import pytest

from loopfsm.engine.turn import case_of
from loopfsm.errors import CoreBroken, PlanError
from loopfsm.model.failure import LAST_RUNGS, RUN, WHOLE_PLAN, Failure, FailureKind
from loopfsm.model.plan import UNCLASSIFIED, Policy, WhenExhausted
from loopfsm.model.step import Step
from loopfsm.recovery.ladder import Decision, PassedOver, decide
from loopfsm.recovery.registry import default_registry
from loopfsm.unit import Draft
from tests.machines.cases import NOT_IDEMPOTENT, NOW, F, S, failure_in, spec, step_in, world

REGISTRY = default_registry()
FAILED_A = step_in(S.EVALUATION_FAILED)
UNHANDLED = failure_in(F.UNHANDLED)


def decision(
    failure: Failure = UNHANDLED,
    *others: Any,
    step: Step = FAILED_A,
    ladder: tuple[str, ...] = ("RETRY",),
    spent: int = 0,
    **policy: Any,
) -> Decision:
    """What the failure gets, decided in a unit that must not change for it."""
    words = Policy(ladder={UNCLASSIFIED: ladder}, **policy)
    state = world(step, failure, *others, policy=words, spent={"recoveries/a": spent})
    draft = Draft(state, REGISTRY.machines, NOW)
    decided = decide(case_of(failure, draft, state, NOW), REGISTRY, draft)
    after, unit = draft.finish("decide")
    assert (state, ()) == (after, unit.events)
    return decided


def passed_over(decided: Decision) -> dict[str, str]:
    return {rung.strategy: rung.why for rung in decided.passed_over}


NO_RETRY_LEFT = (
    "STEP-20 needs retries_left_or_granted "
    "(The step was re-executed less often than it may be, or a person ordered this one)"
)


# The rungs of the ladder


def test_the_first_rung_whose_guards_hold_is_taken() -> None:
    """A ladder is climbed from its first rung, and a rung that can be taken is (S1)."""
    assert Decision("RETRY", ("a",), ()) == decision(ladder=("RETRY", "RETRY_WITH_BACKOFF"))
    assert Decision("RETRY_WITH_BACKOFF", ("a",), ()) == decision(
        ladder=("RETRY_WITH_BACKOFF", "RETRY")
    )


def test_the_first_rung_says_so() -> None:
    """A decision gives its reason in one line."""
    assert "RETRY is the first rung" == decision().why


def test_a_rung_that_is_passed_over_says_why() -> None:
    """For every rung before the one taken the decision has its row and its failing guard (S6)."""
    decided = decision(step=step_in(S.EVALUATION_FAILED, retry_count=2))
    assert (PassedOver("RETRY", NO_RETRY_LEFT),) == decided.passed_over
    assert "REQUEST_HUMAN" == decided.strategy
    assert f"REQUEST_HUMAN after RETRY: {NO_RETRY_LEFT}" == decided.why


def test_a_repeat_that_may_act_twice_is_passed_over() -> None:
    """A step that is not idempotent and whose effect is unknown is not retried by the ladder."""
    unknown = step_in(
        S.EVALUATION_FAILED,
        spec=spec(idempotent=False, max_retries=3),
        act_reported_failed=False,
    )
    assert "effect_is_known" in passed_over(decision(step=unknown))["RETRY"]


def test_without_a_number_of_its_own_a_step_that_is_not_idempotent_is_not_retried() -> None:
    """`max_retries` defaults to 2 for an idempotent step, else to 0."""
    acted_not = step_in(S.EVALUATION_FAILED, spec=NOT_IDEMPOTENT, acted_in=0)
    assert {"RETRY": NO_RETRY_LEFT} == passed_over(decision(step=acted_not))
    assert "RETRY" == decision(step=acted_not, max_retries=1).strategy


def test_a_strategy_without_a_handler_is_passed_over() -> None:
    """A rung that nobody registered is no crash, but passed over (S21)."""
    decided = decision(ladder=("REPLAN_STEP", "RETRY"))
    assert {"REPLAN_STEP": "no handler is registered"} == passed_over(decided)
    assert "RETRY" == decided.strategy


def test_a_recovery_that_failed_may_be_tried_again() -> None:
    """An ordinary strategy that failed stays on the ladder: the lineage bounds it (B15)."""
    failed = failure_in(F.RECOVERY_FAILED, failed_strategies=("RETRY", "RETRY"))
    assert "RETRY" == decision(failed, spent=2).strategy


# What bounds it


@pytest.mark.parametrize(("spent", "strategy"), [(0, "RETRY"), (5, "RETRY"), (6, "REQUEST_HUMAN")])
def test_the_recoveries_of_a_lineage_bound_the_ladder(spent: int, strategy: str) -> None:
    """With its recoveries spent a lineage gets a last rung, which needs none left (D1, B10)."""
    assert strategy == decision(spent=spent).strategy


def test_spent_recoveries_are_the_reason() -> None:
    """Every rung passed over for the lineage's budget says so (B31)."""
    decided = decision(spent=3, recoveries=3, ladder=("RETRY", "RETRY_WITH_BACKOFF"))
    passed = passed_over(decided)
    assert ["RETRY", "RETRY_WITH_BACKOFF"] == list(passed)
    for why in passed.values():
        assert "FAIL-01 needs recoveries_left" in why


def test_a_limit_of_nothing_leaves_nothing() -> None:
    """`recoveries = 0` means that no failure is recovered without a person."""
    assert "REQUEST_HUMAN" == decision(recoveries=0).strategy


# The last rungs


@pytest.mark.parametrize(
    ("when", "strategy", "scope"),
    [
        (WhenExhausted.ASK, "REQUEST_HUMAN", ("a",)),
        (WhenExhausted.ABSTAIN, "ABSTAIN", WHOLE_PLAN),
        (WhenExhausted.FAIL, "TERMINATE", WHOLE_PLAN),
    ],
)
def test_when_exhausted(when: WhenExhausted, strategy: str, scope: tuple[str, ...]) -> None:
    """The policy says what comes after the last rung: ask, abstain or fail (B15, S32)."""
    decided = decision(ladder=(), when_exhausted=when)
    assert Decision(strategy, scope, ()) == decided


@pytest.mark.parametrize("critical", [True, False])
def test_abstaining_that_is_not_allowed_becomes_failing(critical: bool) -> None:
    """Where the policy or a critical step forbids to abstain, the run fails (S17, B28)."""
    step = step_in(S.EVALUATION_FAILED, spec=spec(critical=critical))
    decided = decision(
        step=step, ladder=(), when_exhausted=WhenExhausted.ABSTAIN, may_abstain=critical
    )
    assert "TERMINATE" == decided.strategy
    assert "abstention_allowed_or_granted" in passed_over(decided)["ABSTAIN"]


def test_a_last_rung_whose_handler_failed_is_not_tried_again() -> None:
    """Asking that failed leads to failing, since a last rung spends nothing."""
    failed = failure_in(F.RECOVERY_FAILED, failed_strategies=("REQUEST_HUMAN",))
    decided = decision(failed, ladder=())
    assert "TERMINATE" == decided.strategy
    assert {"REQUEST_HUMAN": "its handler failed for this failure"} == passed_over(decided)


def test_when_nothing_is_left_the_core_says_so() -> None:
    """A failure for which even TERMINATE failed is the core's own contradiction."""
    failed = failure_in(F.RECOVERY_FAILED, failed_strategies=("REQUEST_HUMAN", "TERMINATE"))
    with pytest.raises(CoreBroken, match="nothing is left for F1: REQUEST_HUMAN"):
        decision(failed, ladder=())


def test_whom_a_person_ordered_a_recovery_for_is_asked_again() -> None:
    """A failure whose recovery a person once ordered asks, whatever `when_exhausted` says."""
    ordered = failure_in(F.UNHANDLED, ordered=True)
    for when in WhenExhausted:
        assert "REQUEST_HUMAN" == decision(ordered, ladder=(), when_exhausted=when).strategy


def test_an_order_grants_nothing_to_the_ladder() -> None:
    """An order that was given once does not lift the limits of what the ladder does next."""
    ordered = failure_in(F.RECOVERY_FAILED, ordered=True)
    decided = decision(ordered, step=step_in(S.EVALUATION_FAILED, retry_count=2))
    assert {"RETRY": NO_RETRY_LEFT} == passed_over(decided)


@pytest.mark.parametrize("rung", LAST_RUNGS)
def test_no_ladder_lists_a_last_rung(rung: str) -> None:
    """A policy whose ladder asks, abstains or terminates is refused at the door."""
    with pytest.raises(PlanError) as caught:
        Policy(ladder={UNCLASSIFIED: ("RETRY", rung)})
    (problem,) = caught.value.problems
    assert "policy.ladder.unclassified" == problem.place
    assert rung in problem.message
    assert "when_exhausted" in problem.message


# Waiting for one another


def holding(*scope: str) -> tuple[Step, Failure]:
    """Step `c` failed, and its planned recovery holds `scope`."""
    step = step_in(S.EVALUATION_FAILED, spec=spec("c"))
    return step, failure_in(F.RECOVERY_PLANNED, number=2, subject="c", scope=scope)


def test_a_scope_that_overlaps_waits() -> None:
    """A failure whose recovery would write a step that another is going to write waits (B33)."""
    assert Decision(None, (), ()) == decision(UNHANDLED, *holding("c", "a"))


def test_a_scope_apart_does_not_wait() -> None:
    """Recoveries with disjoint scopes are planned side by side (D6)."""
    assert "RETRY" == decision(UNHANDLED, *holding("c")).strategy


def test_asking_waits_too() -> None:
    """A question about a step that another recovery is going to write waits for it."""
    decided = decision(UNHANDLED, *holding("c", "a"), recoveries=0)
    assert decided.strategy is None
    assert ["RETRY"] == [rung.strategy for rung in decided.passed_over]


@pytest.mark.parametrize("when", [WhenExhausted.ABSTAIN, WhenExhausted.FAIL])
def test_what_ends_the_run_waits_for_nothing(when: WhenExhausted) -> None:
    """ABSTAIN and TERMINATE are planned although another recovery holds steps."""
    decided = decision(UNHANDLED, *holding("c", "a"), ladder=(), when_exhausted=when)
    assert WHOLE_PLAN == decided.scope


# Failures of the run


def of_run(kind: FailureKind) -> Failure:
    return failure_in(F.UNHANDLED, subject=RUN, kind=kind)


def test_a_spent_budget_asks() -> None:
    """No strategy of a step is for a spent budget; a person is asked (B29, B31)."""
    decided = decision(of_run(FailureKind.BUDGET_SPENT))
    assert {"RETRY": "the failure concerns the run, not a step"} == passed_over(decided)
    assert ("REQUEST_HUMAN", (RUN,)) == (decided.strategy, decided.scope)


def test_a_cancelled_run_abstains_by_order() -> None:
    """A person's word to stop is an ordered ABSTAIN, past every rung of the ladder."""
    for when in WhenExhausted:
        decided = decision(of_run(FailureKind.CANCELLED), when_exhausted=when)
        assert Decision("ABSTAIN", WHOLE_PLAN, (), True) == decided


@pytest.mark.parametrize("may_abstain", [True, False])
def test_a_person_may_cancel_where_the_policy_may_not_abstain(may_abstain: bool) -> None:
    """Neither `may_abstain = false` nor a failed critical step binds who cancels the run."""
    critical = step_in(S.EVALUATION_FAILED, spec=spec("c", critical=True))
    of_c = failure_in(F.ESCALATED, number=2, subject="c")
    cancelled = of_run(FailureKind.CANCELLED)
    assert "ABSTAIN" == decision(cancelled, critical, of_c, may_abstain=may_abstain).strategy


def test_a_broken_core_terminates() -> None:
    """A broken contract is not recovered from, asked about or abstained over."""
    for when in WhenExhausted:
        decided = decision(of_run(FailureKind.BROKEN), when_exhausted=when)
        assert Decision("TERMINATE", WHOLE_PLAN, ()) == decided
