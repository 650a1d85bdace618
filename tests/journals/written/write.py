"""Writes a journal of the format of its day: `python tests/journals/written/write.py FILE`.

The files beside this one were written so, once, and are never written again: each version of
the library has to read all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

import attrs

from loopfsm import Budget, EnvironmentValue, Loop, Plan, Policy, StepSpec, ToolFailed, output, tool
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.testing import FakeClock


@attrs.frozen
class Size:
    """What `measure` returns."""

    bytes: int


@tool(idempotent=True)
async def measure(name: str) -> Size:
    return Size(len(name))


@tool
async def publish(size: Any, to: str) -> str:
    raise ToolFailed(f"no way to {to}", evidence={"size": 1, "tried": ("a", "b")})


@tool
async def die(size: Any) -> None:
    running = asyncio.current_task()
    for task in asyncio.all_tasks():
        if task is not running:
            task.cancel()
    await asyncio.get_running_loop().create_future()


def plan_of(last: str, **policy: Any) -> Plan:
    """Measure, use what was measured, and go on."""
    steps = [
        StepSpec(id="measure", tool="measure", args={"name": "notes"}),
        StepSpec(
            id="publish",
            tool=last,
            args={"size": output("measure"), "to": EnvironmentValue("TARGET")}
            if last == "publish"
            else {"size": output("measure")},
        ),
        StepSpec(id="again", tool="measure", args={"name": "ab"}, needs=["publish"]),
    ]
    return Plan(goal="publish the notes", steps=steps, policy=Policy(**policy))


def main(path: str) -> None:
    """One run that asks, one that has ended, one whose driver died in the middle of a step."""
    journal = SqliteJournal(Path(path))
    for run_id, last, policy in (
        ("asks", "publish", {"budget": Budget(steps=10)}),
        ("ended", "publish", {"when_exhausted": "fail"}),
        ("died", "die", {}),
    ):
        loop = Loop(
            plan_of(last, **policy),
            tools=[measure, publish, die],
            journal=journal,
            clock=FakeClock(),
            environment={"TARGET": "everyone"},
            run_id=run_id,
        )
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(loop.run())
    journal.close()


if __name__ == "__main__":
    main(sys.argv[1])
