"""`loopfsm trace RUN`: every event of a run, in order, one line each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from enum import Enum
from typing import Any

from attrs import define, field

from loopfsm.cli.exits import CLEAN
from loopfsm.cli.finding import find_run
from loopfsm.cli.place import looked_at, place_of
from loopfsm.cli.printing import json_line, one_line
from loopfsm.cli.progress import event_data
from loopfsm.cli.streams import say
from loopfsm.model.event import CREATED, Event
from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import StepState
from loopfsm.plain import plain

_INITIAL = {"step": StepState.PENDING.value, "loop": LoopState.INITIALIZED.value}
_LONGEST_FACTS = 160
_MOST_VALUES = 30


def do(args: argparse.Namespace) -> int:
    """Tell every event of the run `args.run`."""
    with looked_at(place_of(args.journal)) as journal:
        header = find_run(journal, args.run)
        traced = Traced(header.created_at)
        for number, event in enumerate(journal.events(header.run_id), 1):
            if args.json:
                say(json_line(event_data(event, number)))
            else:
                say(traced.line(number, event))
    return CLEAN


@define
class Traced:
    """Events as lines; what each noun was before is folded from the events before."""

    created_at: float
    _states: dict[tuple[str, str], str] = field(factory=dict)

    def line(self, number: int, event: Event) -> str:
        """The line of the next event."""
        about = f"{event.noun} {event.id}"
        attempt = f" (attempt {event.attempt})" if event.attempt else ""
        moved = self._moved(event)
        read = _short(event.facts)
        when = f"{number:>6}  {event.at - self.created_at:9.3f}s"
        spent = "".join(f"  spent {one_line(budget)} {amount:g}" for budget, amount in event.spent)
        return (
            f"{when}  {one_line(event.row):<12}  {one_line(about)}{attempt}"
            f"{f': {moved}' if moved else ''}{spent}{f'  [{read}]' if read else ''}"
        )

    def _moved(self, event: Event) -> str:
        entered = event.changes.get("state")
        if entered is None:
            return _short(event.changes)
        noun, after = (event.noun, event.id), _word(entered)
        before = self._states.get(noun, _INITIAL.get(event.noun, ""))
        self._states[noun] = after
        return f"{after}" if event.row == CREATED else f"{before} -> {after}"


def _word(state: Any) -> str:
    return one_line(state.value if isinstance(state, Enum) else state)


def _short(values: Mapping[str, Any]) -> str:
    shown = (f"{name}={plain(value, most_values=_MOST_VALUES)}" for name, value in values.items())
    return one_line(", ".join(shown), _LONGEST_FACTS)
