"""What a person can order, when it is refused, and what it outranks."""

from __future__ import annotations

import asyncio
import threading

import pytest

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import (
    Accepted,
    Answer,
    Cancel,
    Drive,
    Expired,
    Park,
    Prepare,
    Prepared,
    Refuse,
    WakeAt,
)
from loopfsm.errors import AnswerRefused
from loopfsm.model.failure import RUN, FailureKind, FailureState
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import UNCLASSIFIED, Budget, WhenExhausted
from loopfsm.model.question import QuestionState
from loopfsm.model.step import StepSpec, StepState, output
from loopfsm.ports import ToolContext
from loopfsm.testing import Fails, Raises, Returns, ScriptedTool
from loopfsm.tools.registry import tool
from tests.engine.kit import (
    Hand,
    SlowRetry,
    answer,
    done,
    failed,
    loop_of,
    plan_of,
    registry_with,
    rows_of,
    run,
    spec,
    within_reason,
)

S = StepState
TIMED_OUT = FailureKind.TIMED_OUT


def asked_about(*steps: StepSpec | str, failing: str = "a") -> Hand:
    """A run in which `failing` failed, and a person is asked about it."""
    hand = Hand.on(plan_of(*steps))
    hand.give(failed(failing, kind=TIMED_OUT))
    assert LoopState.WAITING_FOR_HUMAN is hand.loop
    return hand


# ---------------------------------------------------------------------- the question


def test_a_question_says_what_happened_and_what_can_be_ordered() -> None:
    """It holds the failed step, the attempts made, and each choice in one line (S16, X5)."""
    hand = asked_about("a", spec("b", "a"), spec("c", "b"), "d")
    question = hand.state.questions["Q1"]
    assert ["retry", "skip", "stop"] == list(question.choices)
    assert "2 more" in question.choices["skip"]
    facts = {"step": "a", "tool": "work", "attempts": 1, "message": "it failed"}
    assert facts == {name: question.context[name] for name in facts}


def test_a_question_stays_open_until_it_is_answered() -> None:
    """The failure is ESCALATED, not recovered, and other steps go on (S16, B13, B20, D11)."""
    hand = asked_about("a", "b", spec("c", "b"))
    assert [FailureState.ESCALATED] == hand.failures()
    hand.give(done("b"))
    assert (S.RUNNING, LoopState.WAITING_FOR_HUMAN) == (hand.stands("c"), hand.loop)
    hand.give(done("c"))
    assert (LoopState.WAITING_FOR_HUMAN, S.WAITING_FOR_HUMAN) == (hand.loop, hand.stands("a"))


# ---------------------------------------------------------------------- the choices


def test_retry_runs_the_step_once_more() -> None:
    """`retry` is a recovery with a person's grant, outside every limit (X5, B20)."""
    hand = Hand.on(plan_of(spec("a", max_retries=0), recoveries=0))
    hand.give(failed("a"))
    hand.give(answer("a", "retry"))
    assert (S.RUNNING, 2) == (hand.stands("a"), hand.state.step("a").attempt)
    hand.give(done("a", 2))
    assert (LoopState.COMPLETED, [FailureState.RECOVERED]) == (hand.loop, hand.failures())


def test_a_grant_refills_no_limit() -> None:
    """A retry that fails again is asked about again: one order, one run (B10, S32)."""
    work = ScriptedTool("work", [Fails()])
    loop = loop_of(plan_of(spec("a", max_retries=1)), work)
    run(loop)
    for runs in (3, 4, 5):
        loop.answer("a", "retry")
        assert LoopState.WAITING_FOR_HUMAN is run(loop).state
        assert runs == len(work.calls)


@pytest.mark.parametrize(
    ("choice", "through"),
    [
        ("retry", ["RECOVERING", "ITERATION_COMPLETE", "PLANNING", "EXECUTING"]),
        ("skip", ["RECOVERING", "REPLANNING", "PLANNING", "EXECUTING", "PARTIALLY_COMPLETED"]),
        ("stop", ["ABSTAINED"]),
    ],
)
def test_an_answer_leads_the_loop_by_the_way_of_its_recovery(
    choice: str, through: list[str]
) -> None:
    """Through recovering, or to the end at once; what was passed is on record (X6, S24)."""
    hand = asked_about("a")
    before = len(hand.units)
    hand.give(answer("a", choice))
    events = [event for unit in hand.units[before:] for event in unit.events]
    loop = [e.changes["state"].name for e in events if e.noun == "loop" and "state" in e.changes]
    assert through == loop


