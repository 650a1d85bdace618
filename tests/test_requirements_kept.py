"""Requirements that no test of a single room proves by itself, one law each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from loopfsm.engine.core import Core
from loopfsm.errors import PlanError
from loopfsm.model.event import Event
from loopfsm.model.failure import FailureKind, FailureState, RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import UNCLASSIFIED, WhenExhausted
from loopfsm.model.step import StepState, Verdict
from loopfsm.ports import Judgement
from loopfsm.recovery.base import RecoveryCase, RecoveryResult
from loopfsm.recovery.registry import RecoveryRegistry
from loopfsm.recovery.strategies.abstain import Abstain
from loopfsm.recovery.strategies.terminate import Terminate
from loopfsm.testing import Fails, Raises, Returns, ScriptedTool
from loopfsm.unit import Draft
from tests.engine.kit import (
    Hand,
    RetryOfOurs,
    answer,
    done,
    failed,
    loop_of,
    plan_of,
    registry_with,
    run,
    spec,
)

F, L, S = FailureState, LoopState, StepState


def states_of(events: list[Event], noun: str) -> list[Any]:
    """The states that one kind of noun entered, in order."""
    return [e.changes["state"] for e in events if e.noun == noun and "state" in e.changes]


# The loop


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_the_loop_goes_from_a_retry_to_planning_every_time(rounds: int) -> None:
    """Each retry ends at ITERATION_COMPLETE, then PLANNING; only success completes (B1, S31)."""
    hand = Hand.on(plan_of(spec("a", max_retries=rounds)))
    first = len(hand.events)
    for attempt in range(1, rounds + 1):
        hand.give(failed("a", attempt))
    each = [L.RECOVERING, L.ITERATION_COMPLETE, L.PLANNING, L.EXECUTING]
    assert each * rounds == states_of(hand.events[first:], "loop")
    hand.give(done("a", rounds + 1))
    assert L.COMPLETED is hand.loop


@pytest.mark.parametrize(
    ("choice", "way"),
    [
        ("retry", [L.RECOVERING, L.ITERATION_COMPLETE, L.PLANNING, L.EXECUTING]),
        ("skip", [L.RECOVERING, L.REPLANNING, L.PLANNING, L.EXECUTING, L.PARTIALLY_COMPLETED]),
        ("stop", [L.ABSTAINED]),
    ],
)
def test_where_an_escalation_and_its_answer_lead(choice: str, way: list[LoopState]) -> None:
    """From RECOVERING to the person; a retry, a skip and a stop go on by their own way (X6)."""
    hand = Hand.on(plan_of("a", "b"))
    hand.give(done("b", output="kept"))
    first = len(hand.events)
    hand.give(failed("a"))
    asked = len(hand.events)
    assert [L.RECOVERING, L.WAITING_FOR_HUMAN] == states_of(hand.events[first:], "loop")
    hand.give(answer("a", choice))
    assert way == states_of(hand.events[asked:], "loop")
    assert "kept" == hand.state.step("b").output


@pytest.mark.parametrize("script", [[Fails(), Returns(1)], [Raises(OSError("no"))], [Returns(1)]])
def test_no_name_of_a_tool_is_special(script: list[Any]) -> None:
    """With every tool renamed the run takes the same rows to the same states (R16)."""
    seen = []
    for name in ("work", "shell", "python", "search_web", "login"):
        plan = plan_of(spec("a", tool=name, max_retries=1), spec("b", "a", tool=name))
        loop = loop_of(plan, ScriptedTool(name, {"a": script, "b": [Returns()]}))
        state = run(loop).state
        rows = [(e.row, e.noun, e.id, e.changes.get("state")) for e in loop.journal.events("run")]
        seen.append((state, rows))
    assert [seen[0]] * len(seen) == seen


def test_no_tool_is_put_in_the_place_of_another() -> None:
    """A step is only ever called with the tool its author named, however it fails (R43)."""
    broken, other = ScriptedTool("work", [Fails()]), ScriptedTool("work_too")
    outcome = run(loop_of(plan_of(spec("a", max_retries=3)), broken, other))
    assert (L.WAITING_FOR_HUMAN, 4, []) == (outcome.state, len(broken.calls), other.calls)


# Recovery


def test_a_ladder_that_nobody_can_climb_is_refused_at_the_door() -> None:
    """A ladder whose strategies nobody registered starts nothing, and says which (S23)."""
    work = ScriptedTool("work")
    with pytest.raises(PlanError, match="no strategy 'RETRY' is registered"):
        loop_of(plan_of("a"), work, recovery=RecoveryRegistry())
    assert [] == work.calls


def test_a_run_without_strategies_ends_and_says_why() -> None:
    """Without any strategy a failure ends the run as FAILED, each rung with its reason (S23)."""
    work = ScriptedTool("work", [Fails()])
    plan = plan_of(spec("a", max_retries=3), ladder={UNCLASSIFIED: ()})
    outcome = run(loop_of(plan, work, recovery=RecoveryRegistry()))
    assert (L.FAILED, 1) == (outcome.state, len(work.calls))
    for strategy in ("REQUEST_HUMAN", "TERMINATE"):
        assert f"{strategy}: no handler is registered" in outcome.reason


def test_a_new_failure_is_a_new_one_and_a_recovered_one_stays_so() -> None:
    """Each failure has an id of its own, and nothing happens to one that is settled (S28)."""
    steps = (spec("a", max_retries=2), spec("b", "a", max_retries=1))
    hand = Hand.on(plan_of(*steps))
    hand.give(failed("a"))
    hand.give(failed("a", 2))
    hand.give(done("a", 3))
    settled = dict(hand.state.failures)
    assert {"F1": F.SUPERSEDED, "F2": F.RECOVERED} == {id: f.state for id, f in settled.items()}
    hand.give(failed("b"))
    hand.give(done("b", 2))
    assert ["F1", "F2", "F3"] == sorted(hand.state.failures)
    assert settled == {id: hand.state.failures[id] for id in settled}


def test_only_what_was_carried_out_counts_as_tried() -> None:
    """A strategy nobody can carry out is no failed recovery, and spends none (B14)."""
    ladder = {UNCLASSIFIED: ("NOBODY",)}
    hand = Hand.on(plan_of(spec("a", idempotent=True), ladder=ladder))
    hand.give(failed("a"))
    failure = hand.state.failure("F1")
    assert (F.ESCALATED, ()) == (failure.state, failure.failed_strategies)
    assert F.RECOVERY_IN_PROGRESS not in states_of(hand.events, "failure")
    assert 0 == hand.state.spent.get("recoveries/a", 0)


class Curious(RetryOfOurs):
    """Keeps every case it is given."""

    def __init__(self) -> None:
        self.cases: list[RecoveryCase] = []

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        self.cases.append(case)
        return super().apply(case, prepared, unit)


def test_a_handler_is_told_what_the_evaluator_said() -> None:
    """The case holds the verdict, its words and its evidence, and what was judged (B26, S19)."""
    handler = Curious()
    steps = (spec("a", max_retries=1, idempotent=True),)
    plan = plan_of(*steps, ladder={UNCLASSIFIED: (handler.strategy,)})
    hand = Hand.on(plan, Core.of(registry_with(handler)))
    said = Judgement(Verdict.FAILED, "too short", {"words": 3})
    hand.give(done("a", output="a b c", evaluation=said))
    (case,) = handler.cases
    assert (FailureKind.REJECTED, "too short") == (case.failure.kind, case.failure.message)
    assert ({"words": 3}, "a b c") == (dict(case.failure.evidence), case.failed_step.output)
    assert (hand.state.plan.policy, "run") == (case.policy, case.state.run.id)


def test_the_strategies_have_the_names_of_the_document() -> None:
    """The names are those of the specification, in its order, as journals keep them (B27)."""
    assert [
        *("RETRY", "RETRY_WITH_BACKOFF", "REPLAN_STEP", "REPLAN_REMAINING_TASK", "ROLLBACK"),
        *("CHANGE_TOOL", "CHANGE_MODEL", "REDUCE_SCOPE", "REQUEST_HUMAN", "ABSTAIN", "TERMINATE"),
    ] == [strategy.value for strategy in RecoveryStrategy]


class NotToday(Abstain):
    """Abstention as the host allows it."""

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        return {**super().facts(case), "may_abstain": False}


@pytest.mark.parametrize(("handler", "end"), [(Abstain, L.ABSTAINED), (NotToday, L.FAILED)])
def test_a_host_may_forbid_to_abstain(handler: type[Abstain], end: LoopState) -> None:
    """What the policy leaves open the host's own handler may still refuse (B28)."""
    registry = RecoveryRegistry()
    for each in (handler(), Terminate()):
        registry.register(each)
    hand = Hand.on(plan_of("a", when_exhausted=WhenExhausted.ABSTAIN), Core.of(registry))
    hand.give(failed("a"))
    assert end is hand.loop
