"""RETRY_WITH_BACKOFF: how long it waits, and that nothing but the clock ends the wait."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.engine.core import Advanced, Core
from loopfsm.engine.inputs import CallTool, Drive, Due, Result, WakeAt
from loopfsm.engine.state import new_run
from loopfsm.errors import PlanError
from loopfsm.model.failure import FailureKind
from loopfsm.model.plan import UNCLASSIFIED, Budget, Plan, Policy
from loopfsm.model.step import StepSpec, StepState
from loopfsm.recovery.registry import default_registry
from loopfsm.recovery.strategies.retry_with_backoff import backoff_delay
from tests.machines.cases import NOW

CORE = Core.of(default_registry())

seconds = st.floats(0, 1e6, allow_subnormal=False).filter(lambda s: s == 0 or s > 1e-6)


def policy(base: float, cap: float = 60) -> Policy:
    return Policy(
        backoff_base_s=base,
        backoff_cap_s=cap,
        ladder={UNCLASSIFIED: ("RETRY_WITH_BACKOFF",)},
        max_retries=5,
    )


# How long


@given(seconds, seconds, st.integers(0, 5000))
def test_the_delay_doubles_up_to_the_cap(base: float, cap: float, retry_count: int) -> None:
    """The delay is base * 2 ** retry_count of the count before, capped, no jitter (S7, B3)."""
    exactly = min(Fraction(base) * 2**retry_count, Fraction(cap))
    delay = backoff_delay(policy(base, cap), retry_count)
    assert exactly == Fraction(delay)
    assert delay == backoff_delay(policy(base, cap), retry_count)


@given(seconds, st.integers(0, 5000))
def test_no_delay_is_shorter_than_the_one_before(base: float, retry_count: int) -> None:
    """Delays never shrink, and are always finite."""
    before, after = (backoff_delay(policy(base), retry_count + more) for more in (0, 1))
    assert 0 <= before <= after <= 60
    assert math.isfinite(after)


@pytest.mark.parametrize(
    ("base", "cap", "retry_count", "delay"),
    [
        (1, 60, 0, 1.0),
        (1, 60, 1, 2.0),
        (1, 60, 5, 32.0),
        (1, 60, 6, 60.0),
        (1, 60, 5000, 60.0),
        (0.5, 1e9, 10, 512.0),
        (0, 60, 5000, 0.0),
        (100, 60, 0, 60.0),
        (1, 0, 3, 0.0),
    ],
)
def test_delays(base: float, cap: float, retry_count: int, delay: float) -> None:
    """The first delay is the base; base 0 and cap 0 mean at once; 5000 retries do not overflow."""
    found = backoff_delay(policy(base, cap), retry_count)
    assert delay == found
    assert isinstance(found, float)


@pytest.mark.parametrize("name", ["backoff_base_s", "backoff_cap_s"])
@pytest.mark.parametrize("value", [-1, -0.001, math.nan, math.inf, -math.inf, True, "1", None])
def test_a_delay_that_is_none_is_refused(name: str, value: Any) -> None:
    """A negative base or cap, and what is no finite number, is refused by the policy (B3)."""
    with pytest.raises(PlanError) as caught:
        Policy(**{name: value})
    (problem,) = caught.value.problems
    assert f"policy.{name}" == problem.place
    assert f"found {value!r}, expected a number of at least 0" == problem.message


# The wait


def started(budget: Budget | None = None) -> Advanced:
    steps: Any = [StepSpec(id="a", tool="tool", idempotent=True)]  # Any: the field's converter
    words = attrs.evolve(policy(1, cap=3), budget=budget or Budget())
    plan = Plan(goal="goal", steps=steps, policy=words)
    return CORE.advance(new_run(plan, "run-1"), [Drive()], NOW)


def failed(advanced: Advanced, now: float) -> Advanced:
    attempt = advanced.state.step("a").attempt
    result = Result(step_id="a", attempt=attempt, failure=FailureKind.REPORTED, message="no")
    return CORE.advance(advanced.state, [result], now)


def test_the_delay_is_on_record() -> None:
    """The step says how long it waits and until when, and the driver is asked to wake (S7, B2)."""
    advanced = failed(started(), NOW)
    step = advanced.state.step("a")
    assert (StepState.RETRY_PENDING, 1, NOW + 1) == (step.state, step.retry_count, step.not_before)
    assert {"backoff_delay": 1.0} == step.metadata
    assert (WakeAt(NOW + 1, Due("a")),) == advanced.commands


def test_every_failure_doubles_the_wait() -> None:
    """The delays of one step are base, twice the base and so on, up to the cap (S7, B3)."""
    advanced, now, delays = started(), NOW, []
    for _ in range(4):
        advanced = failed(advanced, now)
        (wake,) = advanced.commands
        assert isinstance(wake, WakeAt)
        delays.append(wake.at - now)
        now = wake.at
        advanced = CORE.advance(advanced.state, [wake.then], now)
        assert (CallTool("a", len(delays) + 1),) == advanced.commands
    assert [1.0, 2.0, 3.0, 3.0] == delays


@pytest.mark.parametrize("now", [NOW, NOW + 0.999, 0.0])
def test_while_the_clock_stands_the_step_is_not_ready(now: float) -> None:
    """A timer that comes early, or a clock that went back, starts nothing (S8)."""
    waiting = failed(started(), NOW).state
    advanced = CORE.advance(waiting, [Due("a"), Due("a")], now)
    assert (waiting, (), ()) == advanced


def test_when_the_delay_has_elapsed_the_step_runs_again() -> None:
    """At the very moment that the step waits for, it runs; how long it waited stays on record."""
    waiting = failed(started(), NOW).state
    advanced = CORE.advance(waiting, [Due("a")], NOW + 1)
    step = advanced.state.step("a")
    assert (StepState.RUNNING, 2, None) == (step.state, step.attempt, step.not_before)
    assert {"backoff_delay": 1.0} == step.metadata


def test_a_timer_that_comes_twice_starts_once() -> None:
    """The second timer of the same wait finds a step that has moved on."""
    waiting = failed(started(), NOW).state
    advanced = CORE.advance(waiting, [Due("a"), Due("a")], NOW + 1)
    assert (CallTool("a", 2),) == advanced.commands
    later = CORE.advance(advanced.state, [Due("a")], NOW + 2)
    assert (advanced.state, ()) == (later.state, later.commands)


@pytest.mark.parametrize(("left", "waits"), [(1.0, False), (1.5, True)])
def test_a_wait_longer_than_the_time_left_asks_at_once(left: float, waits: bool) -> None:
    """A delay that the run's time does not last for is no wait, but an escalation (B2)."""
    advanced = failed(started(Budget(seconds=left)), NOW)
    stands = StepState.RETRY_PENDING if waits else StepState.WAITING_FOR_HUMAN
    assert stands is advanced.state.step("a").state
    assert waits is (advanced.state.question_of("a") is None)


def test_retry_without_backoff_waits_for_nothing() -> None:
    """RETRY is the same row with a delay of 0, over before anything else happens (S4, S5)."""
    steps: Any = [StepSpec(id="a", tool="tool", idempotent=True)]  # Any: the field's converter
    begun = CORE.advance(new_run(Plan(goal="goal", steps=steps), "run-1"), [Drive()], NOW)
    advanced = failed(begun, NOW)
    rows = [event.row for unit in advanced.units for event in unit.events]
    assert ["STEP-20", "STEP-21", "STEP-02"] == [row for row in rows if row in STEP_ROWS]
    assert (CallTool("a", 2),) == advanced.commands
    assert {"backoff_delay": 0.0} == advanced.state.step("a").metadata


STEP_ROWS = ("STEP-02", "STEP-20", "STEP-21")