def test_skip_goes_on_without_the_step_and_what_depends_on_it() -> None:
    """Unfinished descendants of a required step are skipped with it (S16, B21, D16)."""
    hand = asked_about("a", spec("b", "a"), spec("c", "b", "d"), "d")
    hand.give(done("d"))
    hand.give(answer("a", "skip"))
    assert [S.SKIPPED, S.SKIPPED, S.SKIPPED, S.VERIFIED_COMPLETED] == [
        hand.stands(name) for name in "abcd"
    ]
    assert (LoopState.PARTIALLY_COMPLETED, ("a", "b", "c")) == (hand.loop, hand.state.run.without)
    assert "the goal (without a, b, c)" == hand.state.run.reduced_goal


FALLS = pytest.mark.parametrize(
    "steps",
    [
        pytest.param(("a", spec("b", "a"), spec("c", "a"), spec("d", "b", "c"), "e"), id="below"),
        pytest.param(("a", "e"), id="nothing"),
        pytest.param((spec("a", optional=True), spec("b", "a")), id="below an optional one"),
        pytest.param(
            (spec("a", optional=True), spec("b", args={"x": output("a")}, optional=True)),
            id="what uses an optional output",
        ),
        pytest.param(
            ("a", spec("b", "a", optional=True), spec("c", "b")),
            id="an optional one between",
        ),
    ],
)


@FALLS
def test_the_question_counts_what_the_skip_then_skips(steps: tuple[StepSpec | str, ...]) -> None:
    """The number that was promised is the number that falls (S16, B21)."""
    hand = asked_about(*steps)
    promised = hand.state.questions["Q1"].choices["skip"]
    hand.give(answer("a", "skip"))
    falling = len(hand.state.run.without) - 1
    assert (f"{falling} more" in promised) if falling else ("more" not in promised)


def test_skipping_an_optional_step_lets_its_dependents_run() -> None:
    """A skipped optional step satisfies its dependents (B21)."""
    hand = asked_about(spec("a", optional=True), spec("b", "a"))
    hand.give(answer("a", "skip"))
    assert [S.SKIPPED, S.RUNNING] == [hand.stands("a"), hand.stands("b")]
    hand.give(done("b"))
    assert LoopState.PARTIALLY_COMPLETED is hand.loop


def test_a_dependent_that_uses_a_skipped_output_is_skipped_too() -> None:
    """Its args refer to a result that will never come (B21)."""
    uses = spec("b", args={"x": output("a")}, optional=True)
    hand = asked_about(spec("a", optional=True), uses, spec("c", "b"))
    hand.give(answer("a", "skip"))
    assert [S.SKIPPED, S.SKIPPED, S.RUNNING] == [hand.stands(name) for name in "abc"]


def test_stop_ends_the_run_and_keeps_what_is_verified() -> None:
    """`stop` abstains, also where the policy or a critical step forbids it (S17, B13, X5)."""
    plan = plan_of(spec("a", critical=True), "b", spec("c", "b", "a"), may_abstain=False)
    hand = Hand.on(plan)
    hand.give(done("b", output="kept"))
    hand.give(failed("a", kind=TIMED_OUT))
    hand.give(answer("a", "stop"))
    assert (LoopState.ABSTAINED, [FailureState.TERMINAL]) == (hand.loop, hand.failures())
    assert [S.ABSTAINED, S.VERIFIED_COMPLETED, S.CANCELLED] == [hand.stands(n) for n in "abc"]
    assert "kept" == hand.state.step("b").output


def test_stop_waits_for_what_is_under_way() -> None:
    """Nothing new starts; what runs ends and is recorded; then the run ends (S17)."""
    hand = asked_about("a", "b", spec("c", "b"))
    hand.give(answer("a", "stop"))
    assert (LoopState.RECOVERING, S.RUNNING) == (hand.loop, hand.stands("b"))
    hand.give(done("b"))
    assert (LoopState.ABSTAINED, S.CANCELLED) == (hand.loop, hand.stands("c"))
    assert S.VERIFIED_COMPLETED is hand.stands("b")


