"""Each rule of the real tables, taken back alone, is noticed by the explorer.

A rule whose loss nobody notices is either redundant, and then it has no place in the tables,
or not covered, and then the proof proves less than it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve

from loopfsm.engine import fold, settle
from loopfsm.engine.core import FOLDS, Core
from loopfsm.engine.inputs import CallTool, Drive
from loopfsm.engine.state import new_run
from loopfsm.engine.turn import Turn
from loopfsm.journals.sqlite import rows
from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.lifecycles.step import effect_is_known
from loopfsm.model.failure import Failure
from loopfsm.model.plan import Plan
from loopfsm.model.question import Question
from loopfsm.model.step import NOT_UNDER_WAY, Step, StepSpec, StepState
from loopfsm.recovery.base import RecoveryHandler
from loopfsm.recovery.orders import Skip
from loopfsm.recovery.registry import MACHINES
from loopfsm.recovery.strategies.abstain import Abstain
from loopfsm.recovery.strategies.terminate import Terminate
from loopfsm.review import watch
from loopfsm.review.commands import unasked
from loopfsm.review.explore import Exploration, explore
from loopfsm.review.moves import CRASH, TAKEN_UP
from loopfsm.review.plans import SMALL_PLANS, registry_of
from loopfsm.unit import Draft

Patch = Callable[[Row], Row]


def with_rows(
    lifecycle: Lifecycle[Any], patch: Patch, invariants: Mapping[Any, Any] | None = None
) -> Lifecycle[Any]:
    """The lifecycle with each row as `patch` returns it."""
    rows = [patch(row) for row in lifecycle.rows]
    return Lifecycle(
        lifecycle.name,
        states=lifecycle.states,
        initial=lifecycle.initial,
        rows=rows,
        invariants=lifecycle.invariants if invariants is None else invariants,
    )


def walk(name: str, machine: str, patch: Patch) -> Exploration:
    """Explore the small plan of that name with one machine patched."""
    return walk_through(name, machine, lambda lifecycle: with_rows(lifecycle, patch))


def walk_through(
    name: str, machine: str, change: Callable[[Lifecycle[Any]], Lifecycle[Any]]
) -> Exploration:
    """Explore the small plan of that name with one machine changed."""
    small = next(small for small in SMALL_PLANS if small.name == name)
    core = Core.of(registry_of(small))
    changed = change(getattr(core.machines, machine))
    return explore(small, evolve(core, machines=evolve(core.machines, **{machine: changed})))


def plain(name: str) -> Exploration:
    """Explore the small plan of that name as it is (with what was monkeypatched)."""
    return explore(next(small for small in SMALL_PLANS if small.name == name))


def drop_guard(row_id: str, guard: str) -> Patch:
    def patch(row: Row) -> Row:
        if row.id != row_id:
            return row
        guards = tuple(g for g in row.guards if g.__name__ != guard)
        assert len(guards) == len(row.guards) - 1
        return evolve(row, guards=guards)

    return patch


def drop_source(row_id: str, state: Any) -> Patch:
    def patch(row: Row) -> Row:
        if row.id != row_id:
            return row
        return evolve(row, source=tuple(source for source in row.source if source is not state))

    return patch


CHAIN, JUDGED = "chain, two crashes", "chain, evaluated and verified"
FORK, JOIN = "fork, backoff, else fail", "join, one crash"
OPTIONAL = "optional step whose output one dependent uses"
REPEATS = "not idempotent, with and without max_retries"
CANCELLED, DEADLINES = "cancelled, two crashes", "deadlines, B critical"
SLOW, SLOW_CRASH = "a slow strategy that holds its neighbours", "a slow strategy, one crash"
VERIFIED, CRITICAL = "two steps, verified, else fail", "diamond, B critical, else abstain"
ANSWERED = "answered while a step is under way, two crashes"
BUDGET, BUDGET_SLOW = "run budget, ask", "run budget, a slow strategy"

NOTICED_BY = {
    ("failure", "FAIL-01", "is_a_recovery"): OPTIONAL,
    ("failure", "FAIL-01", "recoveries_left"): CHAIN,
    ("failure", "FAIL-02", "is_a_last_rung"): CHAIN,
    ("failure", "FAIL-03", "scope_is_quiet"): FORK,
    ("failure", "FAIL-06", "ordered_by_person"): SLOW_CRASH,
    ("failure", "FAIL-06", "recoveries_left"): JOIN,
    ("loop", "LOOP-03", "abstention_was_decided"): CHAIN,
    ("loop", "LOOP-04", "failure_was_decided"): CHAIN,
    ("loop", "LOOP-05", "recovery_under_way"): CHAIN,
    ("loop", "LOOP-06", "plan_was_changed"): CHAIN,
    ("loop", "LOOP-07", "recovery_leads_on"): FORK,
    ("loop", "LOOP-09", "only_the_budget_is_asked"): CHAIN,
    ("loop", "LOOP-09", "no_recovery_is_planned"): BUDGET_SLOW,
    ("loop", "LOOP-10", "question_is_open"): CHAIN,
    ("loop", "LOOP-10", "no_recovery_is_planned"): CANCELLED,
    ("loop", "LOOP-11", "all_steps_are_done"): CHAIN,
    ("loop", "LOOP-11", "nothing_was_left_out"): CHAIN,
    ("loop", "LOOP-12", "all_steps_are_done"): CHAIN,
    ("question", "QUES-01", "run_goes_on"): CANCELLED,
    ("question", "QUES-01", "choice_is_offered"): CHAIN,
    ("question", "QUES-01", "number_fits_the_choice"): CHAIN,
    ("question", "QUES-01", "token_is_unused"): CHAIN,
    ("question", "QUES-03", "run_goes_on"): DEADLINES,
    ("question", "QUES-03", "deadline_has_passed"): DEADLINES,
    ("step", "STEP-01", "dependencies_satisfied"): CHAIN,
    ("step", "STEP-02", "outside_every_planned_scope"): SLOW,
    ("step", "STEP-02", "budget_left"): BUDGET,
    ("step", "STEP-03", "result_is_of_this_attempt"): CHAIN,
    ("step", "STEP-04", "result_is_of_this_attempt"): JUDGED,
    ("step", "STEP-05", "result_is_of_this_attempt"): JUDGED,
    ("step", "STEP-06", "result_is_of_this_attempt"): CHAIN,
    ("step", "STEP-07", "result_is_of_this_attempt"): JUDGED,
    ("step", "STEP-08", "result_is_of_this_attempt"): JUDGED,
    ("step", "STEP-09", "effect_is_known"): REPEATS,
    ("step", "STEP-09", "recoveries_left"): CHAIN,
    ("step", "STEP-11", "optional_or_granted"): OPTIONAL,
    ("step", "STEP-12", "failed_in_evaluation"): JUDGED,
    ("step", "STEP-20", "retries_left_or_granted"): REPEATS,
    ("step", "STEP-20", "effect_is_known"): REPEATS,
    ("step", "STEP-20", "delay_fits_the_time_left"): "less time than a backoff takes",
    ("step", "STEP-21", "delay_elapsed"): JUDGED,
    ("step", "STEP-23", "abstention_allowed_or_granted"): CRITICAL,
}
"""Every guard of every row, and a small plan that breaks a law without it."""


def test_every_guard_of_every_row_is_taken_back_once() -> None:
    """The table above misses no guard and names none that is gone."""
    declared = {
        (name, row.id, guard.__name__)
        for name, machine in MACHINES.items()
        for row in machine.rows
        for guard in row.guards
    }
    assert declared == set(NOTICED_BY)


@pytest.mark.parametrize(("machine", "row_id", "guard"), sorted(NOTICED_BY))
def test_every_guard_is_needed(machine: str, row_id: str, guard: str) -> None:
    """Without any one guard of any one row, some small plan breaks a law."""
    seen = walk(NOTICED_BY[machine, row_id, guard], machine, drop_guard(row_id, guard))
    assert seen.counterexample is not None


CANCELLED_FROM = {
    StepState.PENDING: CHAIN,
    StepState.READY: VERIFIED,
    StepState.EVALUATION_FAILED: FORK,
    StepState.VERIFICATION_FAILED: VERIFIED,
    StepState.RETRY_PENDING: FORK,
    StepState.WAITING_FOR_HUMAN: BUDGET,
}


def test_cancel_leaves_every_state_in_which_nothing_is_under_way() -> None:
    """The sources of `cancel` are those taken back below."""
    assert set(NOT_UNDER_WAY) == set(CANCELLED_FROM)


@pytest.mark.parametrize("state", CANCELLED_FROM, ids=lambda state: state.name)
def test_cancel_is_needed_from_every_state(state: StepState) -> None:
    """Without `cancel` from any one of its states, some run cannot end."""
    seen = walk(CANCELLED_FROM[state], "step", drop_source("STEP-14", state))
    assert seen.counterexample is not None


def test_plan_must_spend() -> None:
    """When planning a recovery spends nothing, a lineage gets more than it may have (D1)."""

    def free(row: Row) -> Row:
        return evolve(row, spends=None) if row.id == "FAIL-01" else row

    assert walk(CHAIN, "failure", free).counterexample is not None


def test_a_cycle_that_spends_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preparation that fails for ever, planned for nothing, is seen even if nobody counts."""

    def free(row: Row) -> Row:
        return evolve(row, spends=None) if row.id == "FAIL-01" else row

    monkeypatch.setattr(watch._Watch, "_count_recovery", lambda *args, **words: None)
    seen = walk(SLOW, "failure", free)
    assert seen.counterexample is not None
    assert seen.counterexample.law.startswith("an unattended cycle spends no recoveries")


