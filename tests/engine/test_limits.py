"""Limits: how often a step is tried again, and what a run may use in all."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import CallTool, Drive, Due, Park, Prepared
from loopfsm.engine.loop import Loop
from loopfsm.errors import AnswerRefused
from loopfsm.model.failure import RUN, FailureKind, FailureState, RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import UNCLASSIFIED, Budget, WhenExhausted
from loopfsm.model.question import Choice, QuestionState
from loopfsm.model.step import Call, StepState
from loopfsm.ports import Tool, ToolContext
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.strategies.retry_with_backoff import backoff_delay
from loopfsm.testing import Fails, FakeClock, Raises, Returns, ScriptedTool, Sleeps
from loopfsm.tools.registry import tool
from loopfsm.unit import Draft
from tests.engine.kit import (
    Hand,
    SlowRetry,
    answer,
    done,
    failed,
    loop_of,
    plan_of,
    registry_with,
    run,
    spec,
)

BACKOFF = {UNCLASSIFIED: (RecoveryStrategy.RETRY_WITH_BACKOFF,)}
ENDS = {
    WhenExhausted.ASK: LoopState.WAITING_FOR_HUMAN,
    WhenExhausted.ABSTAIN: LoopState.ABSTAINED,
    WhenExhausted.FAIL: LoopState.FAILED,
}

# ------------------------------------------------------------------------ of one step


@pytest.mark.parametrize("when_exhausted", WhenExhausted)
@pytest.mark.parametrize("broken", [Fails(), Raises(ValueError("always"))], ids=["fails", "raises"])
def test_a_step_that_always_fails_runs_four_times(
    broken: Fails | Raises, when_exhausted: WhenExhausted
) -> None:
    """`max_retries = 3` is 1 + 3 runs, then `when_exhausted` (S24, S32, D1, D2, D3, D4, D23)."""
    work = ScriptedTool("work", [broken])
    outcome = run(loop_of(plan_of(spec("a", max_retries=3), when_exhausted=when_exhausted), work))
    assert [1, 2, 3, 4] == [called.attempt for called in work.calls]
    assert ENDS[when_exhausted] is outcome.state


@pytest.mark.parametrize("max_retries", [0, 1, 2, 5])
def test_n_means_n_retries(max_retries: int) -> None:
    """N re-executions after the first run, neither fewer nor more (S6, S28, B11, D4)."""
    work = ScriptedTool("work", [Fails()])
    run(loop_of(plan_of(spec("a", max_retries=max_retries)), work))
    assert 1 + max_retries == len(work.calls)


@pytest.mark.parametrize(
    "budget",
    [Budget(), Budget(steps=9), Budget(tool_calls=9), Budget(tokens=9, cost=9, seconds=9)],
    ids=["none", "steps", "tool calls", "the others"],
)
def test_the_retry_limit_never_comes_from_a_budget(budget: Budget) -> None:
    """Whatever budgets are set or unset, three retries are three retries (D3, D4)."""
    work = ScriptedTool("work", [Fails()])
    outcome = run(loop_of(plan_of(spec("a", max_retries=3), budget=budget), work))
    assert (4, "a") == (len(work.calls), outcome.questions[0].subject)


@pytest.mark.parametrize("when", range(4))
def test_a_retry_that_succeeds_ends_the_recovery(when: int) -> None:
    """Whichever run succeeds, the last allowed one too, completes the step (S25, D1)."""
    work = ScriptedTool("work", [*[Fails()] * when, Returns("at last")])
    outcome = run(loop_of(plan_of(spec("a", max_retries=3)), work))
    assert (LoopState.COMPLETED, {"a": "at last"}) == (outcome.state, outcome.outputs)
    states = [failure.state for failure in outcome.failures]
    expected = [FailureState.SUPERSEDED] * (when - 1) + [FailureState.RECOVERED] * (when > 0)
    assert expected == states


@pytest.mark.parametrize(("recoveries", "max_retries"), [(2, 5), (5, 2), (0, 5)])
def test_the_smaller_of_two_limits_wins(recoveries: int, max_retries: int) -> None:
    """`recoveries` bounds a lineage below `max_retries`, and the reverse (B11, S32)."""
    work = ScriptedTool("work", [Fails()])
    plan = plan_of(spec("a", max_retries=max_retries), recoveries=recoveries)
    run(loop_of(plan, work))
    assert 1 + min(recoveries, max_retries) == len(work.calls)


def test_the_default_is_two_retries_of_what_is_idempotent() -> None:
    """Without a number an idempotent step has two retries, any other none (S32, D1)."""
    work = ScriptedTool("work", [Fails()])
    outcome = run(loop_of(plan_of(spec("a", idempotent=True), "b"), work))
    assert [3, 1] == [[c.step_id for c in work.calls].count(name) for name in "ab"]
    assert ["a", "b"] == sorted(question.subject for question in outcome.questions)


def test_limits_are_counted_per_step() -> None:
    """What one lineage spends leaves the others theirs (B10, D1)."""
    work = ScriptedTool("work", [Fails()])
    run(loop_of(plan_of(*(spec(name, max_retries=2) for name in "abc"), recoveries=2), work))
    assert [3, 3, 3] == [[c.step_id for c in work.calls].count(name) for name in "abc"]


def test_a_refused_retry_changes_nothing() -> None:
    """When the limit is reached the counter stays where it is (S3, D4)."""
    work = ScriptedTool("work", [Fails()])
    loop = loop_of(plan_of(spec("a", max_retries=3)), work)
    run(loop)
    assert 3 == loop.state.step("a").retry_count


def test_what_is_tried_in_vain_says_why_it_was_passed_over() -> None:
    """The plan of the last rung names each rung before it and the limit it met (S6, S23)."""
    hand = Hand.on(plan_of(spec("a", max_retries=0, idempotent=True)))
    hand.give(failed("a"))
    planned = [e for e in hand.events if e.changes.get("strategy") == "REQUEST_HUMAN"]
    assert "RETRY: " in planned[0].changes["reason"]
    assert "retries_left_or_granted" in planned[0].changes["reason"]


# ------------------------------------------------------------------------- backoff


def test_a_retry_after_a_delay_starts_when_the_clock_says_so() -> None:
    """Delays double from the base, up to the cap, on the injected clock alone (S7, S8, B2)."""
    clock = FakeClock(auto=True)
    moments: list[float] = []

    @tool(name="work")
    def work(context: ToolContext) -> None:
        moments.append(clock.now())
        raise ValueError(context.attempt)

    plan = plan_of(spec("a", max_retries=4), ladder=BACKOFF, backoff_base_s=2, backoff_cap_s=9)
    run(loop_of(plan, work, clock=clock))
    assert [0, 2, 2 + 4, 2 + 4 + 8, 2 + 4 + 8 + 9] == moments


def test_a_clock_that_stands_still_keeps_the_step_waiting() -> None:
    """Before its moment a timer changes nothing; at its moment the step starts (S8, B2)."""
    hand = Hand.on(plan_of(spec("a", max_retries=1), ladder=BACKOFF, backoff_base_s=3))
    hand.give(failed("a"))
    assert (StepState.RETRY_PENDING, 3) == (hand.stands("a"), hand.state.step("a").not_before)
    hand.give(Due("a"), after=2.9)
    assert StepState.RETRY_PENDING is hand.stands("a")
    assert (CallTool("a", 2),) == hand.give(Due("a"), after=0.1)


def test_the_delay_is_on_record() -> None:
    """`backoff_delay` is the base times 2 to the count before the increment (S7)."""
    hand = Hand.on(plan_of(spec("a", max_retries=2), ladder=BACKOFF, backoff_base_s=3))
    seen = []
    for attempt in (1, 2):
        hand.give(failed("a", attempt))
        step = hand.state.step("a")
        seen.append((step.retry_count, step.metadata["backoff_delay"]))
        hand.give(Due("a"), after=60)
    assert [(1, 3.0), (2, 6.0)] == seen


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0, 10**6))
def test_a_delay_is_never_more_than_the_cap_and_never_overflows(
    base: float, cap: float, count: int
) -> None:
    """However often a step was tried, its delay is a number between 0 and the cap (B3)."""
    policy = plan_of("a", backoff_base_s=base, backoff_cap_s=cap).policy
    delay = backoff_delay(policy, count)
    assert 0 <= delay <= cap
    assert delay <= backoff_delay(policy, count + 1)


def test_a_delay_beyond_the_time_left_asks_at_once() -> None:
    """A wait that the time budget cannot pay for is not begun (B2)."""
    clock = FakeClock(auto=True)
    work = ScriptedTool("work", [Fails(), Returns()])
    policy: dict[str, Any] = {"ladder": BACKOFF, "backoff_base_s": 60}
    plan = plan_of(spec("a", max_retries=1), budget=Budget(seconds=10), **policy)
    outcome = run(loop_of(plan, work, clock=clock))
    assert (LoopState.WAITING_FOR_HUMAN, 0) == (outcome.state, clock.now())


# --------------------------------------------------------------------- budgets of a run

FOUR = tuple(spec(name, *needs) for name, needs in (("a", ()), ("b", "a"), ("c", "b"), ("d", "c")))
"""A chain, so that one start follows the other."""


def spending(clock: FakeClock) -> ScriptedTool:
    """A tool whose every call takes ten seconds."""
    return ScriptedTool("work", [Sleeps(10)], clock=clock)


@tool(name="work")
def costly(context: ToolContext) -> str:
    """Spend ten tokens and two in money."""
    context.spend(10, 2.0)
    return "worth it"


BUDGETS: dict[str, tuple[Budget, float]] = {
    "steps": (Budget(steps=2), 3),
    "tool_calls": (Budget(tool_calls=2), 3),
    "seconds": (Budget(seconds=20), 30),
    "tokens": (Budget(tokens=20), 30),
    "cost": (Budget(cost=4.0), 6.0),
}


def spent_after_two(name: str, **policy: Any) -> Loop:
    """A loop whose budget is spent when two of its four steps are done."""
    clock = FakeClock(auto=True)
    tools: list[Tool] = [costly] if name in ("tokens", "cost") else [spending(clock)]
    return loop_of(plan_of(*FOUR, budget=BUDGETS[name][0], **policy), *tools, clock=clock)


@pytest.mark.parametrize("name", BUDGETS)
def test_a_spent_budget_refuses_the_next_start_and_asks(name: str) -> None:
    """Each budget stops the run with one question: raise or stop (B29, B31)."""
    outcome = run(spent_after_two(name))
    assert (LoopState.WAITING_FOR_HUMAN, ["a", "b"]) == (outcome.state, list(outcome.outputs))
    (question,) = outcome.questions
    assert (RUN, [Choice.RAISE, Choice.STOP]) == (question.subject, list(question.choices))
    assert f"the budget {name} is spent" in question.text


@pytest.mark.parametrize("name", BUDGETS)
def test_a_raised_budget_goes_on(name: str) -> None:
    """With the higher number one more step runs, then it is asked again (B20, B31)."""
    loop = spent_after_two(name)
    run(loop)
    loop.answer(RUN, Choice.RAISE, to=BUDGETS[name][1])
    outcome = run(loop)
    assert ["a", "b", "c"] == list(outcome.outputs)
    assert [question.id for question in outcome.questions] == ["Q2"]
    loop.answer(RUN, Choice.RAISE, to=1000)
    assert LoopState.COMPLETED is run(loop).state


@pytest.mark.parametrize("to", [None, 0, 1, 2, float("nan")])
def test_a_number_that_is_too_small_is_refused(to: float | None) -> None:
    """A budget is raised above what was spent, or not at all (B20)."""
    loop = spent_after_two("steps")
    run(loop)
    before = loop.state
    with pytest.raises(AnswerRefused, match="raise run"):
        loop.answer(RUN, Choice.RAISE, to=to)
    assert before == loop.state


@pytest.mark.parametrize("name", BUDGETS)
def test_stop_abstains_and_keeps_what_is_verified(name: str) -> None:
    """`stop` ends the run as ABSTAINED, with its outputs (S17, D23)."""
    loop = spent_after_two(name)
    run(loop)
    loop.answer(RUN, Choice.STOP)
    assert (LoopState.ABSTAINED, ["a", "b"]) == (loop.outcome.state, list(loop.outcome.outputs))
    assert name in loop.outcome.reason


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("when_exhausted", [WhenExhausted.ABSTAIN, WhenExhausted.FAIL])
def test_a_spent_budget_ends_the_run_when_nobody_is_to_be_asked(
    when_exhausted: WhenExhausted, name: str
) -> None:
    """`when_exhausted` is the last rung of a spent budget too (B29)."""
    outcome = run(spent_after_two(name, when_exhausted=when_exhausted))
    assert (ENDS[when_exhausted], ["a", "b"]) == (outcome.state, list(outcome.outputs))
    assert () == outcome.questions


def test_abstention_that_is_not_allowed_fails_instead() -> None:
    """`when_exhausted = abstain` with `may_abstain = false` ends as FAILED (B28, S17)."""
    policy: dict[str, Any] = {"when_exhausted": WhenExhausted.ABSTAIN, "may_abstain": False}
    assert LoopState.FAILED is run(spent_after_two("steps", **policy)).state


def test_the_last_of_a_budget_can_be_used() -> None:
    """A plan that needs exactly its budget completes: only a further start is refused (D4)."""
    plan = plan_of(*FOUR, budget=Budget(steps=4, tool_calls=4))
    assert LoopState.COMPLETED is run(loop_of(plan)).state


def test_a_spent_budget_lets_what_is_under_way_end() -> None:
    """Attempts in flight are recorded; only the next start is refused (B31)."""
    hand = Hand.on(plan_of("a", "b", "c", budget=Budget(tool_calls=2)))
    assert LoopState.WAITING_FOR_HUMAN is hand.loop
    hand.give(done("a"), done("b"))
    assert [StepState.VERIFIED_COMPLETED] * 2 == [hand.stands("a"), hand.stands("b")]
    assert (StepState.READY, LoopState.WAITING_FOR_HUMAN) == (hand.stands("c"), hand.loop)


class Reduce(RecoveryHandler):
    """Goes on without the failed step and without `b`."""

    strategy: ClassVar[str] = "REDUCE"
    trigger = "skip"

    def facts(self, case: RecoveryCase) -> dict[str, bool]:
        return {"granted": True}

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        return (case.failure.subject, "b")

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        for step_id in self.scope(case):
            unit.leave_out(step_id)
            unit.fire(unit.step(step_id), "skip", granted=True)
        return RecoveryResult(success=True, new_state=LoopState.REPLANNING)


def refused_b(handler: RecoveryHandler) -> Hand:
    """Step a runs, step b is refused by the budget; `handler` is what a's failure gets."""
    ladder = {UNCLASSIFIED: (handler.strategy,)}
    plan = plan_of("a", "b", budget=Budget(steps=1), ladder=ladder, max_retries=1)
    hand = Hand.on(plan, Core.of(registry_with(handler)))
    assert [RUN] == list(hand.state.asked)
    return hand


