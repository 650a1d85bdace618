"""A journal in memory: the run can be read by this process, and by no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopfsm.model.event import Event, Unit


class MemoryJournal:
    """Keeps every event of its runs until it is dropped."""

    durable = False

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._commits: dict[str, int] = {}

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        """Keep the units, all or none, in order."""
        events = [event for unit in units for event in unit.events]
        self._events.setdefault(run_id, []).extend(events)
        self._commits[run_id] = self.commits(run_id) + 1

    def events(self, run_id: str) -> Iterator[Event]:
        """Every event of the run, in order."""
        return iter(tuple(self._events.get(run_id, ())))

    def commits(self, run_id: str) -> int:
        """How many times something was appended."""
        return self._commits.get(run_id, 0)
