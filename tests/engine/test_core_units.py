"""Units: all of one stands or none of it does, and nothing but events changes a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import pytest
from hypothesis import given, settings

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import (
    Accepted,
    Answer,
    Command,
    Drive,
    Due,
    Expired,
    Input,
    Judged,
    Park,
    Refuse,
)
from loopfsm.engine.judging import NOT_CHECKED
from loopfsm.lifecycle import Row
from loopfsm.lifecycles.failure import is_a_last_rung
from loopfsm.lifecycles.step import record_output
from loopfsm.model.event import Event
from loopfsm.model.failure import OPEN, RUN, Failure, FailureKind, FailureState, RecoveryStrategy
from loopfsm.model.loop_state import LoopState, Run, RunState, RunView
from loopfsm.model.plan import UNCLASSIFIED, Budget, Plan, WhenExhausted
from loopfsm.model.question import Choice, Question, QuestionState
from loopfsm.model.step import FAILED_STATES, Step, StepState
from loopfsm.recovery.registry import MACHINES
from tests.engine.kit import (
    CORE,
    Hand,
    answer,
    core_with,
    done,
    events_of,
    failed,
    folded,
    indexes,
    plan_of,
    recounted,
    row,
    rows_of,
    spec,
)
from tests.engine.walks import CORE as CORE_OF_WALKS
from tests.engine.walks import Calls, calls, plans, walk

MANY = 500
NAMES = [f"s{number}" for number in range(MANY)]
POSITIONS = pytest.mark.parametrize("victim", [NAMES[0], NAMES[MANY // 2], NAMES[-1]])


class InjectedError(Exception):
    """What the patched rows raise."""


RECORD = row("record", StepState.EXECUTED)
PASS_EVALUATION = row("pass_evaluation", StepState.EVALUATED)
PASS_VERIFICATION = row("pass_verification", StepState.VERIFIED_COMPLETED)
FAIL_RUNNING = row("fail_evaluation", StepState.EVALUATION_FAILED, StepState.RUNNING)
START = row("start", StepState.RUNNING)
DUE = row("due", StepState.READY)
INTERRUPT = row("interrupt", StepState.EVALUATION_FAILED)
STEP_ANSWERED = row("answered", StepState.EVALUATION_FAILED)
ANSWER = row("answer", QuestionState.ANSWERED)
EXPIRE = row("expire", QuestionState.EXPIRED)
PLAN_LAST_RUNG = next(r for r in MACHINES["failure"].rows if is_a_last_rung in r.guards)
FAILURE_ANSWERED = row("answered", FailureState.RECOVERY_PLANNED)
COMPLETE = row("complete", LoopState.COMPLETED)


def raise_for(victim: str, noun: Step | Question, *, good: bool = True) -> bool:
    """Raise for the victim; else `good`."""
    if victim in (noun.id, getattr(noun, "subject", "")):
        raise InjectedError(noun.id)
    return good


# ------------------------------------------------------- a result that cannot be taken


def broken_update(victim: str) -> dict[str, Any]:
    def update(step: Step, *, output: Any, now: float) -> Any:
        raise_for(victim, step)
        return record_output(step, output=output, now=now)

    return {"update": update}


def raising_ensure(victim: str) -> dict[str, Any]:
    def ensure(before: Step, after: Step) -> bool:
        return raise_for(victim, after)

    return {"ensures": (*RECORD.ensures, ensure)}


def false_ensure(victim: str) -> dict[str, Any]:
    def ensure(before: Step, after: Step) -> bool:
        return after.id != victim

    return {"ensures": (*RECORD.ensures, ensure)}


def raising_ensure_of_run(victim: str) -> dict[str, Any]:
    def ensure_run(step: Step, before: RunView, after: RunView) -> bool:
        return raise_for(victim, step)

    return {"ensures_run": (ensure_run,)}


def false_ensure_of_run(victim: str) -> dict[str, Any]:
    def ensure_run(step: Step, before: RunView, after: RunView) -> bool:
        return step.id != victim

    return {"ensures_run": (ensure_run,)}


BREAKS = (
    broken_update,
    raising_ensure,
    false_ensure,
    raising_ensure_of_run,
    false_ensure_of_run,
)


@cache
def five_hundred() -> RunState:
    """Five hundred steps, all of them running."""
    return Hand.on(plan_of(*NAMES, max_parallel=MANY)).state


def results(victim: str, instead: Input) -> list[Input]:
    """The result of each step, in one commit; that of the victim is another one."""
    return [instead if name == victim else done(name, output=name) for name in NAMES]


WORDS = ("message", "evidence", "text", "context", "reason")
"""The fields that say in words why something failed."""


def without_words(events: list[Event]) -> list[Event]:
    """The events, without what they say about why something failed."""
    return [
        attrs.evolve(
            event,
            changes={name: v for name, v in event.changes.items() if name not in WORDS},
            facts={name: v for name, v in event.facts.items() if name not in WORDS},
        )
        for event in events
    ]


@cache
def as_a_rejection(victim: str) -> Hand:
    """The run in which the victim's result was a rejected one from the beginning."""
    hand = Hand(five_hundred())
    hand.give(*results(victim, failed(victim, kind=FailureKind.REJECTED)))
    return hand