def test_the_question_is_withdrawn_when_the_refused_step_is_skipped() -> None:
    """With no READY step left the budget is nobody's concern (B29)."""
    hand = refused_b(Reduce())
    hand.give(failed("a"))
    assert QuestionState.WITHDRAWN is hand.state.questions["Q1"].state
    assert LoopState.PARTIALLY_COMPLETED is hand.loop


def test_the_question_is_withdrawn_while_a_recovery_holds_the_refused_step() -> None:
    """A held step is not refused by the budget; released, it is refused and asked anew (B29)."""
    hand = refused_b(SlowRetry())
    hand.give(failed("a", kind=FailureKind.NOT_EXECUTED))
    assert (LoopState.RECOVERING, {}) == (hand.loop, dict(hand.state.asked))
    hand.give(Prepared(hand.state.unsettled["a"], 1))
    states = [hand.state.questions[name].state for name in ("Q1", "Q2")]
    assert [QuestionState.WITHDRAWN, QuestionState.OPEN] == states


def test_the_question_is_withdrawn_when_the_run_is_about_to_end() -> None:
    """While the end waits for attempts under way nothing is asked (B29, D11)."""
    hand = Hand.on(plan_of("a", "b", "c", budget=Budget(steps=2)))
    hand.give(failed("a", kind=FailureKind.TIMED_OUT))
    assert {"a", RUN} == set(hand.state.asked)
    hand.give(answer("a", Choice.STOP))
    assert (LoopState.RECOVERING, {}) == (hand.loop, dict(hand.state.asked))
    hand.give(done("b"))
    assert LoopState.ABSTAINED is hand.loop


