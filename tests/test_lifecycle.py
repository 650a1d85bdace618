"""The kernel: rows into a machine whose every no leaves things as they were."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.errors import (
    Attempted,
    FactMissing,
    LifecycleError,
    PostconditionViolated,
    Refused,
    TransitionRefused,
)
from loopfsm.lifecycle import Explanation, Lifecycle, Row, facts_read_by, says
from tests.doors import (
    BROKEN,
    CLOSED,
    DOORS,
    LOCKED,
    OPEN,
    ROWS,
    Door,
    DoorState,
    OtherState,
    change_code,
    code_is_new,
    door,
    enough_force,
    has_a_code,
    key_fits,
    lifecycle,
    nobody_is_looking,
    opening_is_counted,
)

# Taken


def test_fire_returns_a_new_noun() -> None:
    """A taken row makes another noun; the one it was fired on is what it was."""
    before = door(OPEN)
    after = DOORS.fire(before, "close")
    assert (door(CLOSED), door(OPEN)) == (after, before)


def test_an_update_names_what_changes() -> None:
    """What the update returns is changed, beside the state; nothing else is."""
    assert door(LOCKED, code=42) == DOORS.fire(door(OPEN), "lock", new_code=42)
    fired = DOORS.transition(door(OPEN), "lock", {"new_code": 42})
    assert {"state": LOCKED, "code": 42} == fired.changes


def test_a_row_without_an_update_changes_the_state_alone() -> None:
    """The state is the only change of a row that has no update."""
    assert {"state": CLOSED} == DOORS.transition(door(OPEN), "close", {}).changes


def test_a_row_may_lead_back_into_its_state() -> None:
    """A row from a state into itself is an entry like any other: its invariants are asked."""
    closed_and_bad = lifecycle(invariants={CLOSED: (has_a_code,)})
    assert door() == closed_and_bad.fire(door(), "knock", watched=False)
    with pytest.raises(PostconditionViolated):
        closed_and_bad.fire(door(code=-1), "knock", watched=False)


def test_the_first_row_whose_guards_hold_wins() -> None:
    """Of the rows of one trigger the first that can is taken, in the declared order."""
    both = {"key": 7, "force": 9, "watched": False}
    assert "D-3" == DOORS.transition(door(LOCKED), "open", both).row.id
    assert "D-4" == DOORS.transition(door(LOCKED), "open", {**both, "key": 1}).row.id
    swapped = lifecycle(*(ROWS[index] for index in (0, 1, 3, 2)))
    assert "D-4" == swapped.transition(door(LOCKED), "open", both).row.id


def test_a_row_carries_what_it_spends() -> None:
    """The record of a taken row says which budget the row consumes."""
    by_force = {"key": 1, "force": 9, "watched": False}
    assert "hinges" == DOORS.transition(door(LOCKED), "open", by_force).row.spends
    assert DOORS.transition(door(), "open", {}).row.spends is None


@pytest.mark.parametrize(
    ("state", "trigger", "recorded"),
    [
        (LOCKED, "open", {"key": 1, "force": 9, "watched": False}),
        (CLOSED, "open", {}),
        (CLOSED, "lock", {}),
        (CLOSED, "knock", {"watched": False}),
    ],
)
def test_the_facts_on_record(state: DoorState, trigger: str, recorded: dict[str, Any]) -> None:
    """On record are the facts of the guards of the rows tried, of no update, and nothing else."""
    facts = {"key": 1, "force": 9, "watched": False, "new_code": 3, "weather": "fair"}
    fired = DOORS.transition(door(state), trigger, facts)
    assert recorded == fired.facts
    assert facts == fired.given


def test_the_facts_on_record_end_with_the_row_taken() -> None:
    """The guards of rows after the one taken were not asked, and leave no fact."""
    facts = {"key": 7, "force": 9, "watched": False}
    assert {"key": 7} == DOORS.transition(door(LOCKED), "open", facts).facts


# Refused


def refused(machine: Lifecycle[Any], noun: Any, trigger: str, **facts: Any) -> TransitionRefused:
    with pytest.raises(TransitionRefused) as caught:
        machine.fire(noun, trigger, **facts)
    return caught.value


def test_a_refusal_explains_itself() -> None:
    """A refusal has as attributes what was tried, on what, where, why not, what is allowed."""
    error = refused(DOORS, door(LOCKED), "open", key=1, force=9, watched=True)
    attempted = (
        Attempted("D-3", "key_fits", "The key is that of the door. Its shape does not matter"),
        Attempted("D-4", "nobody_is_looking", "nobody_is_looking"),
    )
    allowed = ("open (if key_fits or enough_force and nobody_is_looking)",)
    assert ("door", "front", "LOCKED", "open") == (
        error.machine,
        error.id,
        error.state,
        error.trigger,
    )
    assert (attempted, allowed) == (error.attempted, error.allowed)
    assert isinstance(error, Refused)
    assert isinstance(error, RuntimeError)


def test_the_words_of_a_refusal() -> None:
    """The message of a refusal holds all that its attributes hold (S31)."""
    assert (
        "door 'front' in LOCKED refused 'open': D-3 needs key_fits (The key is that of the door. "
        "Its shape does not matter); D-4 needs enough_force (The force breaks the hinges). "
        "Allowed from LOCKED: open (if key_fits or enough_force and nobody_is_looking)"
    ) == str(refused(DOORS, door(LOCKED), "open", key=1, force=1, watched=True))


@pytest.mark.parametrize("trigger", ["close", "lock", "explode", "", "trigger", "__init__", "OPEN"])
def test_an_undeclared_trigger_is_refused(trigger: str) -> None:
    """A trigger that no row takes here is refused with those that some row takes."""
    error = refused(DOORS, door(LOCKED), trigger, new_code=1)
    assert () == error.attempted
    assert ("open (if key_fits or enough_force and nobody_is_looking)",) == error.allowed
    assert "no row leaves LOCKED by it" in str(error)


def test_a_trigger_without_guards_is_allowed_without_condition() -> None:
    """A trigger of which one row has no guard is named bare."""
    error = refused(DOORS, door(CLOSED), "close")
    assert ("open", "lock", "knock (if nobody_is_looking)") == error.allowed


def test_a_state_that_no_row_leaves_allows_nothing() -> None:
    """A refusal in a final state says that nothing is allowed, because it is final."""
    error = refused(DOORS, door(BROKEN), "open")
    assert () == error.allowed
    assert "nothing: BROKEN is final" in str(error)


@pytest.mark.parametrize("state", [OtherState.OPEN, "OPEN", None])
def test_a_state_of_another_machine_is_refused(state: Any) -> None:
    """A noun in a state that the machine does not have is the author's mistake, and named."""
    for ask in (DOORS.fire, DOORS.may, DOORS.explain):
        with pytest.raises(LifecycleError) as caught:
            ask(door(state), "close")
        assert f"'front' is in {state!r}, which is no DoorState" == caught.value.problem