def test_the_persons_words_are_kept() -> None:
    """Choice, words, moment and token of an answer stand in the question (S16, X7)."""
    hand = asked_about("a")
    given = Answer(subject="a", choice="skip", token="t9", said="not needed any more")
    hand.give(given, after=7)
    question = hand.state.questions["Q1"]
    assert QuestionState.ANSWERED is question.state
    kept = (question.choice, question.said, question.answered_at, question.token)
    assert ("skip", "not needed any more", 7, "t9") == kept


# ---------------------------------------------------------------------- the refusals


def refused(hand: Hand, given: Answer) -> str:
    """Give an answer that must be refused with nothing changed; why it is."""
    before = hand.state
    (command,) = hand.give(given)
    assert isinstance(command, Refuse)
    assert given.token == command.token
    assert before == hand.state
    return str(command.error)


@pytest.mark.parametrize("choice", ["replan", "raise", "RETRY", ""])
def test_a_choice_that_is_not_offered_is_refused(choice: str) -> None:
    """An unknown instruction is an error that lists the choices; nothing changes (B20)."""
    why = refused(asked_about("a"), answer("a", choice))
    assert "Allowed: retry a; skip a; stop a" in why


@pytest.mark.parametrize("subject", ["b", RUN, "nobody"])
def test_an_answer_about_what_is_not_asked_is_refused(subject: str) -> None:
    """There has to be an open question about the subject (B20)."""
    why = refused(asked_about("a", "b"), answer(subject, "retry"))
    assert f"nothing is asked about '{subject}'" in why


def test_a_number_that_goes_with_no_choice_is_refused() -> None:
    """Only `raise` takes a number (B20)."""
    assert "number_fits_the_choice" in refused(asked_about("a"), answer("a", "retry", to=5))


def test_a_token_answers_once() -> None:
    """A second answer with a used token is refused (B20)."""
    hand = asked_about("a")
    hand.give(answer("a", "retry", "t1"))
    hand.give(failed("a", 2, TIMED_OUT))
    assert "token_is_unused" in refused(hand, answer("a", "retry", "t1"))


def test_a_refused_token_stays_unused() -> None:
    """The same token is accepted once the answer fits (B20)."""
    hand = asked_about("a")
    refused(hand, answer("a", "rewind", "t1"))
    assert Accepted("t1") in hand.give(answer("a", "retry", "t1"))


def test_an_answer_comes_too_late_when_the_run_is_ending() -> None:
    """While the run drains to its end nothing can be ordered any more (B20, D18)."""
    hand = asked_about("a", "b")
    hand.give(Cancel())
    assert "run_goes_on" in refused(hand, answer("a", "retry"))
    hand.give(done("b"))
    assert LoopState.ABSTAINED is hand.loop
    refused(hand, answer("a", "retry"))


def test_a_question_is_answered_once() -> None:
    """Of two answers in one commit the first counts, the second is refused (B20)."""
    hand = asked_about("a")
    commands = hand.give(answer("a", "retry", "t1"), answer("a", "skip", "t2"))
    assert [Accepted("t1")] == [c for c in commands if isinstance(c, Accepted)]
    assert ["t2"] == [c.token for c in commands if isinstance(c, Refuse)]
    assert S.RUNNING is hand.stands("a")


def test_an_order_is_not_undone_by_another_one() -> None:
    """Of two orders that would write one step the later is refused, its token unused (B13, B33)."""
    hand = Hand.on(plan_of("a", "b", spec("c", "a", "b")))
    hand.give(failed("a", kind=TIMED_OUT), failed("b", kind=TIMED_OUT))
    commands = hand.give(answer("a", "skip", "t1"), answer("b", "skip", "t2"))
    assert [Accepted("t1")] == [c for c in commands if isinstance(c, Accepted)]
    assert [S.SKIPPED, S.WAITING_FOR_HUMAN, S.SKIPPED] == [hand.stands(name) for name in "abc"]
    assert Accepted("t2") in hand.give(answer("b", "skip", "t2"))
    assert LoopState.PARTIALLY_COMPLETED is hand.loop


# ---------------------------------------------------------------------- deadlines


