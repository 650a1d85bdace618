"""What a recovery strategy is, and what it may see and do.

The decision is the ladder's, the execution a handler's, the validation the rows', the state
update the unit's (S1). A handler names the rows it adds to the step machine; whether it can
be taken is what the guards of its row say; its postconditions are the ensures of its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from loopfsm.lifecycle import Row
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import LoopState, RunView
from loopfsm.model.plan import Policy
from loopfsm.model.step import FINAL, Step, StepState
from loopfsm.unit import Draft


@frozen(kw_only=True)
class RecoveryCase:
    """What is to be recovered. `step` is None when the failure concerns the run."""

    failure: Failure
    step: Step | None
    state: RunView
    policy: Policy
    now: float
    granted: bool = False
    """A person ordered this recovery: no limit applies to it."""

    @property
    def failed_step(self) -> Step:
        """The step of a failure that concerns one."""
        if self.step is None:
            raise TypeError(f"{self.failure.id} concerns the run, not a step")
        return self.step


@frozen(kw_only=True)
class RecoveryResult:
    """What a handler did (S20). `new_state` is where the loop goes next."""

    success: bool
    new_state: LoopState | None = None
    step_status: StepState | None = None
    message: str = ""
    evidence: Mapping[str, Any] = field(factory=dict)


class RecoveryHandler(ABC):
    """One strategy. Subclass it, give it rows, and register it."""

    strategy: ClassVar[str]
    """Its name, as ladders and the trace have it."""
    rows: ClassVar[tuple[Row, ...]] = ()
    """The rows it adds to the step machine."""
    trigger: ClassVar[str]
    """The trigger whose guards decide whether the strategy can be taken."""
    prepares: ClassVar[bool] = False
    """Whether `prepare` must be awaited before `apply`."""
    begins: ClassVar[bool] = True
    """Whether applying it is a recovery in progress; False: `apply` moves the failure itself."""

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        """The facts that the guards of its row read."""
        return {}

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        """The steps that `apply` will write. Recorded when the recovery is planned."""
        return (case.failed_step.id,)

    def refusal(self, case: RecoveryCase, unit: Draft) -> str:
        """Why the strategy cannot be taken, in one line; empty when it can."""
        if case.step is None:
            return "the failure concerns the run, not a step"
        return unit.machines.step.explain(case.step, self.trigger, **self.facts(case)).why_not

    async def prepare(self, case: RecoveryCase) -> object:
        """Do what has to be awaited, outside every unit; only called when `prepares`."""
        return None

    @abstractmethod
    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        """Change the run through `unit`. An exception, or success=False, undoes the unit."""

    def validate_postconditions(self, unit: Draft) -> bool:
        """Whether the ensures of its rows hold, for every one that the unit fired (S22)."""
        return all(
            machine.ensures_hold(fired) for machine, fired in unit.fired if fired.row in self.rows
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
