"""A journal in memory: the run can be read by this process, and by no other.

A run may have millions of events, so they are not kept as objects: one flat list per run
holds the fields of one event after the other. What recurs - the names of changed fields and
of facts, what was spent - is kept once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from loopfsm.model.event import Event, Unit
from loopfsm.model.step import EMPTY


class MemoryJournal:
    """Keeps every event of its runs until it is dropped."""

    durable = False

    def __init__(self) -> None:
        self._kept: dict[str, list[Any]] = {}
        self._commits: dict[str, int] = {}
        self._recurring: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        """Keep the units, all or none, in order."""
        flat: list[Any] = []
        once = self._recurring.setdefault
        for unit in units:
            for event in unit.events:
                changed, read = tuple(event.changes), tuple(event.facts)
                flat += (event.row, event.noun, event.id, event.at, event.attempt)
                flat += (once(changed, changed), once(read, read), once(event.spent, event.spent))
                flat += event.changes.values()
                flat += event.facts.values()
        self._kept.setdefault(run_id, []).extend(flat)
        self._commits[run_id] = self.commits(run_id) + 1

    def events(self, run_id: str) -> Iterator[Event]:
        """Every event of the run, in order."""
        fields = iter(tuple(self._kept.get(run_id, ())))
        for row in fields:
            noun, noun_id, at, attempt, changed, read, spent = (next(fields) for _ in range(7))
            changes = {name: next(fields) for name in changed} or EMPTY
            facts = {name: next(fields) for name in read} or EMPTY
            yield Event(row, noun, noun_id, at, attempt, changes, facts, spent)

    def commits(self, run_id: str) -> int:
        """How many times something was appended."""
        return self._commits.get(run_id, 0)
