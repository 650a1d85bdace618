"""What the tests of the engine share: short plans, a core driven by hand, patched machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, TypeVar

import attrs
from attrs import define, field

from loopfsm.dag import Dag
from loopfsm.engine.core import Core
from loopfsm.engine.inputs import Answer, Command, Drive, Input, Result
from loopfsm.engine.judging import NOT_CHECKED
from loopfsm.engine.loop import Loop, Outcome
from loopfsm.engine.state import new_run, state_of
from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.model.event import CREATED, Event, Unit
from loopfsm.model.failure import Failure, FailureKind, FailureState
from loopfsm.model.loop_state import LoopState, Map, Run, RunState
from loopfsm.model.plan import Plan, Policy
from loopfsm.model.question import Question
from loopfsm.model.step import StepSpec, StepState
from loopfsm.ports import Tool
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.registry import RecoveryRegistry, default_registry
from loopfsm.recovery.strategies.retry import Retry
from loopfsm.testing import FakeClock, ScriptedTool
from loopfsm.unit import Draft

T = TypeVar("T")

CORE = Core.of(default_registry())


# Plans


def spec(step_id: str, *needs: str, **fields: Any) -> StepSpec:
    """A step that calls the tool `work`."""
    return StepSpec(**{"id": step_id, "tool": "work", "needs": needs, **fields})


def plan_of(*steps: StepSpec | str, **policy: Any) -> Plan:
    """A plan of these steps; a bare name is a step without needs."""
    specs = (spec(step) if isinstance(step, str) else step for step in steps)
    return Plan(goal="the goal", steps=tuple(specs), policy=Policy(**policy))


# Inputs


def done(step_id: str, attempt: int = 1, **fields: Any) -> Result:
    """The tool succeeded, and nothing else judges it."""
    judged = {"evaluation": NOT_CHECKED, "verification": NOT_CHECKED}
    return Result(**{"step_id": step_id, "attempt": attempt, **judged, **fields})


def failed(
    step_id: str, attempt: int = 1, kind: FailureKind = FailureKind.REPORTED, **fields: Any
) -> Result:
    """The attempt failed."""
    return Result(step_id=step_id, attempt=attempt, failure=kind, message="it failed", **fields)


def answer(subject: str, choice: str, token: str = "t1", to: float | None = None) -> Answer:
    """A person's word."""
    return Answer(subject=subject, choice=choice, token=token, raised_to=to)


# A core driven by hand


@define
class Hand:
    """A run whose inputs a test gives one call at a time."""

    state: RunState
    core: Core = CORE
    now: float = 0.0
    units: list[Unit] = field(factory=list)

    @classmethod
    def on(cls, plan: Plan, core: Core = CORE) -> Hand:
        """A run of `plan` that somebody has just begun to drive."""
        hand = cls(new_run(plan, "run"), core)
        hand.give(Drive())
        return hand

    def give(self, *inputs: Input, after: float = 0.0) -> tuple[Command, ...]:
        """Let time pass, fold `inputs` in one call, and return the commands."""
        self.now += after
        self.state, units, commands = self.core.advance(self.state, inputs, self.now)
        self.units += units
        return commands

    @property
    def events(self) -> list[Event]:
        """What a journal would hold."""
        return events_of(self.units)

    @property
    def loop(self) -> LoopState:
        return self.state.run.state

    def stands(self, step_id: str) -> StepState:
        """The state of a step."""
        return self.state.step(step_id).state

    def failures(self) -> list[FailureState]:
        """The states of all failures, oldest first."""
        found = sorted(self.state.failures.values(), key=lambda failure: failure.number)
        return [failure.state for failure in found]


def events_of(units: Iterable[Unit]) -> list[Event]:
    """The events of some units, in order."""
    return [event for unit in units for event in unit.events]


def rows_of(events: Iterable[Event], noun: str, noun_id: str | None = None) -> list[str]:
    """The rows of one kind of noun (or of one noun), in order."""
    return [e.row for e in events if e.noun == noun and noun_id in (None, e.id)]


# The state against its own nouns


def recounted(state: RunState) -> RunState:
    """The state that the nouns alone give."""
    return state_of(
        state.run,
        state.plan,
        Dag.of(state.plan),
        state.steps.values(),
        sorted(state.failures.values(), key=lambda failure: failure.number),
        sorted(state.questions.values(), key=lambda question: question.number),
        state.spent,
    )


