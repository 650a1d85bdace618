"""The proof: every small plan is walked completely, and no law is broken."""

from __future__ import annotations

import pytest
from attrs import evolve

from loopfsm.engine.core import Core
from loopfsm.lifecycle import Lifecycle
from loopfsm.model.step import Step
from loopfsm.recovery.registry import MACHINES
from loopfsm.review.explore import explore
from loopfsm.review.plans import SMALL_PLANS, SmallPlan, registry_of
from loopfsm.review.prove import report, rows_never_taken


@pytest.mark.slow  # thousands of states
def test_every_small_plan_is_proved() -> None:
    """Complete, clean, and every row of every machine is taken on some way."""
    explorations = [explore(small) for small in SMALL_PLANS]
    assert [] == [str(seen.counterexample) for seen in explorations if seen.counterexample]
    assert all(seen.complete for seen in explorations)
    assert () == rows_never_taken(explorations)
    assert {"ABSTAINED", "COMPLETED", "FAILED", "PARTIALLY_COMPLETED"} == {
        end for seen in explorations for end in seen.ends
    }


def test_the_shapes_that_matter_are_among_the_plans() -> None:
    """Chain, fork, join, diamond, an optional step, a repeat that is not safe, a run budget."""
    names = " ".join(small.name for small in SMALL_PLANS)
    for shape in ("chain", "fork", "join", "diamond", "optional", "not idempotent", "run budget"):
        assert shape in names
    assert len({small.name for small in SMALL_PLANS}) == len(SMALL_PLANS) >= 6


@pytest.mark.slow  # more than a thousand states
def test_two_crashes_befall_three_plans() -> None:
    """Two crashes: in a chain, with a step that is not idempotent, around an answered question."""
    twice = {small.name for small in SMALL_PLANS if small.crashes == 2}
    assert {
        "chain, two crashes",
        "not idempotent, with and without max_retries",
        "answered while a step is under way, two crashes",
    } <= twice
    seen = explore(next(small for small in SMALL_PLANS if small.name.startswith("answered")))
    assert seen.clean
    assert {"STEP-09", "STEP-10", "FAIL-06", "FAIL-07", "QUES-01"} <= seen.rows


def test_a_partial_walk_is_not_called_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time is over before every state was seen, that is what is said."""
    seen = explore(SMALL_PLANS[0], limit_s=0)
    assert (seen.complete, seen.clean, seen.counterexample) == (False, False, None)
    monkeypatch.setattr("loopfsm.review.prove.explore", lambda small, limit_s: seen)
    text, clean = report(SMALL_PLANS[:1])
    assert not clean
    assert "PARTIAL" in text


def test_a_counterexample_is_shown_with_its_shortest_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadlock is told as the inputs that lead to it, one a line."""
    small = SMALL_PLANS[0]
    broken = explore(small, without_row(small, "STEP-01"))
    assert broken.counterexample is not None
    assert 1 <= len(broken.counterexample.trace) <= 3
    monkeypatch.setattr("loopfsm.review.prove.explore", lambda small, limit_s: broken)
    text, clean = report([small])
    assert not clean
    assert "  1. the run is driven" in text


def without_row(small: SmallPlan, row_id: str) -> Core:
    core = Core.of(registry_of(small))
    step = core.machines.step
    rows = [row for row in step.rows if row.id != row_id]
    thinner: Lifecycle[Step] = Lifecycle(
        "step",
        states=step.states,
        initial=step.initial,
        rows=rows,
        invariants=step.invariants,
    )
    return evolve(core, machines=evolve(core.machines, step=thinner))


def test_the_explorer_drives_the_machines_that_run() -> None:
    """What is proved are the composed rows, not a copy of them."""
    core = Core.of(registry_of(SMALL_PLANS[0]))
    assert MACHINES["step"].rows == core.machines.step.rows
