"""The plans that are run, and a driver of the pure core without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import CallTool, Command, Drive, Input, Result
from loopfsm.engine.judging import NOT_CHECKED
from loopfsm.model.loop_state import LoopState, RunState
from loopfsm.model.plan import Plan
from loopfsm.model.step import StepSpec
from loopfsm.ports import Lease

OUTPUT: Mapping[str, Any] = {"ok": True}
"""What every call returns: one object, since what tools return is the host's and not ours."""

WIDTH = 50
"""How many steps a layer of the layered plan has; each needs two of the layer before."""


def chain(steps: int) -> Plan:
    """Each step needs the one before it."""
    return _plan(steps, lambda index: (index - 1,) if index else ())


def apart(steps: int) -> Plan:
    """No step needs another one."""
    return _plan(steps, lambda index: ())


def fan_out(steps: int) -> Plan:
    """One step first, and every other needs just that."""
    return _plan(steps, lambda index: (0,) if index else ())


def layered(steps: int) -> Plan:
    """Layers of `WIDTH` steps; each needs its two neighbours in the layer before."""

    def needs(index: int) -> Sequence[int]:
        if index < WIDTH:
            return ()
        start = index - index % WIDTH - WIDTH
        return (start + index % WIDTH, start + (index + 1) % WIDTH)

    return _plan(steps, needs)


SHAPES: Mapping[str, Callable[[int], Plan]] = {
    "chain": chain,
    "fan-out": fan_out,
    "layered": layered,
}


def _plan(steps: int, needs: Callable[[int], Sequence[int]]) -> Plan:
    specs = [
        StepSpec(
            id=f"s{index}",
            tool="nothing",
            args={"n": index},
            needs=tuple(f"s{need}" for need in needs(index)),
            idempotent=True,
        )
        for index in range(steps)
    ]
    return Plan(goal="run them all", steps=tuple(specs))


def drive(core: Core, state: RunState, lease: Lease | None = None) -> RunState:
    """Run `state` to its end: every call succeeds at once, and what came together is one commit."""
    inputs: Sequence[Input] = [Drive()]
    now = 0.0
    while inputs:
        now += 1.0
        state, units, commands = core.advance(state, inputs, now)
        if lease is not None:
            lease.append(units, state, now)
        inputs = [_result(command) for command in commands]
    if state.run.state is not LoopState.COMPLETED:
        raise RuntimeError(f"the run ended as {state.run.state.name}: {state.run.reason}")
    return state


def _result(command: Command) -> Result:
    if not isinstance(command, CallTool):
        raise TypeError(f"nobody here performs {command!r}")
    return Result(
        step_id=command.step_id,
        attempt=command.attempt,
        output=OUTPUT,
        evaluation=NOT_CHECKED,
        verification=NOT_CHECKED,
    )
