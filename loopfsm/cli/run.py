"""`loopfsm run PLAN`: load, run, tell what happens, end with the exit code of the outcome."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import nullcontext

import attrs

from loopfsm.cli.exits import BAD_INPUT, EXIT_OF, FOUND_SOMETHING, INTERRUPTED
from loopfsm.cli.printing import clean, json_line, one_line
from loopfsm.cli.progress import JsonProgress, PlainProgress
from loopfsm.cli.signals import run_interruptibly
from loopfsm.cli.streams import complain, say, stdout_of_our_own
from loopfsm.cli.summary import outcome_data, outcome_lines
from loopfsm.engine.loop import Loop, Outcome
from loopfsm.errors import DefinitionError, PlanError, Problem
from loopfsm.planfile import PlanFile, load

RESUMABLE = False
"""The journal is in memory."""


def run(path: str, *, as_json: bool, max_parallel: int | None) -> int:
    """Run the plan file at `path`; the exit code comes back.

    With `as_json`, standard output is for JSON lines alone: what tools print goes to
    standard error.
    """
    with stdout_of_our_own() if as_json else nullcontext():
        return _run(path, as_json=as_json, max_parallel=max_parallel)


def _run(path: str, *, as_json: bool, max_parallel: int | None) -> int:
    try:
        loaded = load(path)
        loop = _loop(loaded, max_parallel)
    except DefinitionError as error:
        _refuse(path, error, as_json=as_json)
        return BAD_INPUT
    if not as_json:
        policy = loaded.plan.policy
        at_once = max_parallel or policy.max_parallel
        say(
            f"{one_line(loaded.plan.goal)}: {len(loaded.plan.steps)} steps, at most {at_once} at "
            "once; journal: memory"
        )
    progress = JsonProgress(say) if as_json else PlainProgress(say)
    try:
        outcome = run_interruptibly(lambda: _drive(loop, progress))
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell_interrupted(as_json=as_json)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # a defect of ours: told as one, with its traceback
        _tell_broken(error, as_json=as_json)
        return FOUND_SOMETHING
    if as_json:
        say(json_line(outcome_data(outcome, resumable=RESUMABLE)))
    else:
        for line in outcome_lines(outcome, resumable=RESUMABLE):
            say(line)
    return EXIT_OF[outcome.state]


def _loop(loaded: PlanFile, max_parallel: int | None) -> Loop:
    plan = loaded.plan
    if max_parallel is not None:
        plan = attrs.evolve(plan, policy=attrs.evolve(plan.policy, max_parallel=max_parallel))
    try:
        loaded.workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        says = f"the directory {str(loaded.workspace)!r} cannot be made: {error.strerror}"
        raise PlanError((Problem("workspace", says),)) from error
    return Loop(plan, tools=loaded.tools)


async def _drive(loop: Loop, progress: JsonProgress | PlainProgress) -> Outcome:
    """Run the loop and print its events."""
    follower = asyncio.create_task(_follow(loop, progress))
    await asyncio.sleep(0)  # the follower listens before anything happens
    try:
        outcome = await loop.run()
        await follower
    finally:
        follower.cancel()
        progress.end()
    return outcome


async def _follow(loop: Loop, progress: JsonProgress | PlainProgress) -> None:
    async for event in loop.events():
        progress.event(event)


def _refuse(path: str, error: DefinitionError, *, as_json: bool) -> None:
    problems = error.problems if isinstance(error, PlanError) else (Problem("", str(error)),)
    if as_json:
        say(json_line({"type": "refused", "exit_code": BAD_INPUT, "problems": problems}))
        return
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    complain(f"{one_line(path)}: {count}; nothing was started")
    for problem in problems:
        complain(f"  {clean(problem)}")


def _tell_interrupted(*, as_json: bool) -> None:
    says = "interrupted: what was running has been stopped; the run was kept in memory and is gone"
    if as_json:
        say(json_line({"type": "interrupted", "exit_code": INTERRUPTED, "resumable": RESUMABLE}))
    else:
        complain(says)


def _tell_broken(error: Exception, *, as_json: bool) -> None:
    told = "".join(traceback.format_exception(error))
    if as_json:
        say(json_line({"type": "broken", "exit_code": FOUND_SOMETHING, "traceback": told}))
    else:
        complain(f"{clean(told)}this is a defect of loopfsm; please report it with the lines above")
