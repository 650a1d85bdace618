"""`loopfsm resume RUN`: take a run up where its journal says it stands, and go on."""

from __future__ import annotations

import argparse
from pathlib import Path

from loopfsm.cli.drive import GOES_ON, WAITS, Drive, is_at_rest, tell_outcome, tell_run
from loopfsm.cli.exits import EXIT_OF
from loopfsm.cli.finding import find_run
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import changed, looked_at, place_of
from loopfsm.cli.printing import one_line
from loopfsm.cli.streams import say
from loopfsm.engine.loop import Loop
from loopfsm.engine.outcome import outcome_of
from loopfsm.engine.state import state_from
from loopfsm.errors import DriveRefused, PlanError, RunChanged
from loopfsm.model.loop_state import ENDED
from loopfsm.model.record import Header, Origin
from loopfsm.planfile import loads
from loopfsm.ports import Journal


def do(args: argparse.Namespace) -> int:
    """Go on with the run `args.run`; one that has ended is told about, and stays as it is."""
    place = place_of(args.journal)
    with looked_at(place) as journal:
        header = find_run(journal, args.run)
        follow_up = FollowUp(header.run_id, place)
        if header.state in ENDED:
            state = state_from(journal.load(header.run_id))
            outcome, code = outcome_of(state), EXIT_OF[header.state]
            if not args.json:
                say(f"run {one_line(header.run_id)} has ended already; nothing was done")
            tell_outcome(outcome, state, follow_up, code=code, as_json=args.json)
            return code
    with changed(place) as writable:
        loop = taken_up(writable, header)
        changed_plan, waited = changed_plan_of(header.origin), is_at_rest(loop.state)

        def begun() -> None:
            tell_run(
                loop.state,
                follow_up,
                as_json=args.json,
                becomes=WAITS if waited and is_at_rest(loop.state) else GOES_ON,
                changed_plan=changed_plan,
            )

        return Drive(loop, follow_up, args.json, begun=begun).to_the_end()


def taken_up(journal: Journal, header: Header) -> Loop:
    """The run, with the tools that its plan file declares.

    Raises:
        DriveRefused: it was begun by a program, or the directories of its plan are gone.
        RunChanged: the tools cannot be had any more, or what `Loop.resume` says.
        JournalRefused: see `Loop.resume`.
    """
    origin = header.origin
    if not origin.text:
        problem = f"the run {header.run_id} was begun by a program, not from a plan file"
        instead = "Only that program has its tools: use `Loop.resume` there"
        raise DriveRefused(problem, instead)
    directory = Path(origin.directory)
    _refuse_missing(directory, f"the directory of the plan {origin.path!r}")
    try:
        loaded = loads(origin.text.encode(), directory)
    except PlanError as error:
        problem = f"the tools of the run {header.run_id} cannot be had any more: {error}"
        instead = "Put back what is named here, as it was when the run was begun, then try again"
        raise RunChanged(problem, instead, header.run_id, error.problems) from error
    _refuse_missing(loaded.workspace, "the workspace of the run")
    return Loop.resume(header.run_id, journal=journal, tools=loaded.tools)


def changed_plan_of(origin: Origin) -> str:
    """The plan file that a run was begun from, as it was named; empty: it is the same, or gone."""
    path = Path(origin.directory, Path(origin.path).name)
    try:
        if not path.is_file():
            return ""
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return ""
    return "" if text.replace("\r\n", "\n") == origin.text else origin.path


def _refuse_missing(directory: Path, what: str) -> None:
    if not directory.is_dir():
        instead = "Put it back where it was, then resume"
        raise DriveRefused(f"{what} is not there: {str(directory)!r}", instead)
