"""A failure: what went wrong with one step (or with the run), and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any

from attrs import field, frozen


class FailureState(Enum):
    """Where a failure stands."""

    UNHANDLED = "UNHANDLED"
    RECOVERY_PLANNED = "RECOVERY_PLANNED"
    RECOVERY_IN_PROGRESS = "RECOVERY_IN_PROGRESS"
    RECOVERY_FAILED = "RECOVERY_FAILED"
    ESCALATED = "ESCALATED"
    RECOVERED = "RECOVERED"
    SUPERSEDED = "SUPERSEDED"
    TERMINAL = "TERMINAL"


SETTLED = (FailureState.RECOVERED, FailureState.SUPERSEDED, FailureState.TERMINAL)
UNSETTLED = tuple(state for state in FailureState if state not in SETTLED)

UNDECIDED = (FailureState.UNHANDLED, FailureState.RECOVERY_FAILED)
"""The states in which the ladder has to decide."""

OPEN = (*UNDECIDED, FailureState.RECOVERY_PLANNED, FailureState.ESCALATED)
"""The states that go with a failed or waiting step: exactly one such failure each."""


class FailureKind(Enum):
    """What went wrong."""

    REPORTED = "reported"
    """The tool ran and said that it failed, or raised."""
    NOT_EXECUTED = "not_executed"
    """The call was never made."""
    TIMED_OUT = "timed_out"
    """No result in time: the outcome is unknown."""
    REJECTED = "rejected"
    """The evaluator refused the result."""
    NOT_VERIFIED = "not_verified"
    """The verifier did not find in the world what the result claims."""
    INTERRUPTED = "interrupted"
    """The driving process died during the attempt."""
    BUDGET_SPENT = "budget_spent"
    """The run has used up one of its budgets."""
    CANCELLED = "cancelled"
    """A person asked the run to stop."""
    BROKEN = "broken"
    """A contract of the core did not hold."""


class RecoveryStrategy(StrEnum):
    """The eleven strategies of the Recovery Execution Specification, section 3."""

    RETRY = "RETRY"
    RETRY_WITH_BACKOFF = "RETRY_WITH_BACKOFF"
    REPLAN_STEP = "REPLAN_STEP"
    REPLAN_REMAINING_TASK = "REPLAN_REMAINING_TASK"
    ROLLBACK = "ROLLBACK"
    CHANGE_TOOL = "CHANGE_TOOL"
    CHANGE_MODEL = "CHANGE_MODEL"
    REDUCE_SCOPE = "REDUCE_SCOPE"
    REQUEST_HUMAN = "REQUEST_HUMAN"
    ABSTAIN = "ABSTAIN"
    TERMINATE = "TERMINATE"


LAST_RUNGS = (RecoveryStrategy.REQUEST_HUMAN, RecoveryStrategy.ABSTAIN, RecoveryStrategy.TERMINATE)
"""What remains when no recovery is left: they spend nothing and no ladder lists them."""

RUN = "run"
"""The subject of a failure or question that concerns the run, not a step."""

WHOLE_PLAN = ("*",)
"""The scope of a recovery that ends the run: every step."""


@frozen(kw_only=True)
class Failure:
    """One failure. `strategy`, `scope` and `ordered` describe the recovery planned last."""

    number: int
    """Counts the failures of the run from 1: the order of occurrence."""
    subject: str
    """The id of the step, or `RUN`."""
    kind: FailureKind
    message: str
    occurred_at: float
    attempt: int = 0
    """The attempt of the step that failed."""
    evidence: Mapping[str, Any] = field(factory=dict)
    state: FailureState = FailureState.UNHANDLED
    strategy: str | None = None
    scope: tuple[str, ...] = ()
    """The steps the planned recovery will write, recorded when it was planned."""
    plans: int = 0
    """How often a recovery was planned."""
    ordered: bool = False
    """A person ordered this recovery: it is granted, and no limit applies to it."""
    failed_strategies: tuple[str, ...] = ()
    """Strategies whose handler failed for this failure, in order."""
    reason: str = ""
    """Why the failure stands where it stands."""

    @property
    def id(self) -> str:
        return f"F{self.number}"
