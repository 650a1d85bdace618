"""Every row of every machine: taken, refused guard by guard, and held to each contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import attrs
import pytest

from loopfsm.errors import PostconditionViolated, TransitionRefused
from loopfsm.lifecycle import Function, Lifecycle, Row
from loopfsm.machines import PER_LINEAGE
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import output
from loopfsm.recovery.registry import MACHINES, default_registry
from loopfsm.unit import Draft
from tests.machines.cases import (
    CASES,
    NOW,
    OPTIONAL,
    ROWS,
    SOURCES,
    F,
    S,
    ask,
    expected_after,
    failure_in,
    names,
    noun_for,
    spec,
    step_in,
    world,
    written,
)
from tests.machines.denials import DENIALS, Denial
from tests.machines.mutants import ENSURES, INVARIANTS, Mutant
from tests.machines.situations import (
    EMPTY_QUESTIONS,
    F1,
    F2_OF_B,
    SITUATIONS,
    Action,
    Situation,
    leave_out,
    take,
)

Key = tuple[str, str]


def keys_of(functions: Callable[[Lifecycle[Any], Row], Iterable[Function]]) -> set[Key]:
    """Every (row id, function name) of one kind of function, over all machines."""
    return {
        (row_id, function.__name__)
        for row_id, (machine, row) in ROWS.items()
        for function in functions(machine, row)
    }


def invariants_of(machine: Lifecycle[Any], row: Row) -> tuple[Function, ...]:
    found: tuple[Function, ...] = machine.invariants.get(row.target, ())
    return found


def id_of(value: object) -> str | None:
    if isinstance(value, tuple):
        return "-".join(str(part) for part in value)
    return value.name if isinstance(value, Enum) else None


# The tables are complete


def test_every_row_has_an_accepted_example() -> None:
    """The table of examples holds every row of the composed machines, and no other."""
    assert set(ROWS) == set(CASES)


def test_row_ids_are_unique_over_all_machines() -> None:
    """A row id names one row of the whole package."""
    assert sum(len(machine.rows) for machine in MACHINES.values()) == len(ROWS)


def test_every_guard_has_a_denial() -> None:
    """A guard without a case in which it alone is false fails the suite."""
    assert keys_of(lambda machine, row: row.guards) == set(DENIALS)


def test_every_ensure_has_a_mutant() -> None:
    """An ensure without a mutant that it alone catches fails the suite."""
    assert keys_of(lambda machine, row: row.ensures) == set(ENSURES)


def test_every_invariant_has_a_mutant_of_every_row_into_its_state() -> None:
    """An invariant is held against every row that enters its state."""
    assert keys_of(invariants_of) == set(INVARIANTS)


def test_every_contract_of_the_run_has_a_situation() -> None:
    """A run contract without a unit that it alone undoes fails the suite."""
    assert keys_of(lambda machine, row: row.ensures_run) == set(SITUATIONS)


# Taken


@pytest.mark.parametrize(("row_id", "source"), SOURCES, ids=id_of)
def test_accepted(row_id: str, source: Enum) -> None:
    """A row whose guards hold leads from each of its sources to its target, as declared."""
    machine, row = ROWS[row_id]
    before = noun_for(row_id, source)
    kept = written(before)
    fired = machine.transition(before, row.trigger, CASES[row_id].facts)
    assert row == fired.row
    assert expected_after(row_id, before) == fired.after
    assert {"state": row.target, **CASES[row_id].changes_of(before)} == fired.changes
    assert kept == written(before)


SPENDING = [row_id for row_id, (_, row) in ROWS.items() if row.spends]


@pytest.mark.parametrize("row_id", SPENDING)
def test_spends(row_id: str) -> None:
    """A row that spends charges one of its budget, to the lineage where that has its own."""
    _, row = ROWS[row_id]
    budget = str(row.spends)
    noun = noun_for(row_id, row.source[0])
    key = f"{budget}/a" if budget in PER_LINEAGE else budget
    draft = Draft(world(noun, spent={key: 2}), default_registry().machines, NOW)
    draft.fire(noun, row.trigger, **CASES[row_id].facts)
    after, unit = draft.finish("spend")
    assert 3 == after.spent[key]
    assert ((key, 1),) == unit.events[0].spent


def test_rows_that_spend() -> None:
    """The rows that spend are those on which the proof of termination rests (D1 to D4)."""
    spending = {row_id: ROWS[row_id][1].spends for row_id in SPENDING}
    assert {
        "STEP-02": "tool_calls",
        "STEP-09": "recoveries",
        "FAIL-01": "recoveries",
        "FAIL-06": "recoveries",
    } == spending


# Refused, guard by guard

GUARDED = [(*key, source) for key in DENIALS for source in ROWS[key[0]][1].source]


@pytest.mark.parametrize(("row_id", "guard", "source"), GUARDED, ids=id_of)
def test_guard(row_id: str, guard: str, source: Enum) -> None:
    """A row of which one guard alone is false is not taken, and the refusal names that guard."""
    machine, row = ROWS[row_id]
    denial: Denial = DENIALS[row_id, guard]
    before = noun_for(row_id, source, **denial.fields)
    facts = {**CASES[row_id].facts, **denial.facts}
    assert [guard] == [g.__name__ for g in row.guards if not ask(g, facts, before)]
    kept = written(before)
    explained = machine.explain(before, row.trigger, **facts)
    assert row != explained.row
    if explained.row is None:
        assert (row_id, guard) in [(tried.row, tried.guard) for tried in explained.attempted]
        with pytest.raises(TransitionRefused) as refused:
            machine.fire(before, row.trigger, **facts)
        assert explained.attempted == refused.value.attempted
    else:
        assert explained.row == machine.transition(before, row.trigger, facts).row
    assert kept == written(before)


# Held to its contracts on entry


def mutated(row_id: str, mutant: Mutant, before: Any) -> Lifecycle[Any]:
    """The machine in which one row has the mutant's update."""
    machine, row = ROWS[row_id]
    changes = {**CASES[row_id].changes_of(before), **mutant.changes}

    def update(noun: Any) -> Mapping[str, Any]:
        return changes

    altered = attrs.evolve(row, update=update, guards=row.guards if mutant.guarded else ())
    return Lifecycle(
        machine.name,
        states=machine.states,
        initial=machine.initial,
        rows=[altered if each.id == row_id else each for each in machine.rows],
        invariants=machine.invariants,
    )


