"""`loopfsm runs`: the runs of a journal, one line each; with `--prune`, without the ended ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from loopfsm.cli.exits import CLEAN
from loopfsm.cli.finding import driver_data, driver_told, is_driven, is_left
from loopfsm.cli.place import Place, changed, looked_at, place_of
from loopfsm.cli.printing import json_line, one_line
from loopfsm.cli.streams import say
from loopfsm.journals.sqlite.holder import local_time
from loopfsm.model.record import Header


def do(args: argparse.Namespace) -> int:
    """List the runs of a journal, oldest first."""
    place = place_of(args.journal)
    forgotten: Sequence[Header] = ()
    headers: Sequence[Header] = ()
    if _is_there(place, args.journal):
        if args.prune:
            forgotten = _pruned(place)
        with looked_at(place) as journal:
            headers = journal.runs()
    if args.json:
        data = {
            "type": "runs",
            "journal": str(place),
            "runs": [header_data(header) for header in headers],
            "forgotten": [header.run_id for header in forgotten],
        }
        say(json_line(data))
        return CLEAN
    for header in forgotten:
        say(f"forgotten: {one_line(header.run_id)}, {header.state.value}: {one_line(header.goal)}")
    for line in _lines(headers):
        say(line)
    if not headers:
        say(f"no runs; journal: {one_line(place)} ({place.said_by})")
    return CLEAN


def header_data(header: Header) -> dict[str, Any]:
    """A run as a list of runs shows it, as data."""
    return {
        "run_id": header.run_id,
        "state": header.state,
        "goal": header.goal,
        "steps": header.steps,
        "created_at": header.created_at,
        "changed_at": header.changed_at,
        "events": header.events,
        "commits": header.commits,
        "plan": header.origin.path,
        "version": header.version,
        "driver": driver_data(header),
    }


def _is_there(place: Place, option: str | None) -> bool:
    """A journal that nobody has named need not be there yet: it has no runs."""
    return option is not None or place.path is None or place.path.exists()


def _pruned(place: Place) -> Sequence[Header]:
    with changed(place) as journal:
        before = {header.run_id: header for header in journal.runs()}
        return [before[run_id] for run_id in journal.prune() if run_id in before]


def _lines(headers: Sequence[Header]) -> Iterator[str]:
    wide_id = max((len(one_line(header.run_id)) for header in headers), default=0)
    wide_state = max((len(_state(header)) for header in headers), default=0)
    for header in headers:
        driver = driver_told(header)
        last = "" if is_driven(header) else "last "
        told = f"  [{last}driven by {one_line(driver)}]" if driver else ""
        yield (
            f"{one_line(header.run_id):<{wide_id}}  {_state(header):<{wide_state}}  "
            f"{header.steps:>5} steps  {local_time(header.created_at)}{told}  "
            f"{one_line(header.goal)}"
        )


def _state(header: Header) -> str:
    return f"{header.state.value}{', nobody drives it' if is_left(header) else ''}"
