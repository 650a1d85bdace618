"""TERMINATE: stop as failed, and keep the evidence (specification 3.11)."""

from __future__ import annotations

from loopfsm.lifecycle import Row
from loopfsm.lifecycles.step import no_failure_is_left, run_is_ending
from loopfsm.model.failure import WHOLE_PLAN, RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import FAILED_STATES, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.unit import Draft

ROW = Row(
    id="STEP-24",
    trigger="terminate",
    source=FAILED_STATES,
    target=StepState.FAILED,
    ensures_run=(no_failure_is_left, run_is_ending),
)


class Terminate(RecoveryHandler):
    """End the run as failed. Always possible."""

    strategy = RecoveryStrategy.TERMINATE
    rows = (ROW,)
    trigger = "terminate"

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        return WHOLE_PLAN

    def refusal(self, case: RecoveryCase, unit: Draft) -> str:
        return "" if case.step is None else super().refusal(case, unit)

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        why = f"failed: {case.failure.message}"
        unit.end(LoopState.FAILED, why)
        status = unit.fire(case.step, self.trigger).state if case.step is not None else None
        return RecoveryResult(
            success=True, new_state=LoopState.FAILED, step_status=status, message=why
        )
