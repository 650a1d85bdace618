"""`effect_is_known`, as the core asks it: what may be repeated without asking, and what not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.engine.inputs import Drive, Input, Judged
from loopfsm.engine.judging import PASSED
from loopfsm.model.failure import FailureKind
from loopfsm.model.question import Choice
from loopfsm.model.step import StepState, Verdict
from loopfsm.ports import Judgement
from tests.engine.kit import Hand, answer, done, failed, plan_of, spec

REFUSED = Judgement(Verdict.FAILED, "refused")
WAITS, RUNS_AGAIN = StepState.WAITING_FOR_HUMAN, StepState.RUNNING
ENOUGH = 50
"""More retries than any of these runs uses, so that the effect alone decides."""


def reported(attempt: int) -> list[Input]:
    return [failed("a", attempt)]


def not_executed(attempt: int) -> list[Input]:
    return [failed("a", attempt, FailureKind.NOT_EXECUTED)]


def timed_out(attempt: int) -> list[Input]:
    return [failed("a", attempt, FailureKind.TIMED_OUT)]


def rejected(attempt: int) -> list[Input]:
    return [done("a", attempt, evaluation=REFUSED)]


def rejected_later(attempt: int) -> list[Input]:
    waiting = done("a", attempt, evaluation=None, verification=None)
    return [waiting, Judged(step_id="a", attempt=attempt, evaluation=REFUSED)]


def not_verified(attempt: int) -> list[Input]:
    return [done("a", attempt, verification=REFUSED)]


def not_verified_later(attempt: int) -> list[Input]:
    waiting = done("a", attempt, evaluation=PASSED, verification=None)
    return [waiting, Judged(step_id="a", attempt=attempt, verification=REFUSED)]


def interrupted(attempt: int) -> list[Input]:
    return [Drive(resumed=True)]


What = Callable[[int], list[Input]]
EVENTS: tuple[What, ...] = (
    reported,
    not_executed,
    timed_out,
    rejected,
    rejected_later,
    not_verified,
    not_verified_later,
    interrupted,
)


def a_run(*, idempotent: bool, explicit: bool) -> Hand:
    """A step under way that has all the retries it could want."""
    number = ENOUGH if explicit else None
    step = spec("a", idempotent=idempotent, max_retries=number)
    return Hand.on(plan_of(step, max_retries=ENOUGH, recoveries=ENOUGH))


def is_known(what: What, *, idempotent: bool, explicit: bool) -> bool:
    """The truth table, in the words of its author."""
    if idempotent or what is not_executed:
        return True
    return what is reported and explicit


@pytest.mark.parametrize("explicit", [False, True], ids=["no number", "max_retries"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["acts", "idempotent"])
@pytest.mark.parametrize("what", EVENTS)
def test_what_is_repeated_without_asking(what: What, idempotent: bool, explicit: bool) -> None:
    """A repeat needs an effect that is known; an unknown one needs a person (S6, B17)."""
    hand = a_run(idempotent=idempotent, explicit=explicit)
    for item in what(1):
        hand.give(item)
    known = is_known(what, idempotent=idempotent, explicit=explicit)
    assert (RUNS_AGAIN if known else WAITS) is hand.stands("a")
    assert (2 if known else 1) == hand.state.step("a").attempt


@pytest.mark.parametrize(
    ("explicit", "history", "stands"),
    [
        (True, [reported, not_executed], RUNS_AGAIN),
        (True, [reported, timed_out], WAITS),
        (False, [not_executed, reported], WAITS),
        (False, [not_executed, not_executed], RUNS_AGAIN),
        (True, [timed_out, "grant"], RUNS_AGAIN),
        (False, [timed_out, "grant", not_executed], RUNS_AGAIN),
        (True, [timed_out, "grant", reported], RUNS_AGAIN),
        (False, [timed_out, "grant", reported], WAITS),
        (True, [timed_out, "grant", timed_out], WAITS),
        (True, [rejected, "grant", rejected], WAITS),
        (True, [timed_out, "grant", interrupted], WAITS),
        (True, [timed_out, "grant", not_executed, timed_out], WAITS),
    ],
)
def test_a_grant_covers_what_has_happened_and_nothing_after(
    explicit: bool, history: list[What | str], stands: StepState
) -> None:
    """A person allows one repeat of what acted; when it acts again, it is asked again (B11)."""
    hand = a_run(idempotent=False, explicit=explicit)
    follow(hand, history)
    assert stands is hand.stands("a")


def follow(hand: Hand, history: list[What | str]) -> None:
    for count, what in enumerate(history):
        if isinstance(what, str):
            hand.give(answer("a", Choice.RETRY, f"t{count}"))
        else:
            for item in what(hand.state.step("a").attempt):
                hand.give(item)


@pytest.mark.slow  # a hundred histories
@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.booleans(), st.booleans())
def test_an_act_is_repeated_only_when_known_or_granted(
    history: list[What], idempotent: bool, explicit: bool
) -> None:
    """Over any history, a step runs again by itself exactly when its effect is known (S6)."""
    hand = a_run(idempotent=idempotent, explicit=explicit)
    for count, what in enumerate(history):
        follow(hand, [what])
        known = is_known(what, idempotent=idempotent, explicit=explicit)
        assert (RUNS_AGAIN if known else WAITS) is hand.stands("a")
        if not known:
            hand.give(answer("a", Choice.RETRY, f"t{count}"))
            assert RUNS_AGAIN is hand.stands("a")


@pytest.mark.slow  # a hundred histories
@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.booleans(), st.booleans())
def test_only_a_persons_order_is_a_new_act(
    history: list[What], idempotent: bool, explicit: bool
) -> None:
    """The generation counts the repeats that a person ordered, no others (S4, B10)."""
    hand = a_run(idempotent=idempotent, explicit=explicit)
    ordered = 0
    for count, what in enumerate(history):
        follow(hand, [what])
        if hand.stands("a") is WAITS:
            hand.give(answer("a", Choice.RETRY, f"t{count}"))
            ordered += 1
        assert ordered == hand.state.step("a").generation


def test_an_interruption_of_what_is_idempotent_is_no_retry() -> None:
    """It starts over at once, with a recovery spent and the retry count untouched (B32)."""
    hand = a_run(idempotent=True, explicit=False)
    hand.give(Drive(resumed=True))
    step = hand.state.step("a")
    assert (RUNS_AGAIN, 2, 0) == (step.state, step.attempt, step.retry_count)
    assert 1 == hand.state.spent["recoveries/a"]


def test_interruptions_are_bounded() -> None:
    """A step that dies with its process every time is asked about in the end (S32, D1)."""
    hand = Hand.on(plan_of(spec("a", idempotent=True, max_retries=0), recoveries=3))
    for _ in range(4):
        assert RUNS_AGAIN is hand.stands("a")
        hand.give(Drive(resumed=True))
    assert (WAITS, 4) == (hand.stands("a"), hand.state.step("a").attempt)
    assert FailureKind.INTERRUPTED is hand.state.failure("F1").kind


def test_a_recorded_result_is_not_interrupted() -> None:
    """What was recorded before the process died goes on from its output (B32)."""
    hand = a_run(idempotent=False, explicit=False)
    hand.give(done("a", output="kept", evaluation=None, verification=None))
    hand.give(Drive(resumed=True))
    step = hand.state.step("a")
    assert (StepState.EXECUTED, "kept", 1) == (step.state, step.output, step.attempt)