@POSITIONS
@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.slow  # a commit of five hundred results, twice
def test_a_result_whose_unit_raises_becomes_the_failure_of_its_step_alone(
    broken: Callable[[str], dict[str, Any]], victim: str
) -> None:
    """One broken unit of 500 is undone alone; the journal is that of a failed step (B6, D15)."""
    hand = Hand(five_hundred(), core_with(RECORD, **broken(victim)))
    hand.give(*results(victim, done(victim, output=victim)))
    verified = [name for name in NAMES if hand.stands(name) is StepState.VERIFIED_COMPLETED]
    assert [name for name in NAMES if name != victim] == verified
    assert without_words(as_a_rejection(victim).events) == without_words(hand.events)


def test_the_failure_keeps_what_broke() -> None:
    """The failure of an undone result names the row and the error, with the traceback (D3)."""
    hand = Hand.on(plan_of("a"), core_with(RECORD, **broken_update("a")))
    hand.give(done("a"))
    failure = hand.state.failure("F1")
    assert (FailureKind.REJECTED, "InjectedError") == (failure.kind, failure.evidence["error"])
    assert "raise_for" in failure.evidence["traceback"]
    hand = Hand.on(plan_of("a"), core_with(RECORD, **false_ensure("a")))
    hand.give(done("a"))
    assert RECORD.id == hand.state.failure("F1").evidence["row"]


def test_what_a_broken_result_spent_is_charged_all_the_same() -> None:
    """Tokens and cost are spent, whatever becomes of the result (S1)."""
    hand = Hand.on(plan_of("a"), core_with(RECORD, **broken_update("a")))
    hand.give(done("a", tokens=100, cost=2.0))
    assert (100, 2.0) == (hand.state.spent.get("tokens"), hand.state.spent.get("cost"))


def test_a_verdict_whose_unit_raises_fails_its_step_alone() -> None:
    """An awaited verdict that cannot be taken is a failed one; the others stand (D19)."""

    def ensure(before: Step, after: Step) -> bool:
        return raise_for("b", after)

    hand = Hand.on(plan_of("a", "b", "c"), core_with(PASS_VERIFICATION, ensures=(ensure,)))
    recorded: dict[str, Any] = {"evaluation": None, "verification": None}
    hand.give(*(done(name, **recorded) for name in "abc"))
    assert [StepState.EXECUTED] * 3 == [hand.stands(name) for name in "abc"]
    hand.give(*(judged_well(name) for name in "abc"))
    expected = [StepState.VERIFIED_COMPLETED, StepState.WAITING_FOR_HUMAN]
    assert [*expected, StepState.VERIFIED_COMPLETED] == [hand.stands(name) for name in "abc"]
    assert [FailureState.ESCALATED] == hand.failures()


def judged_well(name: str) -> Judged:
    return Judged(step_id=name, attempt=1, evaluation=NOT_CHECKED, verification=NOT_CHECKED)


# ------------------------------------------------------ an answer that cannot be taken


