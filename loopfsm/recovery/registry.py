"""Which strategies there are, and the one step machine that they make together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from loopfsm.errors import LifecycleError
from loopfsm.lifecycle import Lifecycle
from loopfsm.lifecycles.failure import FAILURE
from loopfsm.lifecycles.loop import LOOP
from loopfsm.lifecycles.question import QUESTION
from loopfsm.lifecycles.step import STEP
from loopfsm.machines import Machines
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.orders import RaiseBudget, Skip
from loopfsm.recovery.strategies.abstain import Abstain
from loopfsm.recovery.strategies.request_human import RequestHuman
from loopfsm.recovery.strategies.retry import Retry
from loopfsm.recovery.strategies.retry_with_backoff import RetryWithBackoff
from loopfsm.recovery.strategies.terminate import Terminate
from loopfsm.unit import Draft


class RecoveryRegistry:
    """Strategies by name. `register` adds one, with its rows; `execute` runs one."""

    def __init__(self) -> None:
        self._handlers: dict[str, RecoveryHandler] = {}
        self._machines = Machines(step=STEP, failure=FAILURE, question=QUESTION, loop=LOOP)

    @property
    def machines(self) -> Machines:
        """The lifecycles, the step's with the rows of every registered strategy."""
        return self._machines

    @property
    def strategies(self) -> tuple[str, ...]:
        """The names of the registered strategies, in order."""
        return tuple(self._handlers)

    def register(self, handler: RecoveryHandler) -> None:
        """Add a strategy and its rows.

        Raises:
            LifecycleError: its name is taken, or one of its rows cannot be in the step machine.
        """
        if handler.strategy in self._handlers:
            raise LifecycleError("step", f"a strategy named {handler.strategy!r} is registered")
        step = self._machines.step.extended(handler.rows)
        self._machines = attrs.evolve(self._machines, step=step)
        self._handlers[handler.strategy] = handler

    def get(self, strategy: str) -> RecoveryHandler | None:
        """The handler of a strategy, or None."""
        return self._handlers.get(strategy)

    def execute(
        self, strategy: str, case: RecoveryCase, prepared: object, unit: Draft
    ) -> RecoveryResult:
        """Run a strategy inside a unit and check its postconditions (S21, S22, B30).

        An unregistered strategy is a failed result. An exception of the handler passes
        through: the caller undoes the unit.
        """
        handler = self.get(strategy)
        if handler is None:
            known = ", ".join(self._handlers)
            message = f"no handler for strategy {strategy}; registered: {known}"
            return RecoveryResult(success=False, message=message)
        result = handler.apply(case, prepared, unit)
        if not result.success:
            return result
        if not handler.validate_postconditions(unit):
            return attrs.evolve(result, success=False, message="recovery postconditions not met")
        stands = unit.state_of(case.failure.subject)
        if result.step_status is not None and result.step_status is not stands:
            told, found = result.step_status.name, getattr(stands, "name", None)
            message = f"{strategy} reports {told}, but the step is {found}"
            return attrs.evolve(result, success=False, message=message)
        return result


def default_registry() -> RecoveryRegistry:
    """Every strategy of the package, in the order of the specification."""
    registry = RecoveryRegistry()
    for handler in (Retry(), RetryWithBackoff(), RequestHuman(), Abstain(), Terminate()):
        registry.register(handler)
    for order in (Skip(), RaiseBudget()):
        registry.register(order)
    return registry


MACHINES: Mapping[str, Lifecycle[Any]] = default_registry().machines.by_name()
"""The machines that run, are drawn, are specified and are proved."""
