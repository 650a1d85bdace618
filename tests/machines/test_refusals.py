"""A refusal says what is allowed instead, and what it says is true."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from attrs import evolve

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import Accepted, Answer, Cancel, Drive, Refuse, Result
from loopfsm.engine.state import new_run
from loopfsm.errors import AnswerRefused, TransitionRefused
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Budget, Plan, Policy
from loopfsm.model.step import StepSpec
from loopfsm.recovery.registry import MACHINES, default_registry
from tests.machines.cases import CASES, NOW, noun_for

TEN = range(10)
CORE = Core.of(default_registry())

# Refusals of a machine


def refusable() -> list[tuple[str, Enum, str]]:
    """Every state that something leaves, with every trigger of its machine that does not."""
    return [
        (name, state, trigger)
        for name, machine in MACHINES.items()
        for state in machine.states
        for trigger in dict.fromkeys(row.trigger for row in machine.rows)
        if machine.allowed_from(state)
        and all(trigger != row.trigger for row in machine.rows if state in row.source)
    ]


def refusal_of(name: str, noun: Any, trigger: str) -> TransitionRefused:
    with pytest.raises(TransitionRefused) as caught:
        MACHINES[name].fire(noun, trigger)
    return caught.value


@pytest.mark.parametrize("seed", TEN)
def test_what_a_refused_trigger_names_instead_is_accepted(seed: int) -> None:
    """One of the triggers that a refusal allows, with the facts its guards want, is taken."""
    rng = random.Random(seed)
    name, state, trigger = rng.choice(refusable())
    machine = MACHINES[name]
    some_row = next(row for row in machine.rows if state in row.source)
    error = refusal_of(name, noun_for(some_row.id, state), trigger)

    way = rng.choice(error.allowed)
    instead, _, guards = way.partition(" (if ")
    rows = [row for row in machine.rows if state in row.source and row.trigger == instead]
    row = rng.choice(rows)
    for guard in row.guards:
        assert guard.__name__ in guards or not guards
    noun = noun_for(row.id, state)
    assert error.allowed == refusal_of(name, noun, trigger).allowed
    assert way in str(error)
    assert row.target is machine.fire(noun, instead, **CASES[row.id].facts).state


def test_a_final_state_says_that_nothing_is_allowed() -> None:
    """A refusal in a final state does not send anybody to a way that is not there."""
    for name, machine in MACHINES.items():
        for state in (each for each in machine.states if not machine.allowed_from(each)):
            source = machine.rows[0].source[0]
            noun = evolve(noun_for(machine.rows[0].id, source), state=state)
            error = refusal_of(name, noun, "x")
            assert () == error.allowed
            assert f"nothing: {state.name} is final" in str(error)


# Refused answers


def asking(*, budget: bool) -> RunState:
    """A run that asks about `a` and `b`, which failed, and perhaps about its spent budget."""
    steps: Any = [StepSpec(id=id, tool="tool") for id in "abc"]  # Any: the field's converter
    limit = Budget(tool_calls=2) if budget else Budget()
    plan = Plan(goal="goal", steps=steps, policy=Policy(budget=limit))
    state = CORE.advance(new_run(plan, "run-1"), [Drive()], NOW).state
    broken = [
        Result(step_id=id, attempt=1, failure=FailureKind.REPORTED, message="it broke")
        for id in "ab"
    ]
    return CORE.advance(state, broken, NOW).state


USED = Answer(subject="b", choice="skip", token="used")

WRONG: Mapping[str, Answer] = {
    "subject": Answer(subject="c", choice="retry", token="w"),
    "unknown subject": Answer(subject="zebra", choice="retry", token="w"),
    "choice": Answer(subject="a", choice="replan", token="w"),
    "choice of another": Answer(subject="a", choice="raise", token="w", raised_to=9.0),
    "number": Answer(subject="a", choice="retry", token="w", raised_to=3.0),
    "no number": Answer(subject="run", choice="raise", token="w"),
    "number too low": Answer(subject="run", choice="raise", token="w", raised_to=2.0),
    "used token": Answer(subject="a", choice="stop", token="used"),
}


def answered(state: RunState, answer: Answer) -> tuple[RunState, AnswerRefused | None]:
    """The state after an answer, and its refusal if it was refused."""
    advanced = CORE.advance(state, [answer], NOW)
    said = [each for each in advanced.commands if isinstance(each, (Accepted, Refuse))]
    assert [answer.token] == [each.token for each in said]
    refusals = [each.error for each in said if isinstance(each, Refuse)]
    if refusals:
        assert () == advanced.units
        assert state == advanced.state
    return advanced.state, refusals[0] if refusals else None


def refused(state: RunState, answer: Answer) -> AnswerRefused:
    _, error = answered(state, answer)
    assert error is not None
    return error


def allowed_one(way: str, token: str) -> Answer:
    """The answer that `CHOICE SUBJECT` stands for."""
    choice, subject = way.split(" ")
    raised_to = 9.0 if choice == "raise" else None
    return Answer(subject=subject, choice=choice, token=token, raised_to=raised_to)


@pytest.mark.parametrize("seed", TEN)
def test_what_a_refused_answer_names_instead_is_accepted(seed: int) -> None:
    """One of the answers that a refusal allows is taken; the refused token was not used up."""
    rng = random.Random(seed)
    state, first = answered(asking(budget=True), USED)
    assert first is None
    wrong = WRONG[rng.choice(sorted(WRONG))]
    error = refused(state, wrong)
    way = rng.choice(error.allowed)
    assert way in str(error)
    token = "fresh" if wrong.token == "used" else wrong.token
    _, again = answered(state, allowed_one(way, token))
    assert again is None


@pytest.mark.parametrize("what", WRONG)
def test_every_wrong_answer_is_refused_with_all_the_right_ones(what: str) -> None:
    """A refused answer names every choice of every open question, and no other."""
    state, _ = answered(asking(budget=True), USED)
    error = refused(state, WRONG[what])
    expected = {f"{choice} a" for choice in ("retry", "skip", "stop")} | {"raise run", "stop run"}
    assert expected == set(error.allowed)
    assert WRONG[what].choice == error.choice


@pytest.mark.parametrize("way", ["retry a", "skip a", "stop a", "raise run", "stop run"])
def test_every_allowed_answer_is_accepted(way: str) -> None:
    """Each choice that a refusal names is accepted, not only one of them."""
    state, _ = answered(asking(budget=True), USED)
    _, error = answered(state, allowed_one(way, "fresh"))
    assert error is None


def test_an_answer_that_nobody_asked_for_says_that_nothing_is_open() -> None:
    """Where no question is open the refusal names no answer (D11)."""
    steps: Any = [StepSpec(id="a", tool="tool")]  # Any: the field's converter
    state = CORE.advance(new_run(Plan(goal="goal", steps=steps), "run-1"), [Drive()], NOW).state
    error = refused(state, WRONG["choice"])
    assert () == error.allowed
    assert "no question is open" in str(error)


def test_while_the_run_ends_no_answer_is_allowed() -> None:
    """An answer that comes after the run began to end is refused, and none is named."""
    state = asking(budget=False)
    draining = CORE.advance(state, [Cancel()], NOW).state
    error = refused(draining, Answer(subject="a", choice="retry", token="w"))
    assert () == error.allowed
