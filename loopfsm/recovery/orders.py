"""What a person can order that is none of the eleven strategies: skip a step, raise a budget.

They add no rows: `skip` belongs to the step machine, a raised budget is the answer itself.
"""

from __future__ import annotations

from typing import ClassVar

from loopfsm.model.loop_state import LoopState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult, falling_with
from loopfsm.unit import Draft


class Skip(RecoveryHandler):
    """Go on without the step, and without every unfinished step that falls with it."""

    strategy: ClassVar[str] = "SKIP"
    trigger = "skip"

    def facts(self, case: RecoveryCase) -> dict[str, bool]:
        return {"granted": case.granted}

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        return falling_with(case.failed_step, case.state)

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        fallen = self.scope(case)
        for step_id in fallen:
            unit.leave_out(step_id)
            unit.fire(unit.step(step_id), "skip", **self.facts(case))
        return RecoveryResult(
            success=True,
            new_state=LoopState.REPLANNING,
            step_status=unit.step(fallen[0]).state,
            message=f"skipped {', '.join(fallen)}",
        )


class RaiseBudget(RecoveryHandler):
    """Go on with the budget that the answer raised; the answer itself holds the number."""

    strategy: ClassVar[str] = "RAISE_BUDGET"
    trigger = "start"

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        return (case.failure.subject,)

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        return RecoveryResult(
            success=True, new_state=LoopState.ITERATION_COMPLETE, message="the budget was raised"
        )
