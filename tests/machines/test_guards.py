"""The guards that are more than one comparison, over everything they read."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.lifecycles.question import deadline_has_passed, number_fits_the_choice
from loopfsm.lifecycles.step import effect_is_known, optional_or_granted
from loopfsm.model.step import IN_FLIGHT, StepState
from loopfsm.recovery.strategies.abstain import abstention_allowed_or_granted
from loopfsm.recovery.strategies.retry import (
    delay_fits_the_time_left,
    retries_left_or_granted,
)
from tests.machines.cases import NOW, Q, S, question_in, spec, step_in

BOTH = (False, True)


@given(
    st.sampled_from(StepState),
    st.booleans(),
    st.none() | st.integers(0, 2),
    st.integers(0, 3),
    st.integers(-1, 3),
    st.booleans(),
)
def test_when_an_effect_is_known(
    state: StepState,
    idempotent: bool,
    max_retries: int | None,
    acted_in: int,
    granted_in: int,
    reported: bool,
) -> None:
    """A repeat is safe: idempotent, or at rest and not acted, granted since, or vouched for."""
    step = step_in(
        state,
        spec=spec(idempotent=idempotent, max_retries=max_retries),
        acted_in=acted_in,
        granted_in=granted_in,
        act_reported_failed=reported,
    )
    at_rest = state not in IN_FLIGHT
    vouched = reported and max_retries is not None
    known = at_rest and (acted_in == 0 or granted_in >= acted_in or vouched)
    assert (idempotent or known) is effect_is_known(step)


@pytest.mark.parametrize(("acted_in", "known"), [(1, True), (2, True), (3, False)])
def test_a_grant_covers_what_was_done_before_it(acted_in: int, known: bool) -> None:
    """A person's grant is for the attempts up to it: the next act makes the effect unknown."""
    step = step_in(
        S.EVALUATION_FAILED,
        spec=spec(idempotent=False),
        acted_in=acted_in,
        granted_in=2,
        act_reported_failed=False,
    )
    assert known is effect_is_known(step)


@pytest.mark.parametrize(("optional", "granted"), list(product(BOTH, BOTH)))
def test_who_may_skip(optional: bool, granted: bool) -> None:
    """The author's word or a person's is enough to skip, and one of them is needed (B21)."""
    step = step_in(S.PENDING, spec=spec(optional=optional))
    assert (optional or granted) is optional_or_granted(step, granted=granted)


@pytest.mark.parametrize(
    ("retry_count", "granted", "left"),
    [(0, False, True), (1, False, True), (2, False, False), (3, False, False), (3, True, True)],
)
def test_how_often_a_step_may_be_retried(retry_count: int, granted: bool, left: bool) -> None:
    """N means N retries after the first run, and a person outranks N (B11, D4)."""
    step = step_in(S.EVALUATION_FAILED, retry_count=retry_count)
    assert left is retries_left_or_granted(step, max_retries=2, granted=granted)


@pytest.mark.parametrize(
    ("delay", "left", "fits"),
    [(0.0, None, True), (0.0, 0.0, True), (5.0, None, True), (5.0, 5.0, False), (5.0, 5.1, True)],
)
def test_no_wait_outlasts_the_time_of_the_run(delay: float, left: float | None, fits: bool) -> None:
    """A delay must end before the time left does; no delay, or no limit, always fits (B2)."""
    step = step_in(S.EVALUATION_FAILED)
    assert fits is delay_fits_the_time_left(step, delay=delay, seconds_left=left)


@pytest.mark.parametrize(("may", "critical", "granted"), list(product(BOTH, BOTH, BOTH)))
def test_who_may_abstain(may: bool, critical: bool, granted: bool) -> None:
    """The policy must allow it and nothing critical have failed, unless a person says so (S17)."""
    step = step_in(S.EVALUATION_FAILED)
    facts = {"may_abstain": may, "critical_failed": critical, "granted": granted}
    expected = granted or (may and not critical)
    assert expected is abstention_allowed_or_granted(step, **facts)


@pytest.mark.parametrize(
    ("choice", "raised_to", "fits"),
    [
        ("retry", None, True),
        ("retry", 9.0, False),
        ("stop", 0.0, False),
        ("raise", None, False),
        ("raise", 4.0, False),
        ("raise", 5.0, False),
        ("raise", 5.5, True),
        ("raise", float("nan"), False),
    ],
)
def test_a_number_comes_with_raise_alone(choice: str, raised_to: Any, fits: bool) -> None:
    """`raise` wants a number above what is spent, and no other choice takes one."""
    question = question_in(Q.OPEN, context={"budget": "steps", "spent": 5})
    assert fits is number_fits_the_choice(question, choice=choice, raised_to=raised_to)


@pytest.mark.parametrize(
    ("deadline", "passed"), [(None, False), (NOW - 1, True), (NOW, True), (NOW + 1, False)]
)
def test_when_a_deadline_has_passed(deadline: float | None, passed: bool) -> None:
    """A deadline has passed from its very moment on; a question without one waits for ever."""
    question = question_in(Q.OPEN, deadline=deadline)
    assert passed is deadline_has_passed(question, now=NOW)
