"""The decision: which strategy a failure gets, and why not the ones before it.

Pure and apart from the execution (S1): it reads a unit and names a strategy. What is not
negotiable stands here, not in the configuration: the last rungs are never listed, they need
no recovery left, and a person who was asked once is asked again rather than passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from loopfsm.errors import CoreBroken
from loopfsm.model.failure import (
    WHOLE_PLAN,
    Failure,
    FailureKind,
    FailureState,
    RecoveryStrategy,
)
from loopfsm.model.plan import UNCLASSIFIED, Policy, WhenExhausted
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler
from loopfsm.recovery.registry import RecoveryRegistry
from loopfsm.unit import Draft


@frozen
class PassedOver:
    """A strategy that was not taken, and why."""

    strategy: str
    why: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.why}"


@frozen
class Decision:
    """The strategy taken (None: the failure waits), its scope, and those passed over."""

    strategy: str | None
    scope: tuple[str, ...]
    passed_over: tuple[PassedOver, ...]
    ordered: bool = False

    @property
    def why(self) -> str:
        """Why this one, in one line."""
        passed = "; ".join(str(rung) for rung in self.passed_over)
        return f"{self.strategy} after {passed}" if passed else f"{self.strategy} is the first rung"


def decide(case: RecoveryCase, registry: RecoveryRegistry, unit: Draft) -> Decision:
    """Choose what the failure of `case` gets: the first rung of its ladder that holds.

    A rung whose scope overlaps a planned recovery makes the failure wait (B33); the
    strategies that end the run wait for nothing.
    """
    passed: list[PassedOver] = []
    for strategy in _rungs(case.failure, case.policy):
        handler = registry.get(strategy)
        last = strategy in _ENDS_OR_ASKS
        why, scope = _asked(handler, case, unit, last=last)
        if why:
            passed.append(PassedOver(strategy, why))
            continue
        if scope != WHOLE_PLAN and any(_is_taken(step_id, unit) for step_id in scope):
            return Decision(None, (), tuple(passed))
        ordered = case.failure.kind is FailureKind.CANCELLED
        return Decision(strategy, scope, tuple(passed), ordered)
    problem = f"nothing is left for {case.failure.id}: {'; '.join(map(str, passed))}"
    raise CoreBroken(problem)


def _is_taken(step_id: str, unit: Draft) -> bool:
    """Another recovery is going to write the step, or it runs because a person ordered it."""
    failure = unit.failure_of(step_id)
    ordered = failure is not None and failure.ordered
    under_way = failure is not None and failure.state is FailureState.RECOVERY_IN_PROGRESS
    return unit.holder_of(step_id) is not None or (ordered and under_way)


_ENDS_OR_ASKS = frozenset(
    {RecoveryStrategy.REQUEST_HUMAN, RecoveryStrategy.ABSTAIN, RecoveryStrategy.TERMINATE}
)


def _rungs(failure: Failure, policy: Policy) -> Iterator[str]:
    """Every strategy that may be considered, in order; TERMINATE always closes the list."""
    if failure.kind is FailureKind.CANCELLED:
        yield RecoveryStrategy.ABSTAIN
    elif failure.kind is not FailureKind.BROKEN:
        yield from policy.ladder.get(UNCLASSIFIED, ())
        yield from _last_rungs(failure, policy.when_exhausted)
    yield RecoveryStrategy.TERMINATE


def _last_rungs(failure: Failure, when_exhausted: WhenExhausted) -> Iterator[str]:
    if when_exhausted is WhenExhausted.ASK or failure.ordered:
        yield RecoveryStrategy.REQUEST_HUMAN
    elif when_exhausted is WhenExhausted.ABSTAIN:
        yield RecoveryStrategy.ABSTAIN


def _asked(
    handler: RecoveryHandler | None, case: RecoveryCase, unit: Draft, *, last: bool
) -> tuple[str, tuple[str, ...]]:
    """Why a rung is passed over (empty: it can be taken), and what it would write.

    A strategy that raises when it is asked is passed over like one that says no (D8).
    """
    try:
        why = _refusal(handler, case, unit, last=last)
        if why or handler is None:
            return why, ()
        scope = handler.scope(case)
    except Exception as error:  # noqa: BLE001  # a strategy of a user's may raise anything
        return f"it raised {type(error).__name__} when it was asked: {error}", ()
    return ("", scope) if scope else ("it says that it would write nothing", ())


def _refusal(
    handler: RecoveryHandler | None, case: RecoveryCase, unit: Draft, *, last: bool
) -> str:
    """Why a rung is passed over; empty when it can be taken."""
    if handler is None:
        return "no handler is registered"
    if last and handler.strategy in case.failure.failed_strategies:
        return "its handler failed for this failure"
    recoveries = unit.recoveries_left(case.failure.subject)
    machine = unit.machines.failure
    plan = machine.explain(case.failure, "plan", strategy=handler.strategy, recoveries=recoveries)
    return plan.why_not or handler.refusal(case, unit)
