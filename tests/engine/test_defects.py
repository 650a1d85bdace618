"""The measured defects of an earlier implementation, each as a law that ours keeps.

D1 to D4 (limits) are in `test_limits.py` too, D11 and D16 (people) in `test_answers.py`,
D22 (no change without an event) over random runs in `test_core_units.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, ClassVar

import attrs
import networkx as nx
import pytest

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import Cancel, Due
from loopfsm.errors import TransitionRefused
from loopfsm.lifecycle import Row
from loopfsm.model.event import LATE_RESULT
from loopfsm.model.failure import RUN, FailureKind, FailureState, RecoveryStrategy
from loopfsm.model.loop_state import ENDED, LoopState
from loopfsm.model.plan import UNCLASSIFIED, WhenExhausted
from loopfsm.model.step import FAILED_STATES, FINAL, Step, StepState, Verdict
from loopfsm.ports import Judgement
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.registry import MACHINES
from loopfsm.testing import Fails, Raises, Returns, ScriptedTool
from loopfsm.unit import Draft
from tests.engine.kit import (
    CORE,
    Hand,
    RetryOfOurs,
    answer,
    core_with,
    done,
    failed,
    loop_of,
    plan_of,
    registry_with,
    row,
    run,
    spec,
)

S, F, L = StepState, FailureState, LoopState

# ----------------------------------------------------------------- handlers that go wrong


class Wrong(RetryOfOurs):
    """A retry that goes wrong on the way; each subclass in its own."""

    strategy: ClassVar[str] = "WRONG"

    def halfway(self, case: RecoveryCase, unit: Draft) -> None:
        """Leave the step in RETRY_PENDING, its output gone."""
        unit.fire(case.failed_step, "retry", **self.facts(case))


class RaisesAtOnce(Wrong):
    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        raise ZeroDivisionError("a bug")


class RaisesHalfway(Wrong):
    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        self.halfway(case, unit)
        raise ZeroDivisionError("a bug")


class GivesUp(Wrong):
    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        self.halfway(case, unit)
        return RecoveryResult(success=False, message="a bug: it gave up", evidence={"error": "G"})


class ReportsAnotherState(Wrong):
    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        self.halfway(case, unit)
        return RecoveryResult(success=True, step_status=S.READY, message="a bug")


class BreaksItsPostcondition(Wrong):
    def validate_postconditions(self, unit: Draft) -> bool:
        return False

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        self.halfway(case, unit)
        return RecoveryResult(success=True, message="a bug")


WRONG = (RaisesAtOnce, RaisesHalfway, GivesUp, ReportsAnotherState, BreaksItsPostcondition)


def a_wrong_run(handler: RecoveryHandler, **policy: Any) -> Hand:
    """A run in which step `a` failed after it had completed `b`; the ladder takes `handler`."""
    ladder = {UNCLASSIFIED: (handler.strategy,)}
    plan = plan_of(spec("a", idempotent=True), "b", ladder=ladder, **policy)
    hand = Hand.on(plan, Core.of(registry_with(handler)))
    hand.give(done("b", output="kept"))
    return hand


# -------------------------------------------------------------------------- D1 to D4


@pytest.mark.parametrize("script", [[Fails()], [Raises(RuntimeError("always"))]])
def test_d1_d2_attempts_are_counted_per_step_and_end(script: list[Any]) -> None:
    """A step that always fails, or raises, ends after its limit, each failure settled (D1, D2)."""
    work = ScriptedTool("work", script)
    plan = plan_of(spec("a", max_retries=3), when_exhausted=WhenExhausted.FAIL)
    outcome = run(loop_of(plan, work))
    assert (4, L.FAILED) == (len(work.calls), outcome.state)
    assert [F.SUPERSEDED] * 3 + [F.TERMINAL] == [failure.state for failure in outcome.failures]


def test_d2_an_exception_is_a_failure_with_its_evidence() -> None:
    """What a tool raises fails the step, with type and words kept (D2, B17)."""
    outcome = run(loop_of(plan_of("a"), ScriptedTool("work", [Raises(ValueError("bad day"))])))
    (failure,) = outcome.failures
    assert (FailureKind.REPORTED, "ValueError: bad day") == (failure.kind, failure.message)
    assert "ValueError" == failure.evidence["error"]


def test_d3_a_bug_in_a_handler_is_told_from_a_recovery_that_failed() -> None:
    """The exception's type and traceback are the evidence, not "max attempts" (D3, B34)."""
    hand = a_wrong_run(RaisesAtOnce(), recoveries=1)
    hand.give(failed("a"))
    evidence = hand.state.failure("F1").evidence["recovery WRONG"]
    assert "ZeroDivisionError" == evidence["error"]
    assert "in apply" in evidence["traceback"]