def with_deadline(*steps: StepSpec | str, may_abstain: bool = True) -> Hand:
    hand = Hand.on(plan_of(*steps, question_deadline_s=60, may_abstain=may_abstain))
    assert WakeAt(60, Expired("Q1")) in hand.give(failed("a", kind=TIMED_OUT))
    return hand


def test_a_deadline_abstains_where_that_is_allowed() -> None:
    """When it passes, the run ends as ABSTAINED without a grant (S16, S17, B28)."""
    hand = with_deadline("a", "b")
    hand.give(done("b"), Expired("Q1"), after=60)
    assert (LoopState.ABSTAINED, S.ABSTAINED) == (hand.loop, hand.stands("a"))
    assert QuestionState.EXPIRED is hand.state.questions["Q1"].state
    assert not hand.state.failure("F1").ordered


@pytest.mark.parametrize("critical", [True, False])
def test_a_deadline_terminates_where_abstaining_is_not_allowed(critical: bool) -> None:
    """With a critical step failed, or without permission, the run ends as FAILED (S17, S18)."""
    hand = with_deadline(spec("a", critical=critical), may_abstain=critical)
    hand.give(Expired("Q1"), after=60)
    assert (LoopState.FAILED, S.FAILED) == (hand.loop, hand.stands("a"))


def test_a_deadline_that_has_not_come_changes_nothing() -> None:
    """Before its moment, and after an answer, an expiry means nothing (S8)."""
    hand = with_deadline("a")
    before = hand.state
    hand.give(Expired("Q1"), after=59)
    assert before == hand.state
    hand.give(answer("a", "retry"))
    before = hand.state
    hand.give(Expired("Q1"), after=60)
    assert before == hand.state


def test_a_deadline_that_passed_unattended_counts_when_the_run_is_driven_again() -> None:
    """Whoever drives the run next finds the question expired (B20)."""
    hand = with_deadline("a")
    hand.give(Park(), after=1)
    hand.give(Drive(), after=3600)
    assert LoopState.ABSTAINED is hand.loop


def test_the_question_about_a_budget_expires_too() -> None:
    """Its deadline ends the run like any other (B29)."""
    hand = Hand.on(plan_of("a", spec("b", "a"), budget=Budget(steps=1), question_deadline_s=60))
    hand.give(done("a"))
    hand.give(Expired("Q1"), after=60)
    assert (LoopState.ABSTAINED, S.CANCELLED) == (hand.loop, hand.stands("b"))


# ---------------------------------------------------------------------- rank


def held_by_the_ladder() -> Hand:
    """The ladder prepares a recovery of b that holds c; a person is asked about a."""
    plan = plan_of("a", spec("b", max_retries=1), spec("c", "a", "b"), spec("d", "a"))
    ladder = {UNCLASSIFIED: ("SLOW_RETRY",)}
    hand = Hand.on(plan_of(*plan.steps, ladder=ladder), Core.of(registry_with(SlowRetry())))
    hand.give(failed("a", kind=TIMED_OUT))
    assert Prepare("F2", 1) in hand.give(failed("b"))
    assert "F2" == hand.state.holder_of("c")
    return hand


def test_a_person_outranks_the_ladder() -> None:
    """An order that overlaps a planned scope drops that recovery, its attempt spent (B33)."""
    hand = held_by_the_ladder()
    hand.give(answer("a", "skip"))
    assert [S.SKIPPED, S.SKIPPED, S.SKIPPED] == [hand.stands(name) for name in "acd"]
    assert 2 == hand.state.spent["recoveries/b"]  # the one dropped, and the one planned next
    withdrawn = [e for e in hand.events if e.id == "F2" and e.changes.get("state")]
    assert FailureState.UNHANDLED in [e.changes["state"] for e in withdrawn]
    assert "outranks" in str([e.changes.get("reason") for e in withdrawn])


def test_the_outranked_recovery_is_decided_again() -> None:
    """What it had prepared is of no use; the failure gets its next recovery (B15, D7)."""
    hand = held_by_the_ladder()
    hand.give(answer("a", "skip"))
    failure = hand.state.failure("F2")
    assert (FailureState.RECOVERY_PLANNED, 2) == (failure.state, failure.plans)
    hand.give(Prepared("F2", 1, "of the first plan"))
    assert S.EVALUATION_FAILED is hand.stands("b")
    hand.give(Prepared("F2", 2))
    assert S.RUNNING is hand.stands("b")


