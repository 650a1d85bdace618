"""`loopfsm run PLAN`: load, run, tell what happens, end with the exit code of the outcome."""

from __future__ import annotations

import argparse
from pathlib import Path

import attrs

from loopfsm.cli.drive import Drive, tell_run
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import place_of, written
from loopfsm.engine.loop import Loop
from loopfsm.errors import PlanError, Problem
from loopfsm.model.record import Origin
from loopfsm.planfile import PlanFile, load
from loopfsm.ports import Journal


def do(args: argparse.Namespace) -> int:
    """Run the plan file `args.plan`; the exit code comes back."""
    loaded = load(args.plan)
    place = place_of(args.journal, loaded.journal)
    with written(place) as journal:
        loop = _loop(args.plan, loaded, args.max_parallel, journal)
        follow_up = FollowUp(loop.state.run.id, place)
        tell_run(loop.state, follow_up, as_json=args.json)
        return Drive(loop, follow_up, args.json).to_the_end()


def _loop(path: str, loaded: PlanFile, max_parallel: int | None, journal: Journal) -> Loop:
    plan = loaded.plan
    if max_parallel is not None:
        plan = attrs.evolve(plan, policy=attrs.evolve(plan.policy, max_parallel=max_parallel))
    try:
        loaded.workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        says = f"the directory {str(loaded.workspace)!r} cannot be made: {error.strerror}"
        raise PlanError((Problem("workspace", says),)) from error
    directory = str(Path(path).absolute().parent)
    origin = Origin(path=path, directory=directory, text=loaded.text)
    return Loop(plan, tools=loaded.tools, journal=journal, origin=origin)