def test_d4_n_retries_are_n_and_a_refused_one_is_none() -> None:
    """After the last retry the counter stands at the limit, and stays (D4, S5)."""
    hand = Hand.on(plan_of(spec("a", max_retries=2)))
    for attempt in (1, 2, 3):
        hand.give(failed("a", attempt))
    assert (2, 3) == (hand.state.step("a").retry_count, hand.state.step("a").attempt)
    assert S.WAITING_FOR_HUMAN is hand.stands("a")


# -------------------------------------------------------------------------- D5 to D7


def test_d5_a_failure_never_touches_a_finished_step() -> None:
    """The step that failed is recovered, whatever finished last; b is the same object (D5, B8)."""
    hand = Hand.on(plan_of(spec("a", max_retries=1), "b"))
    hand.give(done("b", output="kept"))
    finished = hand.state.step("b")
    hand.give(failed("a"))
    assert (S.RUNNING, 1) == (hand.stands("a"), hand.state.step("a").retry_count)
    assert finished is hand.state.step("b")


def test_d6_failures_of_one_call_are_all_handled() -> None:
    """Two steps that fail at once are both recovered (D6, B7)."""
    hand = Hand.on(plan_of(spec("a", max_retries=1), spec("b", max_retries=1)))
    hand.give(failed("b"), failed("a"))
    assert [S.RUNNING, S.RUNNING] == [hand.stands("a"), hand.stands("b")]
    assert [F.RECOVERY_IN_PROGRESS] * 2 == hand.failures()


def test_d6_the_oldest_failure_is_handled_first() -> None:
    """Recoveries come in the order of occurrence, one unit each (D6, B7, B33)."""
    hand = Hand.on(plan_of(*(spec(name, max_retries=1) for name in "abc")))
    before = len(hand.units)
    hand.give(failed("c"), failed("a"), failed("b"))
    causes = [unit.cause for unit in hand.units[before:]]
    assert ["RETRY F1", "RETRY F2", "RETRY F3"] == [c for c in causes if c.startswith("RETRY")]
    assert ["c", "a", "b"] == [hand.state.failure(f"F{n}").subject for n in (1, 2, 3)]


def test_d7_a_failed_recovery_is_picked_up_again() -> None:
    """As long as recoveries are left the ladder chooses again, then it asks (D7, B15)."""
    hand = a_wrong_run(GivesUp(), recoveries=3)
    hand.give(failed("a"))
    failure = hand.state.failure("F1")
    assert (F.ESCALATED, ("WRONG",) * 3) == (failure.state, failure.failed_strategies)
    assert 3 == hand.state.spent["recoveries/a"]


def test_d7_a_recovery_that_changes_nothing_is_no_success() -> None:
    """A handler that claims success and leaves the step failed is a failed attempt (D7, S2)."""

    class Lazy(Wrong):
        def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
            return RecoveryResult(success=True, message="done")

    hand = a_wrong_run(Lazy(), recoveries=1)
    hand.give(failed("a"))
    assert ([F.ESCALATED], S.WAITING_FOR_HUMAN) == (hand.failures(), hand.stands("a"))


# -------------------------------------------------------------------------- D8, D15


@pytest.mark.parametrize("handler", WRONG)
def test_d8_d15_what_goes_wrong_in_a_handler_leaves_all_as_before(
    handler: type[Wrong],
) -> None:
    """The unit is undone: step, outputs and other steps are as they were (D8, D15, B6, S22)."""
    hand = a_wrong_run(handler(), recoveries=1)
    other = hand.state.step("b")
    hand.give(done("a", output="what it made", evaluation=Judgement(Verdict.FAILED, "refused")))
    step = hand.state.step("a")
    assert ("what it made", 0, {}) == (step.output, step.retry_count, dict(step.metadata))
    assert other is hand.state.step("b")
    assert (S.WAITING_FOR_HUMAN, L.WAITING_FOR_HUMAN) == (hand.stands("a"), hand.loop)


