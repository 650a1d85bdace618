"""The small plans that the explorer walks: each shape, each budget at its smallest.

What holds for a step holds for every step, and what two steps can do to each other they do
here; the ranking argument for any number of steps rests on the rows that spend.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from loopfsm.lifecycle import Row
from loopfsm.lifecycles.step import effect_is_known, execution_fields_are_none
from loopfsm.model.failure import RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import UNCLASSIFIED, Budget, Plan, Policy, WhenExhausted
from loopfsm.model.step import FAILED_STATES, NO_EXECUTION, Output, Step, StepSpec, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.orders import Skip
from loopfsm.recovery.registry import RecoveryRegistry, default_registry
from loopfsm.unit import Draft

RETRY, BACKOFF = RecoveryStrategy.RETRY, RecoveryStrategy.RETRY_WITH_BACKOFF


@frozen(kw_only=True)
class SmallPlan:
    """A plan to explore, and what may happen in its world beside results and answers."""

    name: str
    plan: Plan
    outcomes: tuple[str, ...] = ("ok", "reported")
    """How an attempt may end; see `moves.OUTCOMES`."""
    evaluated: bool = False
    """An awaited evaluator judges every result."""
    verified: bool = False
    """An awaited verifier looks at every passed result."""
    pairs: bool = False
    """Two results may arrive in one call."""
    crashes: int = 0
    """How often the driving process may die."""
    cancelled: bool = False
    """A person may cancel the run."""
    slow: bool = False
    """The strategy `Reconsider` is registered."""
    leaves_out: bool = False
    """The strategy `LeaveOut` is registered."""


def reconsidered(step: Step) -> dict[str, object]:
    """Clear the attempt and wait for the dependencies again."""
    return {**NO_EXECUTION}


def attempt_is_cleared(before: Step, after: Step) -> bool:
    """Nothing of the failed attempt is left."""
    return execution_fields_are_none(after)


class Reconsider(RecoveryHandler):
    """A strategy of a user's, whose preparation takes time, may fail, and holds what is below.

    No strategy of the package is prepared yet; a planner or a snapshot will be. What is
    proved with it is what every such strategy is promised.
    """

    strategy: ClassVar[str] = "RECONSIDER"
    trigger = "reconsider"
    prepares = True
    rows = (
        Row(
            id="STEP-90",
            trigger="reconsider",
            source=FAILED_STATES,
            target=StepState.READY,
            guards=(effect_is_known,),
            update=reconsidered,
            ensures=(attempt_is_cleared,),
        ),
    )

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        others = sorted(
            step_id for step_id in case.state.dag.downstream(case.failed_step.spec.needs)
        )
        return tuple(dict.fromkeys((case.failed_step.id, *others)))

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        step = unit.fire(case.failed_step, self.trigger, unmet=unit.unmet(case.failed_step.id))
        return RecoveryResult(
            success=True, new_state=LoopState.ITERATION_COMPLETE, step_status=step.state
        )


class LeaveOut(Skip):
    """A strategy of a user's that skips a failed step, if the author marked it optional."""

    strategy: ClassVar[str] = "LEAVE_OUT"


def registry_of(small: SmallPlan) -> RecoveryRegistry:
    """The strategies that a small plan is explored with."""
    registry = default_registry()
    if small.slow:
        registry.register(Reconsider())
    if small.leaves_out:
        registry.register(LeaveOut())
    return registry


def _step(step_id: str, *needs: str, **words: Any) -> StepSpec:
    return StepSpec(id=step_id, tool="t", needs=needs, **{"idempotent": True, **words})


def _plan(*steps: StepSpec, **limits: Any) -> Plan:
    """A plan with every budget at 1."""
    smallest = {"recoveries": 1, "max_retries": 1, "ladder": {UNCLASSIFIED: (RETRY,)}}
    return Plan(goal="explore", steps=steps, policy=Policy(**{**smallest, **limits}))


