"""Runs that were killed and taken up again do what a run does that nobody killed."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import StepState
from loopfsm.testing.crash import MATRIX, SCENARIOS, Case, Kill, Scenario, Seen, matrix, report
from loopfsm.testing.crash.__main__ import main

SEED = 4
CASES = 6
"""Some of them are killed twice: about ten kills."""

ROOT = Path(__file__).resolve().parents[2]
PAYMENT = SCENARIOS["payment"]
CALL_OF_CHARGE = 4
"""look_up, reserve (which is not ready), reserve, charge."""


@cache
def uncrashed(scenario: Scenario) -> Seen:
    return matrix.uncrashed(scenario)


# The runs


@pytest.mark.slow  # some twenty processes
def test_a_sample_of_all_kills_leaves_no_trace() -> None:
    """Same end, same outputs, nothing verified runs again, nothing unsafe repeats unasked."""
    expected = {scenario: uncrashed(scenario) for scenario in MATRIX}
    all_of_them = {each: matrix.kills_of(seen, SEED) for each, seen in expected.items()}
    results = matrix.run_all(matrix.sampled(all_of_them, CASES, SEED), expected)
    text, clean = report(results, expected)
    print(text)
    assert clean, text


@pytest.mark.slow  # some processes
@pytest.mark.parametrize(
    ("fault", "kill", "told"),
    [
        (
            "lose_the_start_of_charge",
            Kill("during", CALL_OF_CHARGE),
            "charge is not idempotent and acted 2 times, with 0 grants",
        ),
        (
            "call_every_repeat_safe",
            Kill("during", CALL_OF_CHARGE),
            "charge is not idempotent and acted 2 times, with 0 grants",
        ),
        (
            "begin_look_up_again",
            Kill("during", CALL_OF_CHARGE),
            "look_up was VERIFIED_COMPLETED after kill 1, and was called again",
        ),
    ],
)
def test_what_is_broken_on_purpose_is_noticed(
    fault: str, kill: Kill, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost commit, a guard taken back, a result forgotten: each is a violation."""
    monkeypatch.chdir(ROOT)  # where the processes find the faults
    faults = (f"tests.crash.faults:{fault}",)
    case = matrix.run_case(PAYMENT, (kill,), uncrashed(PAYMENT), faults)
    assert 1 == len(case.seen)
    assert told in case.violations


@pytest.mark.slow  # two processes
def test_an_interrupted_charge_is_asked_about() -> None:
    """Killed while it charges, the run asks, and charges again because a person said so."""
    kill = Kill("during", CALL_OF_CHARGE)
    case = matrix.run_case(PAYMENT, (kill,), uncrashed(PAYMENT))
    assert () == case.violations
    assert ("charge",) == case.seen[0].running
    assert (2, 1) == (case.end.calls["charge"], case.end.granted["charge"])


@pytest.mark.slow  # one process
def test_every_commit_and_every_call_is_a_place_to_die() -> None:
    """Twice for each commit, once for each call, each alone and once more before a second kill."""
    seen = uncrashed(PAYMENT)
    cases = matrix.kills_of(seen, SEED)
    assert 2 * (2 * seen.commits + seen.calls_of_all_tools) == len(cases)
    assert len({first for first, *_ in cases}) == len(cases) // 2
    assert cases == matrix.kills_of(seen, SEED)


# The judgement alone


AS_IT_SHOULD_BE = Seen(
    state=LoopState.COMPLETED,
    stands={"a": StepState.VERIFIED_COMPLETED, "b": StepState.VERIFIED_COMPLETED},
    outputs={"a": "1", "b": "2"},
    commits=5,
    calls=Counter(a=1, b=1),
    idempotent=frozenset("a"),
)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ()),
        ({"calls": Counter(a=2, b=1)}, ("a was EXECUTED after kill 1, and was called again",)),
        ({"calls": Counter(a=1, b=2), "granted": Counter(b=1)}, ()),
        (
            {"calls": Counter(a=1, b=2)},
            ("b is not idempotent and acted 2 times, with 0 grants",),
        ),
        ({"calls": Counter(a=1, b=2), "harmless": Counter(b=1)}, ()),
        ({"outputs": {"a": "1", "b": "3"}}, ("the output of b is 3, not 2",)),
        ({"outputs": {"a": "1"}}, ("the output of b is None, not 2",)),
        (
            {"state": LoopState.FAILED},
            ("it ends as LoopState.FAILED, not as LoopState.COMPLETED",),
        ),
        (
            {"stands": {**AS_IT_SHOULD_BE.stands, "b": StepState.SKIPPED}},
            ("steps end otherwise: {'b': 'SKIPPED'}",),
        ),
    ],
)
def test_each_difference_is_a_violation(changes: dict[str, Any], told: tuple[str, ...]) -> None:
    """End state, steps, outputs and calls are compared, each by itself."""
    stands = {"a": StepState.EXECUTED, "b": StepState.RUNNING}
    killed = Seen(state=LoopState.EXECUTING, stands=stands, calls=Counter(a=1, b=1))
    end = evolve(AS_IT_SHOULD_BE, **changes)
    assert told == tuple(matrix.violations(AS_IT_SHOULD_BE, [killed], end))


@pytest.mark.parametrize(
    ("state", "violations", "clean"),
    [
        (StepState.RUNNING, (), True),
        (StepState.READY, (), False),
        (StepState.RUNNING, ("it ends otherwise",), False),
    ],
)
def test_a_matrix_is_clean_when_it_hits_and_nothing_is_violated(
    state: StepState, violations: tuple[str, ...], clean: bool
) -> None:
    """Fewer than half of the kills in a RUNNING step, or one violation: that is not clean."""
    seen = Seen(state=LoopState.EXECUTING, stands={"a": state})
    kill = Kill("after", 1)
    case = Case(kills=(kill,), seen=(seen,), end=AS_IT_SHOULD_BE, violations=violations)
    text, is_clean = report({PAYMENT: [case]}, {PAYMENT: AS_IT_SHOULD_BE})
    assert clean == is_clean
    assert ("clean" if clean else "BROKEN") in text
    assert all(violation in text for violation in violations)


def test_the_command_says_no(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """One violation, and the command ends with 1 and names the case."""
    kill = Kill("after", 1)
    running = Seen(state=LoopState.EXECUTING, stands={"a": StepState.RUNNING})
    told = ("the output of b is 3, not 2",)
    case = Case(kills=(kill,), seen=(running,), end=AS_IT_SHOULD_BE, violations=told)
    monkeypatch.setattr(matrix, "uncrashed", lambda scenario: AS_IT_SHOULD_BE)
    monkeypatch.setattr(matrix, "run_all", lambda cases, expected: {PAYMENT: [case]})
    assert 1 == main(["--scenario", "payment", "--sample", "1", "--seed", "7"])
    assert "payment, killed after:1: the output of b is 3, not 2" in capsys.readouterr().out


def test_a_place_to_die_is_read_as_it_was_written() -> None:
    """`before:3` is what the command line takes, and nothing else is."""
    for kill in (Kill("before", 3), Kill("after", 1), Kill("during", 12)):
        assert kill == Kill.parse(str(kill))
    for text in ("", "before", "sometime:3", "before:x"):
        with pytest.raises(ValueError, match=r"expected|invalid literal"):
            Kill.parse(text)