MUTANTS = [
    (*key, source, mutant)
    for table in (INVARIANTS, ENSURES)
    for key, mutant in table.items()
    for source in ROWS[key[0]][1].source
]


@pytest.mark.parametrize(("row_id", "contract", "source", "mutant"), MUTANTS, ids=id_of)
def test_contract_on_entry(row_id: str, contract: str, source: Enum, mutant: Mutant) -> None:
    """A row whose update breaks one contract alone raises, names it, and changes nothing."""
    machine, row = ROWS[row_id]
    before = noun_for(row_id, source, **mutant.fields)
    facts = {**CASES[row_id].facts, **mutant.facts}
    after = attrs.evolve(expected_after(row_id, before), **mutant.changes)
    broken = [f for f in invariants_of(machine, row) if not ask(f, facts, after)]
    broken += [f for f in row.ensures if not ask(f, facts, before, after)]
    assert [contract] == names(broken)

    kept = written(before)
    with pytest.raises(PostconditionViolated) as violated:
        mutated(row_id, mutant, before).fire(before, row.trigger, **facts)
    error = violated.value
    assert (machine.name, before.id, row_id, row.target.name, contract) == (
        error.machine,
        error.id,
        error.row,
        error.state,
        error.function,
    )
    assert kept == written(before)


# Held to its contracts at the end of the unit


def draft_of(state: RunState, actions: Iterable[Action]) -> Draft:
    draft = Draft(state, default_registry().machines, NOW)
    for action in actions:
        action(draft)
    return draft


def nouns_of(state: RunState) -> list[Any]:
    return [state.run, *state.steps.values(), *state.failures.values(), *state.questions.values()]


def broken_by(draft: Draft) -> list[Key]:
    """Every run contract of the fired rows that is false of the unit."""
    return [
        (fired.row.id, function.__name__)
        for _, fired in draft.fired
        for function in fired.row.ensures_run
        if not ask(function, fired.given, fired.after, draft.before, draft)
    ]


def refuse(situation: Situation, row_id: str, contract: str) -> None:
    draft = draft_of(situation.state, situation.wrong)
    assert [(row_id, contract)] == broken_by(draft)
    before = written(*nouns_of(situation.state))
    with pytest.raises(PostconditionViolated) as violated:
        draft.finish("wrong")
    assert (row_id, contract) == (violated.value.row, violated.value.function)
    assert before == written(*nouns_of(situation.state))