# Nothing changed, and the machine goes on


class Creaked(Exception):
    """What a function of a row's author raises."""


def raising(*nouns: Any) -> Any:
    raise Creaked("rust")


def never(*nouns: Any) -> bool:
    return False


def nothing(door: Door) -> Mapping[str, Any]:
    return {}


def no_such_field(door: Door) -> Mapping[str, Any]:
    return {"colour": "red"}


def unread(door: Door, *, colour: str) -> bool:
    return True


TRY: dict[str, Any] = {"id": "D-9", "trigger": "try", "source": (CLOSED,), "target": LOCKED}

WAYS_TO_FAIL: Mapping[str, tuple[Row, type[Exception]]] = {
    "refused guard": (Row(**TRY, guards=(never,)), TransitionRefused),
    "raising guard": (Row(**TRY, guards=(raising,)), Creaked),
    "raising update": (Row(**TRY, update=raising), Creaked),
    "impossible update": (Row(**TRY, update=no_such_field), TypeError),
    "raising ensure": (Row(**TRY, ensures=(raising,)), Creaked),
    "false ensure": (Row(**TRY, ensures=(never,)), PostconditionViolated),
    "false invariant": (Row(**{**TRY, "target": OPEN}), PostconditionViolated),
    "raising invariant": (Row(**{**TRY, "target": BROKEN}), Creaked),
    "fact missing": (Row(**TRY, guards=(unread,)), FactMissing),
}