@pytest.mark.parametrize("handler", WRONG)
def test_d8_a_handler_that_goes_wrong_is_a_failed_attempt_with_evidence(
    handler: type[Wrong],
) -> None:
    """The failure says which strategy failed and why; a person sees it (D8, B9, B34, S16)."""
    hand = a_wrong_run(handler(), recoveries=2)
    hand.give(failed("a"))
    failure = hand.state.failure("F1")
    assert ("WRONG", "WRONG") == failure.failed_strategies
    assert "recovery WRONG" in failure.evidence
    question = hand.state.questions["Q1"]
    assert ("WRONG", "WRONG") == question.context["failed_recoveries"]


@pytest.mark.parametrize("when_exhausted", WhenExhausted)
def test_d8_the_ladder_goes_on_inside_its_limits(when_exhausted: WhenExhausted) -> None:
    """When every recovery went wrong, the last rung is what the policy says (D8, B15)."""
    hand = a_wrong_run(RaisesHalfway(), recoveries=2, when_exhausted=when_exhausted)
    hand.give(failed("a"))
    ends = {
        WhenExhausted.ASK: L.WAITING_FOR_HUMAN,
        WhenExhausted.ABSTAIN: L.ABSTAINED,
        WhenExhausted.FAIL: L.FAILED,
    }
    assert ends[when_exhausted] is hand.loop
    assert "kept" == hand.state.step("b").output


def test_d8_a_preparation_that_raises_is_a_failed_attempt() -> None:
    """What `prepare` raises is kept, and nothing has changed (D8, D15, B9)."""

    class NeverReady(Wrong):
        prepares = True

        async def prepare(self, case: RecoveryCase) -> object:
            raise ConnectionError("nobody there")

        def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
            raise AssertionError("it was never prepared")

    plan = plan_of(spec("a", idempotent=True), recoveries=2, ladder={UNCLASSIFIED: ("WRONG",)})
    tool = ScriptedTool("work", [Fails()])
    loop = loop_of(plan, tool, recovery=registry_with(NeverReady()))
    outcome = run(loop)
    assert (L.WAITING_FOR_HUMAN, 1) == (outcome.state, len(tool.calls))
    (failure,) = outcome.failures
    assert ("WRONG", "WRONG") == failure.failed_strategies
    assert "ConnectionError" == failure.evidence["recovery WRONG"]["error"]


# -------------------------------------------------------------------------- D9 to D11


def test_d9_terminate_ends_as_failed() -> None:
    """Step and run are FAILED, checked on entry, with the evidence kept (D9, S18, S29, B19)."""
    hand = Hand.on(plan_of("a", spec("b", "a"), when_exhausted=WhenExhausted.FAIL))
    hand.give(failed("a", evidence={"exit": 3}))
    assert (L.FAILED, S.FAILED, S.CANCELLED) == (hand.loop, hand.stands("a"), hand.stands("b"))
    assert {"exit": 3} == dict(hand.state.failure("F1").evidence)
    assert "failed: it failed" == hand.state.run.reason


@pytest.mark.parametrize("when_exhausted", [WhenExhausted.FAIL, WhenExhausted.ABSTAIN])
def test_d10_what_ended_the_run_is_terminal_not_recovered(when_exhausted: WhenExhausted) -> None:
    """The failure's end is that of its strategy, not one flag of success (D10, B13)."""
    hand = Hand.on(plan_of("a", when_exhausted=when_exhausted))
    hand.give(failed("a"))
    assert [F.TERMINAL] == hand.failures()
    states = [event.changes.get("state") for event in hand.events]
    assert F.RECOVERED not in states


def test_d11_a_question_is_no_recovery_until_it_is_answered() -> None:
    """ESCALATED until the answer, then resumed by it, then recovered by the result (D11, B12)."""
    hand = Hand.on(plan_of("a"))
    seen = []
    for item in (failed("a"), answer("a", "retry"), done("a", 2)):
        hand.give(item)
        seen += hand.failures()
    assert [F.ESCALATED, F.RECOVERY_IN_PROGRESS, F.RECOVERED] == seen
    assert L.COMPLETED is hand.loop