@pytest.mark.parametrize(("row_id", "contract"), SITUATIONS, ids=id_of)
def test_contract_of_the_run(row_id: str, contract: str) -> None:
    """A unit that breaks one run contract alone is undone, and the error names it."""
    refuse(SITUATIONS[row_id, contract], row_id, contract)


@pytest.mark.parametrize(("row_id", "contract"), SITUATIONS, ids=id_of)
def test_contract_of_the_run_kept(row_id: str, contract: str) -> None:
    """The same unit with what belongs to the row stands, row and all."""
    situation = SITUATIONS[row_id, contract]
    draft = draft_of(situation.state, situation.right)
    assert [] == broken_by(draft)
    _, unit = draft.finish("right")
    assert row_id in [event.row for event in unit.events]


@pytest.mark.parametrize("what", EMPTY_QUESTIONS)
def test_a_question_can_be_answered(what: str) -> None:
    """A question without choices or without what was tried is none (S16)."""
    refuse(EMPTY_QUESTIONS[what], "STEP-22", "one_question_is_open")


@pytest.mark.parametrize("row_id", ["STEP-12", "STEP-13"])
def test_an_answer_settles_its_question(row_id: str) -> None:
    """A step does not leave its question while that still stands open."""
    situation = SITUATIONS[row_id, "answer_became_the_plan"]
    _, step, plan = situation.right
    refuse(attrs.evolve(situation, wrong=(step, plan)), row_id, "answer_became_the_plan")


def skipping_optional(b: Any) -> Situation:
    """The optional step `a` is skipped with a dependent `b`: alone, and with it."""
    a = step_in(S.READY, spec=OPTIONAL)
    alone = (leave_out("a"), take("STEP-11", "a", granted=False))
    both = (*alone, leave_out("b"), take("STEP-11", "b"))
    return Situation(world(a, b), alone, both)


def test_a_dependent_that_uses_the_output_of_a_skipped_step_is_skipped_with_it() -> None:
    """A dependent whose args use an optional step's output falls with it (B21)."""
    uses = step_in(S.PENDING, spec=spec("b", args={"of": output("a")}, optional=True))
    refuse(skipping_optional(uses), "STEP-11", "dependents_follow_the_skip")
    assert [] == broken_by(draft_of(skipping_optional(uses).state, skipping_optional(uses).right))


def test_a_dependent_that_only_waits_for_an_optional_step_goes_on_without_it() -> None:
    """A dependent that does not use a skipped optional step's output need not fall (B21)."""
    waits = step_in(S.PENDING, spec=spec("b", "a"))
    situation = skipping_optional(waits)
    after, _ = draft_of(situation.state, situation.wrong).finish("skip")
    assert (S.SKIPPED, S.PENDING) == (after.step("a").state, after.step("b").state)
    assert ("a",) == after.run.without


def test_two_plans_of_one_unit_do_not_share_a_step() -> None:
    """Of two plans in one unit the first keeps a step they share; the unit is undone (B33)."""
    failed_b = step_in(S.EVALUATION_FAILED, spec=spec("b", "a"))
    state = world(step_in(S.EVALUATION_FAILED), failed_b, F1, F2_OF_B)
    plans = (take("FAIL-01", "F1"), take("FAIL-01", "F2", scope=("b", "a")))
    draft = draft_of(state, plans)
    assert ("F1", "F2") == (draft.holder_of("a"), draft.holder_of("b"))
    with pytest.raises(PostconditionViolated) as violated:
        draft.finish("overlap")
    assert ("F2", "scopes_are_disjoint") == (violated.value.id, violated.value.function)


def test_a_plan_that_is_dropped_gives_back_what_it_held_and_no_more() -> None:
    """Withdrawing one plan leaves the steps that another holds where they are (B33)."""
    failed_b = step_in(S.EVALUATION_FAILED, spec=spec("b", "a"))
    holders = [
        failure_in(F.RECOVERY_PLANNED, number=number, subject=subject, scope=(subject,))
        for number, subject in ((1, "a"), (2, "b"))
    ]
    state = world(step_in(S.EVALUATION_FAILED), failed_b, *holders)
    after, _ = draft_of(state, [take("FAIL-07", "F2")]).finish("withdraw")
    assert {"a": "F1"} == dict(after.held)
