"""The fast event class does what the stock one of `transitions` does, callback by callback."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from transitions import Event

from loopfsm.lifecycle import InlineEvent, Lifecycle, Row, _Subject
from loopfsm.recovery.registry import MACHINES
from tests.doors import DOORS, DoorState, door
from tests.machines.cases import CASES, ROWS, SOURCES, noun_for


class Stock(Lifecycle[Any]):
    """A lifecycle on the stock event class."""

    event_class = Event


class Creaked(Exception):
    """What a function raises in the middle of a transition."""


@define
class Trace:
    """What was called, in order; one call of them may be made to say something else."""

    calls: list[tuple[str, str]] = field(factory=list)
    turn_at: int | None = None
    """Which call is not what it was."""
    instead: Callable[[], Any] = lambda: False

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, traced; the facts that it reads stay those of its signature."""

        @functools.wraps(function)
        def traced(*nouns: Any, **facts: Any) -> Any:
            place = len(self.calls)
            self.calls.append((function.__name__, repr((nouns, facts))))
            return self.instead() if place == self.turn_at else function(*nouns, **facts)

        return traced


def traced_row(row: Row, trace: Trace) -> Row:
    return attrs.evolve(
        row,
        guards=tuple(map(trace.of, row.guards)),
        update=None if row.update is None else trace.of(row.update),
        ensures=tuple(map(trace.of, row.ensures)),
    )


def twin(kind: type[Lifecycle[Any]], machine: Lifecycle[Any], trace: Trace) -> Lifecycle[Any]:
    """The same table on another class, each function of it traced."""
    return kind(
        machine.name,
        states=machine.states,
        initial=machine.initial,
        rows=[traced_row(row, trace) for row in machine.rows],
        invariants={
            state: tuple(map(trace.of, functions))
            for state, functions in machine.invariants.items()
        },
    )


TABLES: Mapping[str, Lifecycle[Any]] = {**MACHINES, "door": DOORS}
TRACES = (Trace(), Trace())
PAIRS = {
    name: (twin(Lifecycle, table, TRACES[0]), twin(Stock, table, TRACES[1]))
    for name, table in TABLES.items()
}
"""Every table twice: as it runs, and on the stock event class."""


def outcome(machine: Lifecycle[Any], noun: Any, trigger: str, facts: Mapping[str, Any]) -> Any:
    """What became of it: the record of the row taken, or the error with all that it says."""
    try:
        fired = machine.transition(noun, trigger, facts)
    except Exception as error:  # noqa: BLE001  # whatever it is, both have to raise it
        return type(error), str(error), error.args, {**vars(error)}
    return fired.row.id, fired.before, fired.after, fired.changes, fired.facts, fired.given


def both(
    name: str,
    noun: Any,
    trigger: str,
    facts: Mapping[str, Any],
    turn_at: int | None = None,
    instead: Callable[[], Any] = lambda: False,
) -> tuple[Any, int]:
    """Ask both for the same, see that they do the same, and return what, and in how many calls."""
    seen = []
    for machine, trace in zip(PAIRS[name], TRACES, strict=True):
        trace.calls, trace.turn_at, trace.instead = [], turn_at, instead
        seen.append((outcome(machine, noun, trigger, facts), trace.calls))
    ours, stock = seen
    assert stock == ours
    return ours[0], len(ours[1])


def creak() -> Any:
    raise Creaked


@pytest.mark.parametrize(("row_id", "source"), SOURCES)
def test_every_row_is_taken_alike(row_id: str, source: Enum) -> None:
    """Each row calls the same functions with the same arguments, and each of them can stop it."""
    machine, row = ROWS[row_id]
    noun, facts = noun_for(row_id, source), CASES[row_id].facts
    taken, calls = both(machine.name, noun, row.trigger, facts)
    assert row_id == taken[0]
    for place in range(calls):
        for instead in (lambda: False, creak):
            both(machine.name, noun, row.trigger, facts, place, instead)


KNOWN: Mapping[str, list[Any]] = {
    name: [value for case in CASES.values() if (value := case.facts.get(name)) is not None]
    for name in sorted({name for case in CASES.values() for name in case.facts})
}