# -------------------------------------------------------------------------- D14


NOT_FAILED = [state for state in StepState if state not in FAILED_STATES]


@pytest.mark.parametrize("state", NOT_FAILED)
def test_d14_only_a_failed_step_is_retried(state: StepState) -> None:
    """From any other state a retry is refused, with nothing changed (D14, S3)."""
    step = Step(spec=spec("a", idempotent=True), state=state, output="kept")
    facts = {"max_retries": 9, "granted": True, "now": 0.0, "delay": 0.0}
    with pytest.raises(TransitionRefused, match=f"in {state.name} refused 'retry'"):
        MACHINES["step"].fire(step, "retry", **facts)
    assert "kept" == step.output


# -------------------------------------------------------------------------- D16, D17


@pytest.mark.parametrize("skipped", [False, True])
def test_d16_there_is_one_definition_of_complete(skipped: bool) -> None:
    """A run ends exactly when every step is verified or skipped; reduced is not done (D16)."""
    hand = Hand.on(plan_of("a", "b"))
    hand.give(failed("a", kind=FailureKind.TIMED_OUT) if skipped else done("a"))
    assert hand.loop not in ENDED
    if skipped:
        hand.give(answer("a", "skip"))
    hand.give(done("b"))
    assert (L.PARTIALLY_COMPLETED if skipped else L.COMPLETED) is hand.loop


def passes(step: Step, output: Any) -> Judgement:
    return Judgement(Verdict.PASSED)


async def passes_later(step: Step, output: Any) -> Judgement:
    return Judgement(Verdict.PASSED)


@pytest.mark.parametrize(
    ("evaluator", "verifier"), list(product([None, passes, passes_later], repeat=2))
)
def test_d17_every_combination_of_judges_leads_to_the_end(evaluator: Any, verifier: Any) -> None:
    """With a judge off its row fires as not checked; every path is legal (D17, B18, S31)."""
    loop = loop_of(plan_of("a", spec("b", "a")), evaluator=evaluator, verifier=verifier)
    assert L.COMPLETED is run(loop).state
    step = loop.state.step("a")
    expected = [
        Verdict.NOT_CHECKED if judge is None else Verdict.PASSED for judge in (evaluator, verifier)
    ]
    assert expected == [step.evaluation, step.verification]


# -------------------------------------------------------------------------- D18, D19


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_d18_an_ended_run_makes_no_further_failure(end: str) -> None:
    """What comes after the end is a note in the trace, and changes nothing (D18, S28, S31)."""
    hand = Hand.on(plan_of("a", "b", when_exhausted=WhenExhausted.FAIL))
    hand.give(Cancel() if end == "cancel" else failed("a"), done("b"), done("a"))
    assert hand.loop in ENDED
    nouns, count = hand.state.steps, len(hand.units)
    hand.give(failed("a"), done("b"), Due("a"), Cancel())
    assert (nouns, True) == (hand.state.steps, hand.loop in ENDED)
    assert {LATE_RESULT} == {e.row for unit in hand.units[count:] for e in unit.events}


def breaks(step: Step, output: Any) -> Judgement:
    raise KeyError("a bug of the judge")


async def breaks_later(step: Step, output: Any) -> Judgement:
    raise KeyError("a bug of the judge")


def nonsense(step: Step, output: Any) -> Any:
    return "looks good"


async def nonsense_later(step: Step, output: Any) -> Any:
    return "looks good"


@pytest.mark.parametrize("role", ["evaluator", "verifier"])
@pytest.mark.parametrize("judge", [breaks, breaks_later, nonsense, nonsense_later])
def test_d19_a_judge_that_breaks_passes_nothing(judge: Callable[..., Any], role: str) -> None:
    """An evaluator or verifier that raises, or says nonsense, fails closed (D19)."""
    outcome = run(loop_of(plan_of("a", spec("b", "a")), **{role: judge}))
    assert (L.WAITING_FOR_HUMAN, {}) == (outcome.state, dict(outcome.outputs))
    expected = FailureKind.REJECTED if role == "evaluator" else FailureKind.NOT_VERIFIED
    (failure,) = outcome.failures
    assert expected is failure.kind
    assert failure.message.startswith("the check itself failed: ")


