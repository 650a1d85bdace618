"""RETRY: run the failed step again, at once (specification 3.1).

The row also serves RETRY_WITH_BACKOFF: a retry is one transition, with or without a delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Row
from loopfsm.lifecycles.step import effect_is_known, execution_fields_are_none
from loopfsm.model.failure import RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import FAILED_STATES, NO_EXECUTION, Step, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.unit import Draft

# Guards


def retries_left_or_granted(step: Step, *, max_retries: int, granted: bool) -> bool:
    """The step was re-executed less often than it may be, or a person ordered this one."""
    return granted or step.retry_count < max_retries


def delay_fits_the_time_left(step: Step, *, delay: float, seconds_left: float | None) -> bool:
    """The wait ends before the run's time is spent (B2)."""
    return delay == 0 or seconds_left is None or delay < seconds_left


# Update


def order_retry(step: Step, *, now: float, delay: float) -> Mapping[str, Any]:
    """Clear the attempt, count the retry, and say from when on it may start."""
    return {
        **NO_EXECUTION,
        "retry_count": step.retry_count + 1,
        "not_before": now + delay,
        "metadata": {**step.metadata, "backoff_delay": delay},
    }


# What must be true on entry


def retry_is_counted(before: Step, after: Step) -> bool:
    """Exactly one retry was added (S5)."""
    return after.retry_count == before.retry_count + 1


def attempt_is_cleared(before: Step, after: Step) -> bool:
    """Nothing of the failed attempt is left (S5)."""
    return execution_fields_are_none(after)


def delay_is_on_record(before: Step, after: Step, *, now: float, delay: float) -> bool:
    """When the step may start, and how long that is from now, can be read off it (S7)."""
    return after.not_before == now + delay and after.metadata["backoff_delay"] == delay


RETRY_ROW = Row(
    id="STEP-20",
    trigger="retry",
    source=FAILED_STATES,
    target=StepState.RETRY_PENDING,
    guards=(retries_left_or_granted, effect_is_known, delay_fits_the_time_left),
    update=order_retry,
    ensures=(retry_is_counted, attempt_is_cleared, delay_is_on_record),
)


class Retry(RecoveryHandler):
    """Re-execute the failed step with the same parameters."""

    strategy = RecoveryStrategy.RETRY
    rows = (RETRY_ROW,)
    trigger = "retry"

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        return {
            "max_retries": case.policy.retries_of(case.failed_step.spec),
            "granted": case.granted,
            "now": case.now,
            "delay": 0.0,
            "seconds_left": case.state.left_of("seconds"),
        }

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        step = unit.fire(case.failed_step, "retry", **self.facts(case))
        step = unit.fire(step, "due", now=case.now, unmet=unit.unmet(step.id))
        return RecoveryResult(
            success=True,
            new_state=LoopState.ITERATION_COMPLETE,
            step_status=step.state,
            message=f"{step.id} runs again",
        )
