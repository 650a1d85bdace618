"""The memory that a finished step keeps, measured in a process of its own.

python -m benchmarks.memory STEPS DRIVER     one measurement, as JSON
python -m benchmarks.memory STEPS trace      the lines that allocated what is kept
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from benchmarks.figures import Figure
from benchmarks.growth import nothing
from benchmarks.plans import chain, drive
from loopfsm.engine.core import Core
from loopfsm.engine.loop import Loop
from loopfsm.engine.state import new_run
from loopfsm.journals.memory import MemoryJournal
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Plan
from loopfsm.model.record import Origin
from loopfsm.ports import Lease
from loopfsm.recovery.registry import default_registry

SUBJECT = "memory"
TARGET = 2048
STEPS = 100_000
DRIVERS = ("core", "loop")

ROOT = Path(__file__).resolve().parents[1]
STATM = Path("/proc/self/statm")

SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
"""What belongs to the program and not to the run."""


def resident() -> int:
    """The bytes of this process that are in memory now."""
    gc.collect()
    pages = int(STATM.read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def bytes_reached(roots: object, seen: set[int]) -> int:
    """The bytes of `roots` and of all they lead to, without what was `seen`; adds to it."""
    total, waiting = 0, [roots]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, SHARED):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        waiting.extend(gc.get_referents(each))
    return total


def parts(plan: Plan, state: RunState, journal: MemoryJournal) -> dict[str, int]:
    """The bytes of each part of a finished run; what two parts share counts for the first."""
    seen: set[int] = set()
    found = {"the plan": bytes_reached(plan, seen), "the graph": bytes_reached(state.dag, seen)}
    outputs = [step.output for step in state.steps.values()]
    found["outputs"] = bytes_reached(outputs, seen) - sys.getsizeof(outputs)
    found["steps"] = sum(bytes_reached(step, seen) for step in state.steps.values())
    found["the map of steps"] = bytes_reached(state.steps, seen)
    found["other maps of the state"] = bytes_reached(state, seen)
    found["the journal"] = bytes_reached(journal, seen)
    return found


def lease_of(journal: MemoryJournal, state: RunState) -> Lease:
    """The right to write a new run."""
    journal.create(state, 0.0, Origin())
    return journal.acquire("run", 0.0, 30.0)


def run_and_weigh(steps: int, driver: str) -> dict[str, Any]:
    """Run a chain with the memory journal attached; what the process weighs before and after."""
    nothing_yet = resident()
    plan = chain(steps)
    journal = MemoryJournal()
    if driver == "loop":
        loop = Loop(plan, tools=[nothing], journal=journal, run_id="run")
        before = resident()
        loop.run_sync()
        after, state = resident(), loop.state
    else:
        core, state = Core.of(default_registry()), new_run(plan, "run")
        before = resident()
        state = drive(core, state, lease_of(journal, state))
        after = resident()
    events = sum(1 for _ in journal.events("run"))
    return {
        "run": (after - before) / steps,
        "all": (after - nothing_yet) / steps,
        "events": events / steps,
        "parts": {name: size / steps for name, size in parts(plan, state, journal).items()},
    }


def trace(steps: int) -> Iterator[str]:
    """The lines of code whose allocations are still there after a run, largest first."""
    core, state = Core.of(default_registry()), new_run(chain(steps), "run")
    drive(core, new_run(chain(10), "run"))  # the machines are built on first use
    journal = MemoryJournal()
    tracemalloc.start()
    state = drive(core, state, lease_of(journal, state))
    gc.collect()
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    for found in snapshot.statistics("lineno")[:25]:
        frame = found.traceback[0]
        name = frame.filename.removeprefix(f"{ROOT}/")
        yield f"{found.size / steps:8.1f} B/step {found.count / steps:6.2f}  {name}:{frame.lineno}"


def weighed(steps: int, driver: str) -> Mapping[str, Any]:
    """One measurement, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", str(steps), driver]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def measure(*, quick: bool) -> Iterator[Figure]:
    """The bytes per finished step of a chain, and what they are made of."""
    if not STATM.exists():
        return
    steps = 200 if quick else STEPS
    for driver in DRIVERS:
        found = weighed(steps, driver)
        yield Figure(SUBJECT, f"{driver}: the run", found["run"], "B/step", TARGET)
        yield Figure(SUBJECT, f"{driver}: plan, graph and run", found["all"], "B/step", TARGET)
        if driver == DRIVERS[0]:
            yield Figure(SUBJECT, "  events", found["events"], "per step")
            for name, size in found["parts"].items():
                yield Figure(SUBJECT, f"  {name}", size, "B/step")


def main() -> None:
    """Measure once, and print it."""
    steps, driver = int(sys.argv[1]), sys.argv[2]
    if driver == "trace":
        print("\n".join(trace(steps)))
    else:
        print(json.dumps(run_and_weigh(steps, driver)))


if __name__ == "__main__":
    main()