def broken_guard(*_nouns: Any) -> bool:
    raise KeyError("a bug of the guard")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(row("start", S.RUNNING), id="start"),
        pytest.param(row("begin", F.RECOVERY_IN_PROGRESS), id="begin"),
        pytest.param(row("complete", L.COMPLETED), id="complete"),
    ],
)
def test_d19_a_guard_that_raises_lets_nothing_through(broken: Row) -> None:
    """A guard that cannot be asked is no yes: the run ends as FAILED, nothing done (D19)."""
    hand = Hand.on(plan_of(spec("a", max_retries=1)), core_with(broken, guards=(broken_guard,)))
    if hand.loop not in ENDED:
        hand.give(done("a") if broken.trigger == "complete" else failed("a"))
    assert L.FAILED is hand.loop
    assert hand.state.step("a").attempt <= 1


def test_d19_a_guard_of_a_strategy_that_raises_is_a_no() -> None:
    """The strategy is passed over, nothing is done again, and a person is asked (D8, D19)."""
    broken = core_with(row("retry", S.RETRY_PENDING), guards=(broken_guard,))
    hand = Hand.on(plan_of(spec("a", max_retries=1)), broken)
    hand.give(failed("a"))
    assert (L.WAITING_FOR_HUMAN, 1) == (hand.loop, hand.state.step("a").attempt)


def test_d19_a_guard_of_a_result_that_raises_ends_the_run() -> None:
    """Also when no row can take the result, the run comes to its end (D19)."""
    core = CORE
    for trigger, target in (("record", S.EXECUTED), ("fail_evaluation", S.EVALUATION_FAILED)):
        broken = row(trigger, target, S.RUNNING)
        core = core_with(broken, core, guards=(broken_guard,))
    hand = Hand.on(plan_of("a"), core)
    hand.give(done("a"))
    assert L.FAILED is hand.loop


# -------------------------------------------------------------------------- D20


def graph_of(machine: str) -> Any:
    graph = nx.DiGraph()
    for each in MACHINES[machine].rows:
        graph.add_edges_from((source, each.target) for source in each.source)
    return graph


RESTS = (L.EXECUTING, L.RECOVERING, L.WAITING_FOR_HUMAN)


@pytest.mark.parametrize(("rest", "end"), list(product(RESTS, ENDED)))
def test_d20_every_end_can_be_reached_from_every_rest(rest: LoopState, end: LoopState) -> None:
    """No final state is out of reach, and none is left again (D20, B29, S31)."""
    graph = graph_of("loop")
    assert nx.has_path(graph, rest, end)
    assert [] == list(graph.successors(end))


@pytest.mark.parametrize("name", MACHINES)
def test_d20_every_state_that_rows_name_can_be_reached(name: str) -> None:
    """From the initial state of each machine its rows lead to every state in it (D20)."""
    graph = graph_of(name)
    reached = {MACHINES[name].initial, *nx.descendants(graph, MACHINES[name].initial)}
    assert set(graph) == reached


@pytest.mark.parametrize("state", [state for state in StepState if state not in FINAL])
def test_d20_every_step_can_come_to_an_end(state: StepState) -> None:
    """From each state that is not final some row leads towards a final one (D20)."""
    graph = graph_of("step")
    assert any(nx.has_path(graph, state, final) for final in FINAL if final in graph)


# -------------------------------------------------------------------------- D21


@pytest.mark.parametrize("first", ["RETRY", "RETRY_WITH_BACKOFF"])
def test_d21_the_ladder_decides(first: str) -> None:
    """Which strategy is taken is what the policy lists first, not what is wired in (D21, S1)."""
    plan = plan_of(spec("a", max_retries=1), ladder={UNCLASSIFIED: (first, "RETRY")})
    hand = Hand.on(plan)
    hand.give(failed("a"))
    assert first == hand.state.failure("F1").strategy


def test_d21_every_strategy_of_the_machines_has_a_handler() -> None:
    """The rows of a strategy come with what executes it (D21, S21)."""
    registry = CORE.registry
    for name in registry.strategies:
        handler = registry.get(name)
        assert handler is not None
        assert all(each in CORE.machines.step.rows for each in handler.rows)