def test_the_steps_of_a_plan_are_counted_once() -> None:
    """`steps` counts first starts, `tool_calls` every start (D3)."""
    work = ScriptedTool("work", [Fails()])
    outcome = run(loop_of(plan_of(spec("a", max_retries=2)), work))
    assert (1, 3) == (outcome.spent["steps"], outcome.spent["tool_calls"])


def test_a_retry_uses_no_step() -> None:
    """A retry starts no further step, so that the step budget cannot refuse it (D3, D4)."""
    work = ScriptedTool("work", [Fails(), Returns()])
    plan = plan_of(spec("a", max_retries=1), budget=Budget(steps=1))
    assert LoopState.COMPLETED is run(loop_of(plan, work)).state


def test_time_parked_is_not_charged() -> None:
    """`seconds` counts time driven; an hour without a driver costs nothing (B31)."""
    hand = Hand.on(plan_of(*FOUR, budget=Budget(seconds=100)))
    hand.give(Park(), after=10)
    hand.give(Drive(), after=3600)
    hand.give(done("a"), after=5)
    assert 15 == hand.state.spent["seconds"]


def test_what_a_failed_attempt_spent_counts() -> None:
    """Tokens and cost are charged whatever the result says, late ones too (B31)."""
    hand = Hand.on(plan_of(spec("a", max_retries=1, idempotent=True)))
    hand.give(failed("a", tokens=3, cost=0.5))
    hand.give(done("a", 1, tokens=4, cost=0.25))
    assert (7, 0.75) == (hand.state.spent["tokens"], hand.state.spent["cost"])


def test_verification_is_charged_and_never_refused() -> None:
    """A verifying call counts as a tool call, also beyond the budget (B31)."""
    look = ScriptedTool("look", read_only=True)
    plan = plan_of(spec("a", verify=Call("look")), budget=Budget(tool_calls=1))
    outcome = run(loop_of(plan, ScriptedTool("work"), look))
    assert (LoopState.COMPLETED, 2) == (outcome.state, outcome.spent["tool_calls"])
