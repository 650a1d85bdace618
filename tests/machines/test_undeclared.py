"""Whatever no row declares is refused, and nothing has changed: noun, unit, commit, journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopfsm.engine.turn import Turn
from loopfsm.errors import TransitionRefused
from loopfsm.journals.memory import MemoryJournal
from loopfsm.lifecycle import Lifecycle
from loopfsm.model.loop_state import ENDED
from loopfsm.model.record import Origin
from loopfsm.model.step import DONE, FINAL, StepState
from loopfsm.recovery.registry import MACHINES, default_registry
from loopfsm.unit import Draft
from tests.machines.cases import BUILDERS, CASES, NOW, ROWS, world, written

Pair = tuple[str, Enum, str]

REGISTRY = default_registry()

TRIGGERS: Mapping[str, tuple[str, ...]] = {
    name: tuple(dict.fromkeys(row.trigger for row in machine.rows))
    for name, machine in MACHINES.items()
}
EVERY_TRIGGER = tuple(dict.fromkeys(trigger for of in TRIGGERS.values() for trigger in of))

FACTS = {name: value for case in CASES.values() for name, value in case.facts.items()}
"""A value for every fact that some row reads."""


def declared(machine: Lifecycle[Any], state: Enum) -> list[str]:
    """The triggers that some row takes from `state`, in order."""
    leaving = (row.trigger for row in machine.rows if state in row.source)
    return list(dict.fromkeys(leaving))


UNDECLARED: list[Pair] = [
    (name, state, trigger)
    for name, machine in MACHINES.items()
    for state in machine.states
    for trigger in EVERY_TRIGGER
    if trigger not in declared(machine, state)
]
"""Every pair of a machine: its own triggers, and those that only other machines know."""

pairs = st.sampled_from(UNDECLARED)
anything = st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=3)
facts = st.dictionaries(st.sampled_from(sorted(FACTS)), anything).map(lambda some: FACTS | some)


def refused(call: Callable[[], object]) -> TransitionRefused:
    with pytest.raises(TransitionRefused) as caught:
        call()
    return caught.value


def names_of(allowed: tuple[str, ...]) -> list[str]:
    """The triggers of a refusal's list, without their guards."""
    return [way.split(" (if ")[0] for way in allowed]


@pytest.mark.parametrize("name", MACHINES)
def test_every_pair_is_refused(name: str) -> None:
    """Each pair of a state and a trigger that no row declares is refused, one by one (S31)."""
    machine = MACHINES[name]
    for state, trigger in [(state, trigger) for of, state, trigger in UNDECLARED if of == name]:
        error = refused(partial(machine.fire, BUILDERS[name](state), trigger, **FACTS))
        assert declared(machine, state) == names_of(error.allowed)


@settings(max_examples=50)
@given(pairs, facts)
def test_the_machine_refuses(pair: Pair, given_facts: Mapping[str, Any]) -> None:
    """A pair that no row declares is refused whatever the facts, and names what is allowed."""
    name, state, trigger = pair
    machine = MACHINES[name]
    noun = BUILDERS[name](state)
    kept = written(noun)
    error = refused(lambda: machine.fire(noun, trigger, **given_facts))
    assert (name, noun.id, state.name, trigger) == (
        error.machine,
        error.id,
        error.state,
        error.trigger,
    )
    assert () == error.attempted
    assert declared(machine, state) == names_of(error.allowed)
    assert kept == written(noun)
    assert not machine.may(noun, trigger, **given_facts)
    assert error.allowed == machine.explain(noun, trigger, **given_facts).allowed


@given(st.sampled_from(sorted(MACHINES)), st.text(max_size=12), st.data())
def test_the_machine_refuses_an_unknown_trigger(
    name: str, trigger: str, data: st.DataObject
) -> None:
    """A trigger that no machine has is refused like any other that is not declared."""
    machine = MACHINES[name]
    state = data.draw(st.sampled_from(list(machine.states)))
    if trigger in EVERY_TRIGGER:
        return
    error = refused(lambda: machine.fire(BUILDERS[name](state), trigger))
    assert declared(machine, state) == names_of(error.allowed)
    assert repr(trigger) in str(error)


@settings(max_examples=50)
@given(pairs, facts)
def test_a_unit_keeps_nothing_of_it(pair: Pair, given_facts: Mapping[str, Any]) -> None:
    """A refusal inside a unit leaves state, nouns written and events of the unit as they were."""
    name, state, trigger = pair
    noun = BUILDERS[name](state)
    before = world(noun)
    draft = Draft(before, REGISTRY.machines, NOW)
    refused(lambda: draft.fire(noun, trigger, **given_facts))
    assert ([], {}) == (draft.fired, draft.written)
    after, unit = draft.finish("nothing")
    assert before == after
    assert () == unit.events


@settings(max_examples=50)
@given(pairs, facts)
def test_a_commit_and_its_journal_keep_nothing_of_it(
    pair: Pair, given_facts: Mapping[str, Any]
) -> None:
    """A refused unit leaves no trace in its commit: the journal is that of a run without it."""
    name, state, trigger = pair
    noun = BUILDERS[name](state)
    before = world(noun)

    def note(draft: Draft) -> None:
        draft.note("noted", "a", 1, {})

    def undeclared(draft: Draft) -> None:
        draft.note("half done", "a", 1, {})
        draft.charge("charged", ("step", "a"), ("tokens", 5.0))
        draft.fire(noun, trigger, **given_facts)

    with_it, without = (Turn(before, REGISTRY, REGISTRY.machines, NOW) for _ in "ab")
    for turn in (with_it, without):
        turn.unit("first", note)
    stands = with_it.state
    refused(lambda: with_it.unit("refused", undeclared))
    assert stands is with_it.state
    for turn in (with_it, without):
        turn.unit("last", note)
    assert without.state == with_it.state
    assert without.commands == with_it.commands
    journals = [MemoryJournal(), MemoryJournal()]
    for journal, turn in zip(journals, (with_it, without), strict=True):
        journal.create(before, NOW, Origin())
        journal.acquire(before.run.id, NOW, 30).append(turn.units, turn.state, NOW)
    assert list(journals[1].events(before.run.id)) == list(journals[0].events(before.run.id))
    assert 2 == len(list(journals[0].events(before.run.id)))


def test_a_final_step_is_immutable() -> None:
    """No row of this package leaves a final state of a step (S31, D14)."""
    left = {source for machine, row in ROWS.values() for source in row.source}
    assert set() == left & set(FINAL)
    assert set(DONE) < set(FINAL)
    assert set() == left & set(ENDED)


@pytest.mark.parametrize(
    "state",
    [
        state
        for state in StepState
        if state not in (StepState.EVALUATION_FAILED, StepState.VERIFICATION_FAILED)
    ],
)
def test_a_retry_starts_from_a_failed_state_alone(state: StepState) -> None:
    """RETRY of a step that has not failed is refused, and its output is kept (S3, D14)."""
    step = BUILDERS["step"](state)
    kept = written(step)
    refused(lambda: MACHINES["step"].fire(step, "retry", **CASES["STEP-20"].facts))
    assert kept == written(step)