def test_interrupt_must_spend() -> None:
    """When starting over after a crash spends nothing, crashes are recoveries without end."""

    def free(row: Row) -> Row:
        return evolve(row, spends=None) if row.id == "STEP-09" else row

    assert walk(CHAIN, "step", free).counterexample is not None


def without(row_id: str) -> Callable[[Lifecycle[Any]], Lifecycle[Any]]:
    """The lifecycle without one row."""

    def thinner(lifecycle: Lifecycle[Any]) -> Lifecycle[Any]:
        rows = [row for row in lifecycle.rows if row.id != row_id]
        assert len(rows) == len(lifecycle.rows) - 1
        return Lifecycle(
            lifecycle.name,
            states=lifecycle.states,
            initial=lifecycle.initial,
            rows=rows,
            invariants=lifecycle.invariants,
        )

    return thinner


OF_A_CRASH = {
    ("step", "STEP-09", CHAIN): "A fails of a crash, although it could be begun anew",
    ("step", "STEP-10", REPEATS): "a contract was broken: TransitionRefused",
    ("step", "STEP-10", ANSWERED): "a contract was broken: TransitionRefused",
    ("failure", "FAIL-06", ANSWERED): "the order ABSTAIN of a person is lost in a crash",
    ("failure", "FAIL-07", SLOW_CRASH): "a contract was broken: TransitionRefused",
}
"""The rows that take a run up, each with a plan that needs it and the law that breaks.

`interrupt` and `withdraw` record that a process died, which nobody can refuse: together,
their rows take every such step and failure. Without the last one, the run cannot be taken up.
"""


