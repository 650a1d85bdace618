"""What is run and killed: plans whose tools act outside the run, where the calls are counted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from loopfsm import planfile
from loopfsm.errors import ToolFailed
from loopfsm.model.plan import UNCLASSIFIED, Plan, Policy
from loopfsm.model.step import Call, Step, StepSpec, output
from loopfsm.ports import Evaluator, Tool, ToolContext
from loopfsm.testing.crash.kills import CALLED, Calls

SPECS = Path(__file__).resolve().parents[3] / "specs" / "scenarios"
"""The scenarios of the repository; an installed package has none."""


@frozen(kw_only=True)
class Setup:
    """What a process needs to drive a scenario, in its own directory."""

    plan: Plan
    tools: tuple[Tool, ...]
    evaluator: Evaluator | None = None


@frozen(kw_only=True)
class Scenario:
    """A plan with its tools, and what a person answers whenever the run asks."""

    name: str
    make: Callable[[Path], Setup]
    """`make(directory)`: called by every process that drives the run."""
    answer: str = "retry"


def calls_in(directory: Path) -> Calls:
    """The calls of the run in that directory."""
    return Calls(directory / "calls")


# The plan of the README


def quickstart(directory: Path) -> Setup:
    """The scenario file as it stands, in a copy of its directory."""
    plan = directory / "quickstart.toml"
    if not plan.exists():
        if not SPECS.exists():
            raise FileNotFoundError(f"{SPECS} is not there: run this from the repository")
        ignored = shutil.ignore_patterns("out", "__pycache__")
        shutil.copytree(SPECS / "quickstart", directory / "quickstart", ignore=ignored)
        shutil.copy(SPECS / "quickstart.toml", plan)
    loaded = planfile.load(plan)
    return Setup(plan=loaded.plan, tools=tuple(loaded.tools))


# A payment


@frozen
class Acts:
    """A tool that does something outside; it may report a failure the first time it ever does."""

    name: str
    calls: Calls
    idempotent: bool = False
    fails_first: bool = False
    read_only: bool = False
    timeout_s: float | None = 30.0

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Say what was done; the call itself is noted by whoever counts it."""
        await asyncio.sleep(0)
        if self.fails_first and self.calls.counted(CALLED)[self.name, context.step_id] == 1:
            raise ToolFailed(f"{self.name} is not ready yet")
        return {"done": self.name, "with": dict(args)}


async def evaluated(step: Step, result: Any) -> bool:
    """Awaited, so that the result is committed before it is judged."""
    await asyncio.sleep(0)
    return bool(result["done"])


def payment(directory: Path) -> Setup:
    """A chain: look up, reserve (not ready at first), charge (once!), approve (asks), tell.

    Every result is judged by an awaited evaluator, the charge is also looked for in the world.
    """
    calls = calls_in(directory)
    steps = (
        StepSpec(id="look_up", tool="look_up"),
        StepSpec(id="reserve", tool="reserve", args={"order": output("look_up", "done")}),
        StepSpec(
            id="charge",
            tool="charge",
            args={"order": output("reserve", "with")},
            verify=Call("statement"),
        ),
        StepSpec(id="approve", tool="approve", needs=("charge",)),
        StepSpec(id="tell", tool="tell", args={"what": output("charge")}, needs=("approve",)),
    )
    backoff = {UNCLASSIFIED: ("RETRY_WITH_BACKOFF",)}
    policy = Policy(backoff_base_s=0.02, backoff_cap_s=0.02, ladder=backoff)
    return Setup(
        plan=Plan(goal="charge a card, once", steps=steps, policy=policy),
        tools=(
            Acts("look_up", calls, idempotent=True),
            Acts("reserve", calls, idempotent=True, fails_first=True),
            Acts("charge", calls),
            Acts("statement", calls, read_only=True),
            Acts("approve", calls, fails_first=True),
            Acts("tell", calls, idempotent=True),
        ),
        evaluator=evaluated,
    )


# For two processes at a time


def gate(directory: Path, lease_s: float = 30, *, asks: bool = False) -> Setup:
    """A step that waits until the file `go` appears (for half a minute at most), and another.

    With `asks`, a third one beside them asks a person the first time.
    """

    @frozen
    class Waits(Acts):
        async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
            (directory / "waiting").touch()
            for _ in range(3000):
                if (directory / "go").exists():
                    return {"done": self.name}
                await asyncio.sleep(0.01)
            raise ToolFailed("nobody opened the gate")

    calls = calls_in(directory)
    steps = (
        StepSpec(id="wait", tool="wait"),
        StepSpec(id="afterwards", tool="afterwards", needs=("wait",)),
        *([StepSpec(id="approve", tool="approve")] if asks else []),
    )
    plan = Plan(goal="pass the gate", steps=steps, policy=Policy(lease_s=lease_s))
    afterwards = Acts("afterwards", calls, idempotent=True)
    approve = Acts("approve", calls, fails_first=True)
    return Setup(plan=plan, tools=(Waits("wait", calls, idempotent=True), afterwards, approve))


def approval(directory: Path) -> Setup:
    """One step, which asks a person the first time."""
    step = StepSpec(id="approve", tool="approve")
    tool = Acts("approve", calls_in(directory), fails_first=True)
    return Setup(plan=Plan(goal="be approved", steps=(step,)), tools=(tool,))


QUICKSTART = Scenario(name="quickstart", make=quickstart)
PAYMENT = Scenario(name="payment", make=payment)
MATRIX = (QUICKSTART, PAYMENT)
"""The scenarios that are killed everywhere."""

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *MATRIX,
        Scenario(name="gate", make=gate),
        Scenario(name="gate_with_a_short_lease", make=partial(gate, lease_s=1)),
        Scenario(name="gate_and_question", make=partial(gate, asks=True)),
        Scenario(name="approval", make=approval),
    )
}
"""Every scenario by name."""
