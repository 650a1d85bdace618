"""RETRY_WITH_BACKOFF: run the failed step again after a delay that doubles (specification 3.2).

Nothing waits here: the step says from when on it may start, the driver's clock says when
that is (B2). The `retry` row itself stands in `retry.py`; `due`, which ends the wait, here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Row
from loopfsm.model.failure import RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Policy
from loopfsm.model.step import Step, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.unit import Draft

# Guards


def delay_elapsed(step: Step, *, now: float) -> bool:
    """The moment before which the step may not start has come."""
    return step.not_before is not None and now >= step.not_before


# Update


def clear_delay(step: Step) -> Mapping[str, Any]:
    """The wait is over; how long it was stays in the metadata."""
    return {"not_before": None}


# What must be true on entry


def nothing_holds_it_back(before: Step, after: Step) -> bool:
    """The step may start as soon as there is room."""
    return after.not_before is None


DUE_ROW = Row(
    id="STEP-21",
    trigger="due",
    source=(StepState.RETRY_PENDING,),
    target=StepState.READY,
    guards=(delay_elapsed,),
    update=clear_delay,
    ensures=(nothing_holds_it_back,),
)


def backoff_delay(policy: Policy, retry_count: int) -> float:
    """Seconds to wait: base * 2 ** (retries so far), at most the cap; no jitter (S7, B3)."""
    base, cap = float(policy.backoff_base_s), float(policy.backoff_cap_s)
    if base == 0:
        return 0.0
    if retry_count > 1000:  # 2.0 ** 1024 overflows; the cap is long reached
        return cap
    return min(cap, base * 2.0**retry_count)


class RetryWithBackoff(RecoveryHandler):
    """Re-execute the failed step after a growing delay."""

    strategy = RecoveryStrategy.RETRY_WITH_BACKOFF
    rows = (DUE_ROW,)
    trigger = "retry"

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        step = case.failed_step
        return {
            "max_retries": case.policy.retries_of(step.spec),
            "granted": case.granted,
            "now": case.now,
            "delay": backoff_delay(case.policy, step.retry_count),
            "seconds_left": case.state.left_of("seconds"),
        }

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        facts = self.facts(case)
        step = unit.fire(case.failed_step, "retry", **facts)
        return RecoveryResult(
            success=True,
            new_state=LoopState.ITERATION_COMPLETE,
            step_status=step.state,
            message=f"{step.id} runs again in {facts['delay']:g} s",
            evidence={"backoff_delay": facts["delay"]},
        )