@cache
def five_hundred_questions() -> RunState:
    """Five hundred steps that failed, each with a question."""
    hand = Hand(five_hundred())
    hand.give(*(failed(name) for name in NAMES))
    return hand.state


def answers(leave_out: str = "") -> list[Answer]:
    """Skip every step, in one commit."""
    return [answer(name, "skip", f"token of {name}") for name in NAMES if name != leave_out]


@cache
def without_the_answer(victim: str) -> tuple[Hand, tuple[Command, ...]]:
    """The run in which nobody answered about the victim."""
    hand = Hand(five_hundred_questions())
    return hand, hand.give(*answers(leave_out=victim))


def raising_answer(victim: str) -> Core:
    def ensure(before: Question, after: Question) -> bool:
        return raise_for(victim, after)

    return core_with(ANSWER, ensures=(ensure,))


def raising_order(victim: str) -> Core:
    def update(step: Step, *, grants_repeat: bool) -> Any:
        raise_for(victim, step)
        return {"failed_in": None}

    return core_with(STEP_ANSWERED, update=update)


def false_plan(victim: str) -> Core:
    def ensure_run(failure: Failure, before: RunView, after: RunView) -> bool:
        return failure.subject != victim

    return core_with(FAILURE_ANSWERED, ensures_run=(ensure_run,))


@POSITIONS
@pytest.mark.parametrize("broken", [raising_answer, raising_order, false_plan])
@pytest.mark.slow  # a commit of five hundred answers
def test_an_answer_whose_unit_raises_never_happened(
    broken: Callable[[str], Core], victim: str
) -> None:
    """Of 500 answers the broken one is refused, and the run is the one without it (B20)."""
    hand = Hand(five_hundred_questions(), broken(victim))
    commands = hand.give(*answers())
    expected, accepted = without_the_answer(victim)
    assert expected.units == hand.units
    assert expected.state == hand.state
    refused = [command for command in commands if isinstance(command, Refuse)]
    assert [f"token of {victim}"] == [command.token for command in refused]
    assert [c for c in accepted if isinstance(c, Accepted)] == [
        c for c in commands if isinstance(c, Accepted)
    ]
    assert f"token of {victim}" not in hand.state.tokens


# ------------------------------------------------------------------- anything else


def not_about_a(noun: Any, before: RunView, after: RunView) -> bool:
    """Raise for what concerns the step `a`, or the loop itself."""
    return raise_for("run" if isinstance(noun, Run) else "a", noun)


BACKOFF = {"ladder": {UNCLASSIFIED: (RecoveryStrategy.RETRY_WITH_BACKOFF,)}}
NOT_MADE = failed("a", kind=FailureKind.NOT_EXECUTED)
UNKNOWN = failed("a", kind=FailureKind.TIMED_OUT)
Case = tuple[Row, dict[str, Any], list[Input], Input]
FORCED: dict[str, Case] = {
    "a resumption": (INTERRUPT, {}, [], Drive(resumed=True)),
    "the failure itself": (FAIL_RUNNING, {}, [], failed("a")),
}
ORDERLY: dict[str, Case] = {
    "a timer": (DUE, BACKOFF, [NOT_MADE], Due("a")),
    "a deadline": (EXPIRE, {"question_deadline_s": 1}, [UNKNOWN], Expired("Q1")),
    "the planning of a recovery": (PLAN_LAST_RUNG, {}, [], UNKNOWN),
    "the end": (COMPLETE, {}, [], done("a")),
}
ELSE = {**ORDERLY, **FORCED}


def broken_by(what: str) -> Hand:
    """A run in which b is verified in the same commit in which something else raises."""
    broken, policy, calls_before, item = ELSE[what]
    contracts = (*broken.ensures_run, not_about_a)
    plan = plan_of(spec("a", max_retries=1), "b", **policy)
    hand = Hand.on(plan, core_with(broken, ensures_run=contracts))
    for each in calls_before:
        hand.give(each)
    hand.give(done("b", output="kept"), item, after=5)
    return hand