def indexes(state: RunState) -> dict[str, Any]:
    """Everything in a state that can be computed from its nouns, index by index.

    Of the queue: which READY steps could be started from it, in the plan's order.
    """
    own = {"dag", "driven_at", "prepared", "ready"}
    found = {a.name: getattr(state, a.name) for a in attrs.fields(RunState) if a.name not in own}
    queued = {step_id for _, step_id in state.ready.entries()}
    could_start = [
        each.id
        for each in state.plan.steps
        if each.id in queued
        and state.step(each.id).state is StepState.READY
        and state.holder_of(each.id) is None
    ]
    plain = {
        name: dict(value) if isinstance(value, Map) else value for name, value in found.items()
    }
    return {**plain, "ready": could_start}


def folded(before: RunState, events: Iterable[Event]) -> RunState:
    """The nouns before, with the changes of every event written over them."""
    run, steps, spent = before.run, dict(before.steps), dict(before.spent)
    failures, questions = dict(before.failures), dict(before.questions)
    nouns: Mapping[str, dict[str, Any]] = {
        "step": steps,
        "failure": failures,
        "question": questions,
        "loop": {run.id: run},
    }
    made: Mapping[str, Callable[..., Any]] = {"failure": Failure, "question": Question}
    for event in events:
        known = nouns[event.noun]
        if event.row == CREATED:
            known[event.id] = made[event.noun](**event.changes)
        elif event.changes:
            known[event.id] = attrs.evolve(known[event.id], **event.changes)
        for budget, amount in event.spent:
            spent[budget] = spent.get(budget, 0) + amount
    ran: Run = nouns["loop"][run.id]
    args = (
        ran,
        before.plan,
        Dag.of(before.plan),
        steps.values(),
        failures.values(),
        questions.values(),
    )
    return state_of(*args, spent)


# Machines with one row changed


def row(trigger: str, target: Enum, source: Enum | None = None) -> Row:
    """The first row with this trigger and target (which leaves `source`)."""
    return next(
        each
        for machine in default_registry().machines.by_name().values()
        for each in machine.rows
        if (each.trigger, each.target) == (trigger, target) and source in (None, *each.source)
    )


def core_with(broken: Row, on: Core = CORE, **changes: Any) -> Core:
    """A core in whose machines one row is not what it should be."""
    machines = on.machines
    name = next(name for name, each in machines.by_name().items() if broken in each.rows)
    machine = machines.by_name()[name]
    other: Lifecycle[Any] = Lifecycle(
        machine.name,
        states=machine.states,
        initial=machine.initial,
        rows=[attrs.evolve(r, **changes) if r == broken else r for r in machine.rows],
        invariants=machine.invariants,
    )
    return Core(on.registry, attrs.evolve(machines, **{name: other}))


# Strategies of our own


class RetryOfOurs(RecoveryHandler):
    """A strategy of our own that does as RETRY does."""

    strategy: ClassVar[str] = "RETRY_OF_OURS"
    trigger = "retry"

    def facts(self, case: RecoveryCase) -> Mapping[str, Any]:
        return Retry().facts(case)

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        return Retry().apply(case, prepared, unit)


class SlowRetry(RetryOfOurs):
    """Awaits a preparation, and holds every step that has not been started."""

    strategy: ClassVar[str] = "SLOW_RETRY"
    prepares = True

    def __init__(self) -> None:
        self.cases: list[RecoveryCase] = []
        self.may_end = asyncio.Event()
        self.began = asyncio.Event()

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        steps = (case.state.step(each.id) for each in case.state.plan.steps)
        not_started = (StepState.PENDING, StepState.READY, StepState.RETRY_PENDING)
        others = [step.id for step in steps if step.state in not_started]
        return (case.failure.subject, *others)

    async def prepare(self, case: RecoveryCase) -> object:
        self.cases.append(case)
        self.began.set()
        await self.may_end.wait()
        return "prepared"


def registry_with(*handlers: RecoveryHandler) -> RecoveryRegistry:
    """The package's strategies, and these."""
    registry = default_registry()
    for handler in handlers:
        registry.register(handler)
    return registry


# A loop


def loop_of(plan: Plan, *tools: Tool | Callable[..., Any], **fields: Any) -> Loop:
    """A loop whose clock waits for nothing; without tools, `work` returns None."""
    made = tools or (ScriptedTool("work"),)
    return Loop(plan, tools=made, **{"clock": FakeClock(auto=True), "run_id": "run", **fields})


def run(loop: Loop) -> Outcome:
    """Drive a loop to its rest; a run that hangs is an error, not a wait."""
    return asyncio.run(within_reason(loop.run()))


async def within_reason(work: Awaitable[T]) -> T:
    """Await something that must not hang."""
    return await asyncio.wait_for(work, timeout=20)
