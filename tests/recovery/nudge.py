"""A twelfth strategy, as a user of the library would write it: row, guard, ensure, limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from loopfsm.lifecycle import Row
from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import FAILED_STATES, NO_EXECUTION, Step, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.unit import Draft


def nudges_left(step: Step, *, max_nudges: int) -> bool:
    """The step was nudged less often than it may be."""
    return int(step.metadata.get("nudges", 0)) < max_nudges


def count_nudge(step: Step) -> Mapping[str, Any]:
    nudges = step.metadata.get("nudges", 0) + 1
    return {**NO_EXECUTION, "metadata": {**step.metadata, "nudges": nudges}}


def nudge_is_counted(before: Step, after: Step) -> bool:
    """Exactly one nudge was added."""
    return bool(after.metadata["nudges"] == before.metadata.get("nudges", 0) + 1)


NUDGE_ROW = Row(
    id="STEP-90",
    trigger="nudge",
    source=FAILED_STATES,
    target=StepState.READY,
    guards=(nudges_left,),
    update=count_nudge,
    ensures=(nudge_is_counted,),
)


class Nudge(RecoveryHandler):
    """Run the step again, once in all."""

    strategy: ClassVar[str] = "NUDGE"
    rows = (NUDGE_ROW,)
    trigger = "nudge"

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        return {"max_nudges": 1, "unmet": 0}

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        step = unit.fire(case.failed_step, "nudge", **self.facts(case))
        return RecoveryResult(
            success=True, new_state=LoopState.ITERATION_COMPLETE, step_status=step.state
        )