@pytest.mark.parametrize("way", WAYS_TO_FAIL)
def test_whatever_says_no_changes_nothing(way: str) -> None:
    """After a no of any kind the noun is what it was, and the machine takes the next trigger."""
    row, error = WAYS_TO_FAIL[way]
    machine = lifecycle(*ROWS, row, invariants={OPEN: (never,), BROKEN: (raising,)})
    before = door()
    kept = copy.deepcopy(before)
    for _ in range(2):
        with pytest.raises(error) as caught:
            machine.fire(before, "try")
        assert error is type(caught.value)
        assert kept == before
        assert door(LOCKED, code=1) == machine.fire(before, "lock", new_code=1)


def test_an_undeclared_trigger_changes_nothing() -> None:
    """After an undeclared trigger the noun is what it was, and a declared one is taken."""
    before = door(LOCKED)
    refused(DOORS, before, "close")
    assert door(LOCKED) == before
    assert door(OPEN, openings=1) == DOORS.fire(before, "open", key=7)


# Contracts


def violated(row: Row, **invariants: Any) -> PostconditionViolated:
    machine = lifecycle(row, **invariants)
    with pytest.raises(PostconditionViolated) as caught:
        machine.fire(door(), "try")
    return caught.value


def facts_of(error: PostconditionViolated) -> tuple[str, ...]:
    return (error.machine, error.id, error.row, error.state, error.function, error.says)


def test_a_false_ensure_names_row_and_function() -> None:
    """A violation has as attributes the row, the state entered, the function and its claim."""
    error = violated(Row(**TRY, update=nothing, ensures=(opening_is_counted,)))
    expected = ("door", "front", "D-9", "LOCKED", "opening_is_counted", "opening_is_counted")
    assert expected == facts_of(error)
    assert isinstance(error, AssertionError)
    assert "row D-9 into LOCKED broke opening_is_counted" in str(error)
    assert "nothing has changed" in str(error)


def test_a_false_invariant_names_row_and_function() -> None:
    """A violated invariant names the row that would have broken it, and what it claims."""
    error = violated(Row(**TRY), invariants={LOCKED: (has_a_code, never)})
    assert ("door", "front", "D-9", "LOCKED", "never", "never") == facts_of(error)


def test_invariants_are_asked_before_ensures() -> None:
    """On entry the invariants of the state come first, then the ensures of the row."""
    assert (
        "never" == violated(Row(**TRY, ensures=(raising,)), invariants={LOCKED: (never,)}).function
    )


def test_an_ensure_sees_before_and_after_and_facts() -> None:
    """An ensure is asked of both nouns with the facts that it names (B4)."""
    seen: list[Any] = []

    def watching(before: Door, after: Door, *, new_code: int) -> bool:
        seen.append((before, after, new_code))
        return True

    row = Row(**TRY, update=change_code, ensures=(watching,))
    lifecycle(row).fire(door(), "try", new_code=3)
    assert [(door(), door(LOCKED, code=3), 3)] == seen


def test_no_update_leads_elsewhere_than_the_target() -> None:
    """A row leads to its target, whose contracts were asked, whatever its update returns."""

    def elsewhere(door: Door) -> Mapping[str, Any]:
        return {"state": OPEN}

    machine = lifecycle(Row(**TRY, update=elsewhere), invariants={OPEN: (never,)})
    fired = machine.transition(door(), "try", {})
    assert (LOCKED, {"state": LOCKED}) == (fired.after.state, fired.changes)


# Facts


@pytest.mark.parametrize(
    ("state", "trigger", "given_facts", "function", "fact"),
    [
        (LOCKED, "open", {"force": 9}, "key_fits", "key"),
        (LOCKED, "open", {"key": 1}, "enough_force", "force"),
        (LOCKED, "open", {"key": 1, "force": 9}, "nobody_is_looking", "watched"),
        (CLOSED, "lock", {"key": 1}, "change_code", "new_code"),
    ],
)
def test_a_missing_fact_is_named(
    state: DoorState, trigger: str, given_facts: dict[str, Any], function: str, fact: str
) -> None:
    """A function that lacks a fact is named, with the fact and those that were given."""
    with pytest.raises(FactMissing) as caught:
        DOORS.fire(door(state), trigger, **given_facts)
    error = caught.value
    assert ("door", function, fact, tuple(given_facts)) == (
        error.machine,
        error.function,
        error.fact,
        error.given,
    )
    assert isinstance(error, ValueError)
    assert repr(fact) in str(error)