@pytest.mark.parametrize(("machine", "row_id", "name"), sorted(OF_A_CRASH))
def test_every_row_that_takes_a_run_up_is_needed(machine: str, row_id: str, name: str) -> None:
    """Without any one row of `interrupt` or `withdraw`, a crash breaks a law."""
    seen = walk_through(name, machine, without(row_id))
    assert seen.counterexample is not None
    assert OF_A_CRASH[machine, row_id, name] in seen.counterexample.law
    assert CRASH in seen.counterexample.trace


@pytest.mark.parametrize("name", [SLOW_CRASH])
def test_only_the_order_of_a_person_outlives_a_crash(name: str) -> None:
    """Without `ordered_by_person`, what the ladder planned outlives the process (FAIL-06)."""
    seen = walk(name, "failure", drop_guard("FAIL-06", "ordered_by_person"))
    assert seen.counterexample is not None
    assert CRASH in seen.counterexample.trace


def forgets(field: str, value: Any) -> Callable[..., Step]:
    """Read steps back as a journal does that has no such column."""
    real = rows.Reader.step

    def read(reader: rows.Reader, spec: StepSpec, row: tuple[Any, ...], output: Any) -> Step:
        return evolve(real(reader, spec, row, output), **{field: value})

    return read


@pytest.mark.parametrize(
    ("field", "value", "plan"),
    [
        ("granted_in", -1, ANSWERED),
        ("acted_in", 0, CHAIN),
        ("attempt", 0, CHAIN),
        ("output", None, CHAIN),
        ("act_reported_failed", False, CHAIN),
        ("failed_in", None, CHAIN),
        ("not_before", None, JUDGED),
        ("generation", 0, CHAIN),
    ],
)
def test_what_the_journal_forgets_is_noticed(
    field: str, value: Any, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that gives a step back without one of its fields breaks a law."""
    monkeypatch.setattr(rows.Reader, "step", forgets(field, value))
    seen = plain(plan)
    assert seen.counterexample is not None
    assert "the journal does not give" in seen.counterexample.law


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [(Failure, "ordered", False), (Failure, "scope", ()), (Question, "choices", {})],
)
def test_what_the_journal_forgets_of_failures_and_questions_is_noticed(
    kind: type, field: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that forgets who ordered what, for which steps, or what is offered breaks a law."""
    real = rows.Reader.noun

    def forget(reader: rows.Reader, of: type, text: str, **columns: Any) -> Any:
        noun = real(reader, of, text, **columns)
        return evolve(noun, **{field: value}) if of is kind else noun

    monkeypatch.setattr(rows.Reader, "noun", forget)
    seen = plain(ANSWERED)
    assert seen.counterexample is not None
    assert "the journal does not give" in seen.counterexample.law


def interrupt_alone(turn: Turn, draft: Draft) -> None:
    """Take a run up as `fold.take_up` does, and ask for nothing that goes on."""
    for spec in draft.plan.steps:
        if draft.step(spec.id).state is StepState.RUNNING:
            fold.interrupt(draft, draft.step(spec.id))
    for failure_id in turn.state.planned:
        fold.withdraw(draft, draft.failure(failure_id), "the process died")


def test_what_goes_on_must_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run taken up whose recorded result nobody is asked to judge would wait for ever."""
    monkeypatch.setattr(fold, "take_up", interrupt_alone)
    seen = plain(JUDGED)
    assert seen.counterexample is not None
    assert seen.counterexample.law == "nobody is asked to Evaluate A"
    assert seen.counterexample.trace[-2:] == (CRASH, TAKEN_UP)


def test_a_deadline_must_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run taken up that nobody wakes at the deadline of its question would wait for ever."""

    def no_question(turn: Turn, draft: Draft, drive: Drive) -> None:
        if drive.resumed:
            draft.drive(turn.now)
            fold.take_up(turn, draft)
        else:
            real(turn, draft, drive)

    real = fold.fold_drive
    monkeypatch.setitem(FOLDS, Drive, no_question)
    seen = plain(ANSWERED)
    assert seen.counterexample is not None
    assert "nobody is asked to wake Q1" in seen.counterexample.law


def test_nothing_starts_before_somebody_drives(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer to a run that nobody drives must not start what nobody would perform."""

    def eager(turn: Turn) -> bool | None:
        driven_at = turn.state.driven_at
        turn.state = evolve(turn.state, driven_at=turn.now)
        try:
            return real(turn)
        finally:
            turn.state = evolve(turn.state, driven_at=driven_at)

    real = settle.start_ready
    monkeypatch.setattr(settle, "start_ready", eager)
    seen = plain(ANSWERED)
    assert seen.counterexample is not None
    assert "starts although nobody drives the run" in seen.counterexample.law


def test_what_is_asked_twice_or_for_nothing_is_noticed() -> None:
    """A tool that is called twice for one attempt acts twice; one called for none, unasked."""
    plan = Plan(goal="ask once", steps=(StepSpec(id="A", tool="t"),))
    before = new_run(plan, "run")
    after, _, commands = Core.of(registry_of(SMALL_PLANS[0])).advance(before, [Drive()], 0.0)
    twice = (*commands, CallTool("A", 1))
    other = (*commands, CallTool("A", 2))
    assert [] == list(unasked(before, [Drive()], after, commands))
    assert ["nobody is asked to CallTool A"] == list(unasked(before, [Drive()], after, ()))
    assert ["somebody is asked twice: CallTool A, CallTool A"] == list(
        unasked(before, [Drive()], after, twice)
    )
    assert ["somebody is asked to CallTool A, and nothing waits for it"] == list(
        unasked(before, [Drive()], after, other)
    )


def test_scope_must_be_recorded() -> None:
    """A recovery planned without its scope is refused on entry."""

    def unrecorded(row: Row) -> Row:
        if row.id != "FAIL-01":
            return row
        return evolve(row, update=_plan_without_scope)

    assert walk(CHAIN, "failure", unrecorded).counterexample is not None


def _plan_without_scope(failure: Failure, *, strategy: str, ordered: bool) -> dict[str, Any]:
    return {"strategy": strategy, "ordered": ordered, "plans": failure.plans + 1}


@pytest.mark.parametrize("strategy", [Abstain, Terminate])
def test_what_ends_the_run_must_hold_the_whole_plan(
    strategy: type[RecoveryHandler], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end that holds only its own step cuts off an attempt of another one."""
    monkeypatch.setattr(strategy, "scope", RecoveryHandler.scope)
    plans = {Abstain: CRITICAL, Terminate: FORK}
    assert plain(plans[strategy]).counterexample is not None


def test_skip_must_cascade(monkeypatch: pytest.MonkeyPatch) -> None:
    """A required step skipped alone leaves dependents that wait for ever."""
    monkeypatch.setattr(Skip, "scope", RecoveryHandler.scope)
    assert plain(CHAIN).counterexample is not None


def test_a_later_failure_must_supersede(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two unsettled failures of one lineage are noticed (B10)."""

    def keep(draft: Draft, step: Step, *args: Any, **facts: Any) -> None:
        earlier = draft.failure_of(step.id)
        real(draft, step, *args, **facts)
        if earlier is not None:
            draft._keep(None, evolve(earlier))

    real = fold.fail
    monkeypatch.setattr(fold, "fail", keep)
    assert plain(CHAIN).counterexample is not None


def test_an_effect_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """When every repeat is called safe, one acts twice without a word."""

    def anything_goes(row: Row) -> Row:
        return evolve(row, guards=tuple(g for g in row.guards if g is not effect_is_known))

    small = next(small for small in SMALL_PLANS if small.name == REPEATS)
    core = Core.of(registry_of(small))
    invariants = {
        state: tuple(f for f in functions if f is not effect_is_known)
        for state, functions in core.machines.step.invariants.items()
    }
    step = with_rows(core.machines.step, anything_goes, invariants)
    seen = explore(small, evolve(core, machines=evolve(core.machines, step=step)))
    assert seen.counterexample is not None
    assert "starts again unasked" in seen.counterexample.law