def test_an_order_beside_the_ladders_scope_leaves_it_alone() -> None:
    """Disjoint scopes are recovered side by side (B33)."""
    hand = held_by_the_ladder()
    before = hand.state.failure("F2")
    hand.give(answer("a", "retry"))
    assert S.RUNNING is hand.stands("a")
    assert before == hand.state.failure("F2")


# ---------------------------------------------------------------------- through a loop


def test_a_parked_run_is_answered_and_run_again() -> None:
    """The outcome is resumable: answer, then run on to the end (S16, B20, D11, D23)."""
    work = ScriptedTool("work", [Raises(OSError("no")), Returns("yes")])
    loop = loop_of(plan_of("a", spec("b", "a")), work)
    outcome = run(loop)
    assert (LoopState.WAITING_FOR_HUMAN, False) == (outcome.state, outcome.final)
    loop.answer("a", "retry", said="try again")
    assert LoopState.COMPLETED is run(loop).state
    assert [("a", 1), ("a", 2), ("b", 1)] == [(c.step_id, c.attempt) for c in work.calls]


def test_a_refused_answer_is_an_error_for_who_gave_it() -> None:
    """`Loop.answer` raises what the core says, and the run is as it was (B20)."""
    loop = loop_of(plan_of("a"), ScriptedTool("work", [Fails()]))
    run(loop)
    before = loop.state
    with pytest.raises(AnswerRefused, match="retry a; skip a; stop a") as caught:
        loop.answer("a", "again")
    assert ("again", before) == (caught.value.choice, loop.state)


def test_an_answer_is_accepted_from_another_thread_while_the_run_goes_on() -> None:
    """A person in another thread answers a run that another step keeps busy (B20, B33)."""
    asked, answered = threading.Event(), threading.Event()
    problems: list[BaseException] = []

    @tool(name="work", timeout_s=None)
    def work(context: ToolContext) -> str:
        if context.step_id == "busy":
            assert answered.wait(10)
        elif context.attempt == 1:
            raise OSError("no")
        return "yes"

    loop = loop_of(plan_of("a", "busy"), work)

    def person() -> None:
        try:
            assert asked.wait(10)
            with pytest.raises(AnswerRefused):
                loop.answer("a", "again")
            loop.answer("a", "retry")
        except BaseException as error:  # noqa: BLE001  # shown by the test's own thread
            problems.append(error)
        finally:
            answered.set()

    async def watched() -> LoopState:
        events = loop.events()
        task = asyncio.create_task(loop.run())
        async for event in events:
            if event.noun == "question":
                asked.set()
        return (await task).state

    thread = threading.Thread(target=person)
    thread.start()
    state = asyncio.run(within_reason(watched()))
    thread.join(10)
    assert (LoopState.COMPLETED, []) == (state, problems)
    assert "yes" == loop.outcome.outputs["a"]


def test_a_persons_repeat_is_a_new_act_an_automatic_one_is_not() -> None:
    """Retries share the idempotency key, an order to repeat gets a new one (S4, B10)."""
    work = ScriptedTool("work", [Fails(), Fails(), Returns()])
    loop = loop_of(plan_of(spec("a", max_retries=1)), work)
    run(loop)
    loop.answer("a", "retry")
    run(loop)
    first, second, third = (called.idempotency_key for called in work.calls)
    assert first == second != third


def test_what_was_asked_stands_in_the_trace() -> None:
    """Question, answer and what came of it are events of one list (X7, R44)."""
    hand = asked_about("a")
    hand.give(answer("a", "skip"))
    assert ["created"] == rows_of(hand.events, "question")[:1]
    assert 2 == len(rows_of(hand.events, "question"))


def test_nobody_is_asked_when_nobody_is_to_be_asked() -> None:
    """With `when_exhausted = fail` there is no question at all (S18, S24)."""
    hand = Hand.on(plan_of("a", when_exhausted=WhenExhausted.FAIL))
    hand.give(failed("a", kind=TIMED_OUT))
    assert (LoopState.FAILED, 0) == (hand.loop, len(hand.state.questions))