def test_a_missing_fact_of_a_contract_is_named() -> None:
    """An invariant or ensure that lacks a fact is the author's mistake, no violation."""
    of_state = lifecycle(Row(**TRY), invariants={LOCKED: (unread,)})
    of_row = lifecycle(Row(**TRY, ensures=(code_is_new,)))
    for machine, fact in ((of_state, "colour"), (of_row, "new_code")):
        with pytest.raises(FactMissing) as caught:
            machine.fire(door(), "try", key=1)
        assert fact == caught.value.fact


def test_a_fact_that_no_guard_asked_for_is_not_missed() -> None:
    """Where `may` says yes without a fact, `fire` does not fail for the lack of it."""
    rows = (
        Row(**{**TRY, "id": "D-8"}, guards=(never, key_fits)),
        Row(**TRY),
    )
    machine = lifecycle(*rows)
    assert machine.may(door(), "try")
    fired = machine.transition(door(), "try", {})
    assert ("D-9", {}) == (fired.row.id, fired.facts)


def test_facts_read_by_a_function() -> None:
    """The facts of a function are its keyword-only parameters, in order."""
    assert ("key",) == facts_read_by(key_fits)
    assert () == facts_read_by(opening_is_counted)
    assert ("new_code",) == facts_read_by(code_is_new)


def test_what_a_function_says() -> None:
    """A function says the first line of its docstring, and without one its name."""
    assert "The force breaks the hinges" == says(enough_force)
    assert "nobody_is_looking" == says(nobody_is_looking)


# may, explain

TRIGGERS = [*dict.fromkeys(row.trigger for row in ROWS), "explode"]


@st.composite
def attempts(draw: st.DrawFn) -> tuple[Door, str, dict[str, Any]]:
    noun = door(draw(st.sampled_from(DoorState)), code=draw(st.integers(-1, 2)))
    facts = {
        "key": draw(st.integers(-1, 2)),
        "force": draw(st.integers(7, 10)),
        "watched": draw(st.booleans()),
        "new_code": draw(st.integers(0, 3)),
    }
    return noun, draw(st.sampled_from(TRIGGERS)), facts


@given(attempts())
def test_may_and_explain_agree_with_fire(attempt: tuple[Door, str, dict[str, Any]]) -> None:
    """`may` says yes exactly when `fire` takes a row, `explain` which, and both change nothing."""
    noun, trigger, facts = attempt
    kept = copy.deepcopy(noun), dict(facts)
    may = DOORS.may(noun, trigger, **facts)
    explained = DOORS.explain(noun, trigger, **facts)
    assert kept == (noun, facts)
    assert may is bool(explained) is (explained.why_not == "")
    if may:
        assert explained.row == DOORS.transition(noun, trigger, facts).row
        assert () == explained.allowed
    else:
        error = refused(DOORS, noun, trigger, **facts)
        assert (error.attempted, error.allowed) == (explained.attempted, explained.allowed)
    assert kept == (noun, facts)


def test_explain_says_which_rows_were_passed_over() -> None:
    """`explain` of a taken row names those before it, each with the guard that said no."""
    explained = DOORS.explain(door(LOCKED), "open", key=1, force=9, watched=False)
    assert "D-4" == getattr(explained.row, "id", None)
    assert ["D-3"] == [attempted.row for attempted in explained.attempted]


def test_explain_says_why_not_in_one_line() -> None:
    """`why_not` names rows and guards, or that no row leaves the state by the trigger."""
    assert "no row leaves this state by it" == DOORS.explain(door(), "explode").why_not
    why = DOORS.explain(door(), "knock", watched=True).why_not
    assert "D-6 needs nobody_is_looking (nobody_is_looking)" == why
    assert "" == Explanation(ROWS[0], (), ()).why_not


