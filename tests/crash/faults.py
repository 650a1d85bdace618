"""What breaks a run on purpose, so that the harness can show that it notices.

Each is called by every process of a run, before anything else (`--fault`).
"""

from __future__ import annotations

import sys
from typing import Any

from loopfsm.dag import Dag
from loopfsm.engine import resuming
from loopfsm.engine.state import state_from, state_of
from loopfsm.journals.sqlite.lease import SqliteLease
from loopfsm.lifecycles.step import effect_is_known
from loopfsm.model.loop_state import RunState
from loopfsm.model.record import Record
from loopfsm.model.step import Step, StepState


def lose_the_start_of_charge() -> None:
    """The journal of the first process says that it kept the start of `charge`, and did not."""
    real = SqliteLease.append

    def append(lease: SqliteLease, units: Any, *args: Any) -> None:
        events = [event for unit in units for event in unit.events]
        if not any((event.row, event.id) == ("STEP-02", "charge") for event in events):
            real(lease, units, *args)

    if "--resume" not in sys.argv:
        SqliteLease.append = append  # type: ignore[method-assign,assignment]  # that is the fault


def call_every_repeat_safe() -> None:
    """`effect_is_known` is taken back: whatever was interrupted is begun anew."""

    def anything_goes(step: Step) -> bool:
        return True

    effect_is_known.__code__ = anything_goes.__code__


def begin_look_up_again() -> None:
    """A run that is taken up has forgotten what became of `look_up`."""

    def forgetful(record: Record) -> RunState:
        state = state_from(record)
        forgotten = Step(spec=state.step("look_up").spec, state=StepState.READY)
        steps = [state.step(spec.id) for spec in state.plan.steps if spec.id != "look_up"]
        nouns = ([forgotten, *steps], state.failures.values(), state.questions.values())
        return state_of(state.run, state.plan, Dag.of(state.plan), *nouns, state.spent)

    resuming.state_from = forgetful  # type: ignore[attr-defined]  # that is the fault