@pytest.mark.parametrize("what", ELSE)
def test_anything_else_that_raises_ends_the_run_as_failed(what: str) -> None:
    """The run is FAILED and says why, and the other units of the commit stand (D15, D22)."""
    hand = broken_by(what)
    assert (LoopState.FAILED, StepState.VERIFIED_COMPLETED) == (hand.loop, hand.stands("b"))
    assert "InjectedError" in hand.state.run.reason


@pytest.mark.parametrize("what", ELSE)
def test_what_raised_is_kept_with_its_traceback(what: str) -> None:
    """A failure of the run holds the error as its evidence (D15, S18)."""
    failures = broken_by(what).state.failures.values()
    broken = [failure for failure in failures if failure.kind is FailureKind.BROKEN]
    assert ["InjectedError"] == [failure.evidence["error"] for failure in broken]
    assert "not_about_a" in broken[0].evidence["traceback"]


def test_a_start_that_raises_ends_the_run_as_failed() -> None:
    """What is under way ends and is recorded; then nothing more starts (D15)."""
    core = core_with(START, ensures_run=(not_about_a,))
    hand = Hand.on(plan_of("b", "a", "c", max_parallel=3), core)
    assert (LoopState.RECOVERING, StepState.RUNNING) == (hand.loop, hand.stands("b"))
    hand.give(done("b"))
    stands = [StepState.VERIFIED_COMPLETED, StepState.CANCELLED, StepState.CANCELLED]
    assert (LoopState.FAILED, stands) == (hand.loop, [hand.stands(name) for name in "bac"])


def test_a_broken_contract_outranks_an_abstention_under_way() -> None:
    """A run in which a contract broke is FAILED, also when it was about to abstain (D23)."""
    core = core_with(DUE, ensures_run=(not_about_a,))
    policy: dict[str, Any] = {**BACKOFF, "when_exhausted": WhenExhausted.ABSTAIN}
    hand = Hand.on(plan_of(spec("a", max_retries=1), "b", "c", **policy), core)
    hand.give(NOT_MADE)
    hand.give(failed("b"), Due("a"), after=5)
    hand.give(done("c"))
    assert LoopState.FAILED is hand.loop


def test_the_run_ends_even_when_its_steps_cannot_be_settled() -> None:
    """When the orderly end raises too, the run is FAILED at once, and says both reasons (D22)."""

    def never(noun: Any, before: RunView, after: RunView) -> bool:
        raise InjectedError("never")

    hand = Hand.on(plan_of("a"), core_with(PLAN_LAST_RUNG, ensures_run=(never,)))
    hand.give(failed("a"))
    assert LoopState.FAILED is hand.loop
    assert 2 == hand.state.run.reason.count("InjectedError")


# ------------------------------------------------------------------ laws of every run


@given(plans(), calls())
@settings(deadline=None)
@pytest.mark.slow  # a hundred random runs
def test_every_index_is_what_the_nouns_say(plan: Plan, numbers: Calls) -> None:
    """After every call each index equals a recount over the whole plan (S1)."""
    for taken in walk(plan, numbers):
        state = taken.advanced.state
        assert indexes(recounted(state)) == indexes(state)


@given(plans(), calls())
@settings(deadline=None)
@pytest.mark.slow  # a hundred random runs
def test_the_nouns_are_the_fold_of_the_events(plan: Plan, numbers: Calls) -> None:
    """No noun changes without an event that says which fields, to what (D22, X7, R44)."""
    for taken in walk(plan, numbers):
        events = events_of(taken.advanced.units)
        after = folded(taken.before, events)
        assert indexes(recounted(taken.advanced.state)) == indexes(after)


@given(plans(), calls())
@settings(deadline=None)
@pytest.mark.slow  # a hundred random runs, each call twice
def test_a_call_is_pure(plan: Plan, numbers: Calls) -> None:
    """The same call decides the same, and the state it started from is as it was (S1, B6)."""
    for taken in walk(plan, numbers):
        shown = repr(taken.before)
        again = CORE_OF_WALKS.advance(taken.before, taken.inputs, taken.now)
        assert taken.advanced[:2] == again[:2]
        assert repr(taken.advanced.commands) == repr(again.commands)  # errors equal only themselves
        assert shown == repr(taken.before)


