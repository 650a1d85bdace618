"""What a person can order that is none of the eleven strategies: skip a step, raise a budget.

They add no rows: `skip` belongs to the step machine, a raised budget is the answer itself.
"""

from __future__ import annotations

from typing import ClassVar

from loopfsm.model.loop_state import LoopState, RunView
from loopfsm.model.step import FINAL, Step
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
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


def falling_with(step: Step, state: RunView) -> tuple[str, ...]:
    """The step and the unfinished steps that cannot run without it, the step first.

    Everything unfinished below a required step falls; below an optional one only what uses
    its output, and so on.
    """
    fallen, seen = [step.id], {step.id}
    for step_id in fallen:
        gone = state.step(step_id).spec
        for name in state.dag.dependents(step_id):
            dependent = state.step(name)
            needs_it = not gone.optional or step_id in dependent.spec.used_outputs
            if needs_it and dependent.state not in FINAL and name not in seen:
                fallen.append(name)
                seen.add(name)
    return tuple(fallen)