ABSTAIN, FAIL = WhenExhausted.ABSTAIN, WhenExhausted.FAIL
A, B, C, D = _step("A"), _step("B", "A"), _step("C", "A"), _step("D", "B", "C")
LONE_B = _step("B")

SMALL_PLANS = (
    SmallPlan(name="chain, two crashes", plan=_plan(A, B), crashes=2),
    SmallPlan(
        name="chain, evaluated and verified",
        plan=_plan(A, B, ladder={UNCLASSIFIED: (BACKOFF,)}),
        evaluated=True,
        verified=True,
        crashes=1,
        outcomes=("ok", "reported", "not_executed"),
    ),
    SmallPlan(
        name="fork, backoff, else fail",
        plan=_plan(A, B, C, when_exhausted=FAIL, ladder={UNCLASSIFIED: (BACKOFF,)}),
        pairs=True,
    ),
    SmallPlan(
        name="join, one crash",
        plan=_plan(A, LONE_B, _step("C", "A", "B")),
        pairs=True,
        crashes=1,
    ),
    SmallPlan(
        name="two steps, verified, else fail",
        plan=_plan(A, LONE_B, when_exhausted=FAIL),
        verified=True,
        pairs=True,
    ),
    SmallPlan(
        name="diamond, B critical, else abstain",
        plan=_plan(A, _step("B", "A", critical=True), C, D, when_exhausted=ABSTAIN),
    ),
    SmallPlan(
        name="optional step whose output one dependent uses",
        plan=_plan(
            _step("A", optional=True),
            _step("B", args={"a": Output("A")}, optional=True),
            C,
            ladder={UNCLASSIFIED: ("LEAVE_OUT",)},
        ),
        leaves_out=True,
    ),
    SmallPlan(
        name="not idempotent, with and without max_retries",
        plan=_plan(
            _step("A", idempotent=False, max_retries=1),
            _step("B", "A", idempotent=False),
            recoveries=2,
        ),
        outcomes=("ok", "reported", "timed_out", "rejected", "not_executed"),
        crashes=2,
    ),
    SmallPlan(
        name="answered while a step is under way, two crashes",
        plan=_plan(_step("A", idempotent=False), LONE_B, ladder={}, question_deadline_s=1),
        crashes=2,
    ),
    SmallPlan(name="run budget, ask", plan=_plan(A, LONE_B, budget=Budget(tool_calls=1))),
    SmallPlan(
        name="run budget, abstain",
        plan=_plan(A, LONE_B, when_exhausted=ABSTAIN, budget=Budget(tool_calls=2)),
    ),
    SmallPlan(
        name="deadlines, B critical",
        plan=_plan(A, _step("B", critical=True), _step("C"), question_deadline_s=1, ladder={}),
    ),
    SmallPlan(name="cancelled, two crashes", plan=_plan(A, LONE_B), cancelled=True, crashes=2),
    SmallPlan(
        name="less time than a backoff takes",
        plan=_plan(A, LONE_B, ladder={UNCLASSIFIED: (BACKOFF,)}, budget=Budget(seconds=0.5)),
    ),
    SmallPlan(
        name="run budget, a slow strategy",
        plan=_plan(A, LONE_B, ladder={UNCLASSIFIED: ("RECONSIDER",)}, budget=Budget(tool_calls=1)),
        slow=True,
    ),
    SmallPlan(
        name="a slow strategy, one crash",
        plan=_plan(A, LONE_B, ladder={UNCLASSIFIED: ("RECONSIDER", RETRY)}, recoveries=2),
        slow=True,
        crashes=1,
    ),
    SmallPlan(
        name="a slow strategy that holds its neighbours",
        plan=_plan(A, B, C, ladder={UNCLASSIFIED: ("RECONSIDER", RETRY)}),
        slow=True,
    ),
)
"""Every small plan; `prove` walks them all."""