@given(plans(), calls())
@settings(deadline=None)
@pytest.mark.slow  # a hundred random runs
def test_a_step_stands_failed_exactly_when_one_failure_of_it_is_open(
    plan: Plan, numbers: Calls
) -> None:
    """A failed or waiting step has one open failure, any other none (D7, D11)."""
    stands_failed = (*FAILED_STATES, StepState.WAITING_FOR_HUMAN)
    for taken in walk(plan, numbers):
        state = taken.advanced.state
        subjects = sorted(f.subject for f in state.failures.values() if f.state in OPEN)
        expected = sorted(s.id for s in state.steps.values() if s.state in stands_failed)
        assert expected == [subject for subject in subjects if subject != RUN]
        assert subjects.count(RUN) <= 1


@given(plans(), calls())
@settings(deadline=None)
@pytest.mark.slow  # a hundred random runs
def test_the_loop_rests_where_its_nouns_say(plan: Plan, numbers: Calls) -> None:
    """Final, else RECOVERING, else WAITING_FOR_HUMAN, else EXECUTING; never broken (S24, D23)."""
    for taken in walk(plan, numbers):
        state = taken.advanced.state
        assert all(f.kind is not FailureKind.BROKEN for f in state.failures.values())
        if state.ending is not None:
            assert () == tuple(state.unsettled)
            continue
        recovering = any(f.state is FailureState.RECOVERY_PLANNED for f in state.failures.values())
        otherwise = LoopState.WAITING_FOR_HUMAN if state.asked else LoopState.EXECUTING
        assert (LoopState.RECOVERING if recovering else otherwise) is state.run.state


def test_a_run_that_was_ended_by_force_takes_what_still_comes() -> None:
    """A late result and the driver's leave are taken after the end, however it came (S31)."""

    def never(noun: Any, before: RunView, after: RunView) -> bool:
        raise InjectedError("never")

    hand = Hand.on(plan_of("a", "b"), core_with(PLAN_LAST_RUNG, ensures_run=(never,)))
    hand.give(failed("a"))
    hand.give(done("b"))
    hand.give(Park())
    assert LoopState.FAILED is hand.loop


def test_a_question_that_is_withdrawn_as_soon_as_asked_stops_nothing() -> None:
    """The loop goes on from every recovery that left nothing planned and nothing asked (S24)."""
    hand = Hand.on(plan_of("a", recoveries=0, budget=Budget(steps=0)))
    hand.give(answer(RUN, Choice.RAISE, to=5), Drive(resumed=True))
    assert (StepState.RUNNING, {}) == (hand.stands("a"), dict(hand.state.asked))
    hand.give(done("a"))
    assert LoopState.COMPLETED is hand.loop


def test_an_old_state_goes_on_being_a_beginning() -> None:
    """Two futures can be taken from one state, and neither sees the other (S1)."""
    hand = Hand.on(plan_of("a", spec("b", "a")))
    one, two = Hand(hand.state), Hand(hand.state)
    one.give(done("a"))
    two.give(failed("a"))
    assert [StepState.RUNNING, StepState.PENDING] == [one.stands("b"), two.stands("b")]
    assert StepState.RUNNING is hand.stands("a")


def test_a_call_without_inputs_changes_nothing() -> None:
    """Nothing has happened, so nothing follows (R44)."""
    hand = Hand.on(plan_of("a", "b"))
    state, units, commands = CORE.advance(hand.state, [], hand.now)
    assert (hand.state, (), ()) == (state, units, commands)


def test_the_consequences_of_a_commit_are_units_of_their_own() -> None:
    """Results, recoveries, starts and the rest of the loop are told apart by their cause (X7)."""
    hand = Hand.on(plan_of("a", spec("b", "a"), spec("c", max_retries=1)))
    before = len(hand.units)
    hand.give(done("a"), failed("c", kind=FailureKind.NOT_EXECUTED))
    causes = [unit.cause for unit in hand.units[before:]]
    expected = ["result a#1", "result c#1", "plan F1", "RETRY F1", "start b", "start c", "rest"]
    assert expected == causes
    assert [RECORD.id, PASS_EVALUATION.id, PASS_VERIFICATION.id] == rows_of(
        hand.units[before].events, "step", "a"
    )
