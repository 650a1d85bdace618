"""One transition: guarded and checked by our kernel, against a bare trigger of `transitions`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from transitions import Machine

from benchmarks.figures import Figure, medians, repeated
from benchmarks.plans import chain
from loopfsm.engine.core import Core
from loopfsm.engine.inputs import Drive, Park
from loopfsm.engine.state import new_run
from loopfsm.lifecycle import Lifecycle
from loopfsm.machines import Machines
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import Step, StepState
from loopfsm.recovery.registry import MACHINES, default_registry
from loopfsm.unit import Draft

SUBJECT = "transition"
TARGET = 4.0
TIMES = 5000
"""Transitions per round."""

FACTS: dict[str, Any] = {"held_by": None, "spent_budget": None, "now": 1.0}


class Bare:
    """What a bare trigger moves."""

    __slots__ = ("state",)

    def __init__(self, state: StepState) -> None:
        self.state = state


def bare_machine(lifecycle: Lifecycle[Any]) -> Machine:
    """The machine of a lifecycle with all of its rows, and no callback in any of them."""
    machine = Machine(
        model=None,
        states=lifecycle.states,
        initial=lifecycle.initial,
        auto_transitions=False,
        send_event=True,
        queued=False,
    )
    for row in lifecycle.rows:
        for source in row.source:
            machine.add_transition(row.trigger, source, row.target)
    return machine


def ready_run(machines: Machines) -> tuple[RunState, Step]:
    """A run whose first step is READY, and that step."""
    core = Core(default_registry(), machines)
    parked = core.advance(new_run(chain(3), "run"), [Drive(), Park()], 1.0).state
    return parked, parked.step("s0")


def measure(*, quick: bool) -> Iterator[Figure]:
    """The figures of `start`, with its real guards, update, ensures and facts."""
    rounds, times = (2, 50) if quick else (9, TIMES)
    lifecycle = MACHINES["step"]
    start = bare_machine(lifecycle).events["start"]
    machines = default_registry().machines
    state, step = ready_run(machines)

    def bare() -> None:
        start.trigger(Bare(StepState.READY))

    def checked() -> None:
        lifecycle.transition(step, "start", FACTS)

    def asked() -> None:
        lifecycle.may(step, "start", **FACTS)

    def as_unit() -> None:
        draft = Draft(state, machines, 1.0)
        draft.fire(step, "start", **FACTS)
        draft.finish("start")

    works = {"bare": bare, "checked": checked, "asked": asked, "unit": as_unit}
    for work in works.values():
        work()  # machines are built on first use
    took = medians(
        {name: repeated(work, times) for name, work in works.items()}, rounds, collecting=False
    )
    ratio = {name: seconds / took["bare"] for name, seconds in took.items()}
    yield Figure(SUBJECT, "bare trigger", took["bare"] * 1e6, "us")
    yield Figure(SUBJECT, "start, guarded and checked", took["checked"] * 1e6, "us")
    yield Figure(SUBJECT, "  times a bare trigger", ratio["checked"], "x", TARGET)
    yield Figure(SUBJECT, "start, guards only (may)", took["asked"] * 1e6, "us")
    yield Figure(SUBJECT, "start, as a unit of its own", took["unit"] * 1e6, "us")
    yield Figure(SUBJECT, "  times a bare trigger", ratio["unit"], "x")
