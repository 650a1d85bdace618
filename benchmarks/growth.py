"""Whether a step of a large plan costs more than a step of a small one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.figures import Figure, medians
from benchmarks.plans import OUTPUT, SHAPES, drive
from loopfsm.engine.core import Core
from loopfsm.engine.loop import Loop
from loopfsm.engine.state import new_run
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Plan
from loopfsm.recovery.registry import default_registry
from loopfsm.tools.registry import tool

TARGET = 1.5
SMALL, LARGE = 1_000, 100_000
ROUNDS = 5
SMALL_RUNS = 20
"""How often the small plan is run in a round."""

Runner = Callable[[Plan], float]
"""Runs a plan; returns the seconds that the run took, without its making.

Of the processor's time: a large run lasts so long that whatever else a machine does in the
meantime would hit it alone, and nothing here waits for anything."""


@tool(name="nothing", idempotent=True)
async def nothing(n: int) -> Mapping[str, Any]:
    """A tool that costs as little as a tool can."""
    return OUTPUT


def through_core(plan: Plan) -> float:
    """Drive the pure core."""
    core, state = Core.of(default_registry()), new_run(plan, "run")
    gc.collect()
    started = time.process_time()
    drive(core, state)
    return time.process_time() - started


def through_loop(plan: Plan) -> float:
    """Drive the real loop, with its event loop, clock, journal and timeouts."""
    loop = Loop(plan, tools=[nothing], run_id="run")
    gc.collect()
    started = time.process_time()
    outcome = loop.run_sync()
    took = time.process_time() - started
    if outcome.state is not LoopState.COMPLETED:
        raise RuntimeError(f"the run ended as {outcome.state.name}: {outcome.reason}")
    return took


def measure(subject: str, *, quick: bool) -> Iterator[Figure]:
    """Per-step cost of a large and of a small plan, in turns; `subject` is one of `SUBJECTS`."""
    runner, shape = SUBJECTS[subject]
    rounds, small, large = (1, 20, 100) if quick else (ROUNDS, SMALL, LARGE)
    few, many = SHAPES[shape](small), SHAPES[shape](large)
    took = medians(
        {
            "small": lambda: _per_step(runner, few, 1 if quick else SMALL_RUNS),
            "large": lambda: _per_step(runner, many, 1),
        },
        rounds,
    )
    yield Figure(subject, f"{small:,} steps", took["small"] * 1e6, "us/step")
    yield Figure(subject, f"{large:,} steps", took["large"] * 1e6, "us/step")
    yield Figure(subject, "  large to small", took["large"] / took["small"], "x", TARGET)


def _per_step(runner: Runner, plan: Plan, times: int) -> float:
    return sum(runner(plan) for _ in range(times)) / (times * len(plan.steps))


SUBJECTS: Mapping[str, tuple[Runner, str]] = {
    "core-chain": (through_core, "chain"),
    "core-fan-out": (through_core, "fan-out"),
    "core-layered": (through_core, "layered"),
    "loop-chain": (through_loop, "chain"),
    "loop-fan-out": (through_loop, "fan-out"),
}
"""`Core.advance` alone, and a `Loop` with an async tool that does nothing."""
