"""ABSTAIN: stop on purpose, keep what is verified, claim nothing more (specification 3.10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Row
from loopfsm.lifecycles.step import no_failure_is_left, run_is_ending
from loopfsm.model.failure import RUN, WHOLE_PLAN, RecoveryStrategy
from loopfsm.model.loop_state import LoopState, RunView
from loopfsm.model.step import FAILED_STATES, Step, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.unit import Draft

# Guards


def abstention_allowed_or_granted(
    step: Step, *, may_abstain: bool, critical_failed: bool, granted: bool
) -> bool:
    """The policy allows to abstain and nothing critical failed, or a person ordered it."""
    return granted or (may_abstain and not critical_failed)


def critical_step_failed(state: RunView) -> bool:
    """Whether a step that the author marked critical stands failed or is asked about (S17)."""
    stands_failed = (*FAILED_STATES, StepState.WAITING_FOR_HUMAN)
    steps = (state.step(subject) for subject in state.unsettled_subjects() if subject != RUN)
    return any(step.spec.critical and step.state in stands_failed for step in steps)


ROW = Row(
    id="STEP-23",
    trigger="abstain",
    source=FAILED_STATES,
    target=StepState.ABSTAINED,
    guards=(abstention_allowed_or_granted,),
    ensures_run=(no_failure_is_left, run_is_ending),
)


class Abstain(RecoveryHandler):
    """End the run without completing it, by choice."""

    strategy = RecoveryStrategy.ABSTAIN
    rows = (ROW,)
    trigger = "abstain"

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        return {
            "may_abstain": case.policy.may_abstain,
            "critical_failed": critical_step_failed(case.state),
            "granted": case.granted,
        }

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        return WHOLE_PLAN

    def refusal(self, case: RecoveryCase, unit: Draft) -> str:
        if case.step is not None:
            return super().refusal(case, unit)
        facts = self.facts(case)
        allowed = case.granted or (facts["may_abstain"] and not facts["critical_failed"])
        return "" if allowed else "the policy does not allow to abstain, or a critical step failed"

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        why = f"abstained: {case.failure.message}"
        unit.end(LoopState.ABSTAINED, why)
        status = None
        if case.step is not None:
            status = unit.fire(case.step, self.trigger, **self.facts(case)).state
        return RecoveryResult(
            success=True, new_state=LoopState.ABSTAINED, step_status=status, message=why
        )