def test_d21_a_strategy_without_a_handler_is_passed_over_and_says_so() -> None:
    """An unknown name in a ladder is neither a crash nor silence (D21, S21, S23)."""
    plan = plan_of(spec("a", max_retries=1), ladder={UNCLASSIFIED: ("NOBODY", "RETRY")})
    hand = Hand.on(plan)
    hand.give(failed("a"))
    assert S.RUNNING is hand.stands("a")
    reasons = [str(e.changes.get("reason")) for e in hand.events]
    assert any("NOBODY: no handler is registered" in reason for reason in reasons)


def test_d21_executing_an_unknown_strategy_is_a_failed_result() -> None:
    """The registry answers with a result that names it, and raises nothing (D21, S21)."""
    hand = Hand.on(plan_of("a"))
    unit = Draft(hand.state, CORE.machines, 0.0)
    result = CORE.registry.execute("NOBODY", a_case(hand), None, unit)
    assert (False, "NOBODY") == (result.success, result.message.split()[4].strip(";"))


def a_case(hand: Hand) -> RecoveryCase:
    hand.give(failed("a"))
    failure, step = hand.state.failure("F1"), hand.state.step("a")
    policy = hand.state.plan.policy
    return RecoveryCase(failure=failure, step=step, state=hand.state, policy=policy, now=0.0)


# -------------------------------------------------------------------------- D22 to D24


def test_d22_nothing_can_be_assigned() -> None:
    """Nouns and state are frozen: only rows make new ones (D22, B16)."""
    hand = Hand.on(plan_of("a"))
    for noun in (hand.state, hand.state.run, hand.state.step("a")):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            noun.state = L.FAILED  # type: ignore[misc, union-attr]  # what is refused


ENDINGS: dict[LoopState, tuple[dict[str, Any], list[Any]]] = {
    L.COMPLETED: ({}, [Returns()]),
    L.WAITING_FOR_HUMAN: ({}, [Fails()]),
    L.ABSTAINED: ({"when_exhausted": WhenExhausted.ABSTAIN}, [Fails()]),
    L.FAILED: ({"when_exhausted": WhenExhausted.FAIL}, [Fails()]),
}


@pytest.mark.parametrize("state", ENDINGS)
def test_d23_each_end_is_told_from_the_others(state: LoopState) -> None:
    """Abstained, waiting and failed are three outcomes, not one (D23, S24, B29)."""
    policy, script = ENDINGS[state]
    outcome = run(loop_of(plan_of("a", **policy), ScriptedTool("work", script)))
    assert (state, state in ENDED) == (outcome.state, outcome.final)
    assert (state is L.WAITING_FOR_HUMAN) == bool(outcome.questions)


def test_d23_a_partial_completion_is_an_end_of_its_own() -> None:
    """A run that skipped a step is PARTIALLY_COMPLETED and says without what (D23, D16)."""
    loop = loop_of(plan_of("a"), ScriptedTool("work", [Fails()]))
    run(loop)
    loop.answer("a", "skip")
    outcome = run(loop)
    assert (L.PARTIALLY_COMPLETED, ("a",)) == (outcome.state, outcome.skipped)


@pytest.mark.parametrize("strategy", ["RETRY", "RETRY_WITH_BACKOFF"])
def test_d24_a_last_attempt_that_succeeds_is_never_seen_as_failed(strategy: str) -> None:
    """No event of the run says RECOVERY_FAILED or FAILED on the way (D24, B12)."""
    work = ScriptedTool("work", [Fails(), Fails(), Returns()])
    plan = plan_of(spec("a", max_retries=2), recoveries=2, ladder={UNCLASSIFIED: (strategy,)})
    loop = loop_of(plan, work)
    assert L.COMPLETED is run(loop).state
    states = [event.changes.get("state") for event in loop.journal.events("run")]
    assert not {F.RECOVERY_FAILED, F.TERMINAL, S.FAILED, L.FAILED} & set(states)
    assert F.RECOVERED in states


def test_the_run_itself_has_no_step_of_its_name() -> None:
    """What concerns the run is asked under a subject no step can have (B8)."""
    assert RecoveryStrategy.TERMINATE in CORE.registry.strategies
    with pytest.raises(ValueError, match=RUN):
        Hand.on(plan_of(RUN))