def test_may_asks_neither_update_nor_contract() -> None:
    """`may` asks the guards only: what an update would raise is not found out."""
    machine = lifecycle(Row(**TRY, update=raising, ensures=(raising,)))
    assert machine.may(door(), "try")


# Larger machines


def test_extended_adds_rows_after_its_own() -> None:
    """The extended lifecycle has the rows of the first, then the new ones."""
    new = Row(id="D-7", trigger="open", source=(BROKEN,), target=OPEN)
    larger = DOORS.extended([new])
    assert (*DOORS.rows, new) == larger.rows
    assert door(OPEN) == larger.fire(door(BROKEN), "open")
    assert (DOORS.name, DOORS.states, DOORS.initial) == (larger.name, larger.states, larger.initial)
    assert DOORS.invariants == larger.invariants


@pytest.mark.parametrize("used_before", [True, False])
def test_extended_leaves_the_first_as_it_was(used_before: bool) -> None:
    """A lifecycle does not change by being extended, whether it has run before or not."""
    machine = lifecycle()
    if used_before:
        machine.fire(door(OPEN), "close")
    machine.extended([Row(id="D-7", trigger="paint", source=(CLOSED, BROKEN), target=CLOSED)])
    assert ROWS == machine.rows
    assert () == refused(machine, door(BROKEN), "paint").allowed


def test_a_new_row_cannot_overtake_the_first_ones() -> None:
    """Rows that are added are tried last, so that they take nothing from those before."""
    thief = Row(id="D-7", trigger="close", source=(OPEN,), target=BROKEN)
    assert CLOSED is DOORS.extended([thief]).fire(door(OPEN), "close").state


def test_invariants_cannot_be_changed_from_outside() -> None:
    """What a lifecycle was made of is its own: no mapping outside changes it."""
    mapping: dict[Any, tuple[Callable[..., Any], ...]] = {LOCKED: (has_a_code,)}
    machine = lifecycle(invariants=mapping)
    mapping.clear()
    assert {LOCKED: (has_a_code,)} == dict(machine.invariants)
    with pytest.raises(TypeError):
        machine.invariants[OPEN] = ()  # type: ignore[index]  # that is the law


# Bad rows

BAD: Mapping[str, tuple[Callable[[], Lifecycle[Any]], str]] = {
    "foreign source": (
        lambda: lifecycle(Row(**{**TRY, "source": (OtherState.AJAR,)})),
        "row D-9 names <OtherState.AJAR: 'ajar'>, no state",
    ),
    "foreign source of the same name": (
        lambda: lifecycle(Row(**{**TRY, "source": (CLOSED, OtherState.OPEN)})),
        "row D-9 names <OtherState.OPEN: 'open'>, no state",
    ),
    "foreign target": (
        lambda: lifecycle(Row(**{**TRY, "target": OtherState.AJAR})),
        "row D-9 names <OtherState.AJAR: 'ajar'>, no state",
    ),
    "no source": (lambda: lifecycle(Row(**{**TRY, "source": ()})), "row D-9 has no source state"),
    "id twice": (lambda: lifecycle(Row(**TRY), Row(**TRY)), "two rows have the id D-9"),
    "id twice by extension": (
        lambda: DOORS.extended([attrs.evolve(ROWS[0], trigger="slam")]),
        "two rows have the id D-1",
    ),
    "foreign initial state": (
        lambda: Lifecycle("door", states=DoorState, initial=OtherState.OPEN, rows=ROWS),
        "<OtherState.OPEN: 'open'> is no state of DoorState",
    ),
    "foreign state of an invariant": (
        lambda: lifecycle(invariants={OtherState.OPEN: (has_a_code,)}),
        "<OtherState.OPEN: 'open'> is no state of DoorState",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_row_is_refused_at_the_door(what: str) -> None:
    """A row that cannot be part of the machine is refused when the machine is made."""
    make, problem = BAD[what]
    with pytest.raises(LifecycleError) as caught:
        make()
    assert ("door", problem) == (caught.value.machine, caught.value.problem)
    assert f"machine 'door': {problem}" == str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_repr() -> None:
    """A lifecycle introduces itself with its size."""
    assert "<Lifecycle door: 4 states, 6 rows>" == repr(DOORS)
