"""Which run is meant, and who drives it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import NO_RUNS
from loopfsm.errors import DriveRefused, UnknownRun
from loopfsm.journals.sqlite.holder import is_gone, local_time
from loopfsm.model.loop_state import ENDED, LoopState
from loopfsm.model.record import Header, Hold
from loopfsm.ports import Journal

LAST = "last"
"""Names the run that was created last."""

A_RUN = "the id of a run, the beginning of an id, or `last`"

_MOST_NAMED = 5


def find_run(journal: Journal, name: str) -> Header:
    """The run of that id, or the only one whose id begins so, or the last one.

    Raises:
        DriveRefused: there is none, and it names others; or several ids begin so.
    """
    try:
        return journal.header(name)
    except UnknownRun as error:
        headers = journal.runs()
        if name == LAST and headers:
            return headers[-1]
        fitting = [header for header in headers if name and header.run_id.startswith(name)]
        if not fitting:
            raise _unknown(error, headers) from error
    if len(fitting) > 1:
        named = [header.run_id for header in fitting[-_MOST_NAMED:]]
        more = f" and {len(fitting) - len(named)} more" if len(fitting) > len(named) else ""
        problem = f"{name!r} can mean {', '.join(named)}{more}"
        raise DriveRefused(problem, "Say more of the id")
    return fitting[0]


def _unknown(error: UnknownRun, headers: Sequence[Header]) -> DriveRefused:
    name, known = error.run_id, ", ".join(error.known)
    if not headers:
        return DriveRefused("this journal has no runs yet", NO_RUNS)
    others = ", among others" if len(error.known) < len(headers) else ""
    problem = f"no run {name!r} in this journal; it knows: {known}{others}"
    if name.endswith(".toml") or os.path.exists(name):
        instead = f"RUN is {A_RUN}; a plan file is run by `loopfsm run`"
        return DriveRefused(problem, instead)
    return DriveRefused(problem, "`loopfsm runs` lists them")


def is_left(header: Header) -> bool:
    """The run could go on, and nobody drives it; one that waits for a person is not left."""
    return header.state not in (*ENDED, LoopState.WAITING_FOR_HUMAN) and not is_driven(header)


def how_to_go_on(header: Header, follow_up: FollowUp) -> str:
    """What takes the run up, in words."""
    if not header.origin.text:
        return "the program that began the run can go on with it: `Loop.resume`"
    return f"go on with: {follow_up.resume}"


def is_driven(header: Header) -> bool:
    """Somebody holds the run who is alive, or may be."""
    return header.hold is not None and _is_held(header.hold)


def driver_told(header: Header) -> str:
    """Who drives the run, in words; empty: nobody does."""
    hold = header.hold
    if hold is None:
        return ""
    gone = is_gone(hold.holder)
    if gone is None:
        over = "over since" if hold.until <= time.time() else "until"
        return f"{hold.holder} (its lease is {over} {local_time(hold.until)})"
    return f"{hold.holder} ({'dead' if gone else 'alive'})"


def driver_data(header: Header) -> dict[str, object] | None:
    """Who drives the run, as data; None: nobody does."""
    hold = header.hold
    if hold is None:
        return None
    return {
        "process": str(hold.holder),
        "host": hold.holder.host,
        "pid": hold.holder.pid,
        "epoch": hold.epoch,
        "until": hold.until,
        "alive": None if (gone := is_gone(hold.holder)) is None else not gone,
    }


def _is_held(hold: Hold) -> bool:
    gone = is_gone(hold.holder)
    return hold.until > time.time() if gone is None else not gone
