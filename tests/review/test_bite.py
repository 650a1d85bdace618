"""Each rule of the real tables, taken back alone, is noticed by the explorer.

A rule whose loss nobody notices is either redundant, and then it has no place in the tables,
or not covered, and then the proof proves less than it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import evolve

from loopfsm.engine import fold
from loopfsm.engine.core import Core
from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.lifecycles import step as step_rules
from loopfsm.lifecycles.failure import plan_recovery
from loopfsm.model.failure import FailureState
from loopfsm.model.step import NOT_UNDER_WAY, Step, StepState
from loopfsm.recovery.orders import Skip
from loopfsm.recovery.strategies.abstain import Abstain
from loopfsm.recovery.strategies.terminate import Terminate
from loopfsm.review.explore import Counterexample, explore
from loopfsm.review.plans import SMALL_PLANS, registry_of

Patch = Callable[[Row], Row | None]


def with_rows(lifecycle: Lifecycle[Any], patch: Patch) -> Lifecycle[Any]:
    """The lifecycle with each row as `patch` returns it; None takes it away."""
    rows = [patched for row in lifecycle.rows if (patched := patch(row)) is not None]
    return Lifecycle(
        lifecycle.name,
        states=lifecycle.states,
        initial=lifecycle.initial,
        rows=rows,
        invariants=lifecycle.invariants,
    )


def find(machine: str, patch: Patch | None = None) -> Counterexample | None:
    """The first counterexample that some small plan gives when one machine is patched."""
    for small in SMALL_PLANS:
        core = Core.of(registry_of(small))
        if patch is not None:
            patched = with_rows(getattr(core.machines, machine), patch)
            core = evolve(core, machines=evolve(core.machines, **{machine: patched}))
        found = explore(small, core)
        if found.counterexample is not None:
            return found.counterexample
    return None


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


GUARDS = {
    ("step", row.id, guard.__name__)
    for small in SMALL_PLANS[:1]
    for row in registry_of(small).machines.step.rows
    for guard in row.guards
} | {
    (name, row.id, guard.__name__)
    for name in ("failure", "question", "loop")
    for row in getattr(registry_of(SMALL_PLANS[0]).machines, name).rows
    for guard in row.guards
}


@pytest.mark.slow  # every small plan may have to be walked for one guard
@pytest.mark.parametrize(("machine", "row_id", "guard"), sorted(GUARDS))
def test_every_guard_is_needed(machine: str, row_id: str, guard: str) -> None:
    """Without any one guard of any one row, some small plan breaks a law."""
    assert find(machine, drop_guard(row_id, guard)) is not None