@pytest.mark.slow
@given(st.data())
def test_every_trigger_is_answered_alike(data: st.DataObject) -> None:
    """Whatever the row, the trigger and the facts, given or not: both answer the same."""
    row_id, source = data.draw(st.sampled_from(SOURCES))
    machine, row = ROWS[row_id]
    triggers = sorted({row.trigger for row in machine.rows} | {"explode"})
    trigger = data.draw(st.just(row.trigger) | st.sampled_from(triggers))
    facts = dict(CASES[row_id].facts)
    for name in data.draw(st.sets(st.sampled_from(sorted(KNOWN)), max_size=3)):
        facts[name] = data.draw(st.sampled_from([*KNOWN[name], None, 0, True]))
    for name in data.draw(st.sets(st.sampled_from(sorted(facts) or ["none"]), max_size=1)):
        facts.pop(name, None)
    both(machine.name, noun_for(row_id, source), trigger, facts)


@given(
    st.sampled_from(DoorState),
    st.sampled_from(["close", "open", "lock", "knock", "explode"]),
    st.integers(-1, 2),
    st.dictionaries(st.sampled_from(["key", "force", "watched", "new_code"]), st.integers(-1, 10)),
    st.none() | st.integers(0, 5),
    st.sampled_from([lambda: False, creak]),
)
def test_doors_are_moved_alike(
    state: DoorState,
    trigger: str,
    code: int,
    facts: dict[str, int],
    turn_at: int | None,
    instead: Callable[[], Any],
) -> None:
    """On a table with competing rows, too, where guards refuse one row after another."""
    both("door", door(state, code=code), trigger, facts, turn_at, instead)


@pytest.mark.parametrize("name", TABLES)
def test_no_machine_has_what_the_fast_event_leaves_out(name: str) -> None:
    """Our machines have no callbacks of their own, no queue, and no transition without a target."""
    machine = TABLES[name]._machine
    assert not machine.has_queue
    assert not machine.ignore_invalid_triggers
    for when in ("prepare_event", "before_state_change", "after_state_change"):
        assert [] == getattr(machine, when)
    for when in ("finalize_event", "on_exception", "on_final"):
        assert [] == getattr(machine, when)
    assert not any(state.final for state in machine.states.values())
    for event in machine.events.values():
        assert InlineEvent is type(event)
        for transition in (each for group in event.transitions.values() for each in group):
            assert transition.dest is not None
            assert [] == transition.prepare
            assert all(condition.target is True for condition in transition.conditions)


@pytest.mark.parametrize(("row_id", "source"), SOURCES)
def test_the_model_ends_in_the_target(row_id: str, source: Enum) -> None:
    """A taken row leaves its throw-away model in the state it leads to, as the stock event does."""
    machine, row = ROWS[row_id]
    for lifecycle in PAIRS[machine.name]:
        subject = _Subject(noun_for(row_id, source), CASES[row_id].facts)
        assert lifecycle._machine.events[row.trigger].trigger(subject, subject)
        assert row.target is subject.state


# The functions of a row, asked with the facts that they name


def looks_up(door: Any, *, key: int) -> bool:
    raise KeyError("key")


def odd_names(noun0: Any, *, facts: int, function: int, noun1: int, lack: int) -> bool:
    return (facts, function, noun1, lack) == (1, 2, 3, 4)


TRY: Mapping[str, Any] = {"id": "D-9", "trigger": "try", "source": (DoorState.CLOSED,)}


def machine_with(guard: Callable[..., bool]) -> Lifecycle[Any]:
    row = Row(**TRY, target=DoorState.LOCKED, guards=(guard,))
    return Lifecycle("door", states=DoorState, initial=DoorState.CLOSED, rows=[row])


def test_a_key_error_of_a_function_is_its_own() -> None:
    """A KeyError that a guard raises is not taken for a fact that was not given."""
    with pytest.raises(KeyError):
        machine_with(looks_up).fire(door(), "try", key=1)


def test_a_fact_may_have_any_name() -> None:
    """No name of a fact collides with one that the kernel uses itself."""
    machine = machine_with(odd_names)
    facts: dict[str, Any] = {"facts": 1, "function": 2, "noun1": 3, "lack": 4}
    assert DoorState.LOCKED is machine.transition(door(), "try", facts).after.state


@pytest.mark.parametrize("name", TABLES)
def test_the_next_row_is_that_of_the_first_trigger(name: str) -> None:
    """`next_row` is the row of the first of `triggers_from` that `row_taken` finds one for."""
    machine = TABLES[name]
    for row_id, source in SOURCES:
        if ROWS[row_id][0].name == name:
            noun, facts = noun_for(row_id, source), _all_facts(row_id)
            rows = (machine.row_taken(noun, t, facts) for t in machine.triggers_from(source))
            assert next((row for row in rows if row), None) == machine.next_row(noun, facts)


def _all_facts(row_id: str) -> dict[str, Any]:
    some = {name: values[0] if values else None for name, values in KNOWN.items()}
    return {**some, **CASES[row_id].facts}
