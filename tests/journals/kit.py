"""What the tests of the journals share: each kind of journal, runs to keep in it, what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import Command, Drive, Input
from loopfsm.engine.loop import Loop
from loopfsm.engine.resuming import fingerprints
from loopfsm.engine.state import new_run, state_from
from loopfsm.journals.memory import MemoryJournal
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.event import Event
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Plan
from loopfsm.model.record import Origin
from loopfsm.plain import plain
from loopfsm.ports import Journal, Lease, Tool
from loopfsm.testing import FakeClock
from tests.engine.kit import CORE, indexes

KINDS: Mapping[str, Callable[[Path], Journal]] = {
    "memory": lambda _: MemoryJournal(),
    "full": lambda path: SqliteJournal(path, durability="full"),
    "process": lambda path: SqliteJournal(path, durability="process"),
}
"""Every journal that the contract holds for."""

ROWS = fingerprints(CORE.machines)
ORIGIN = Origin(path="plans/ours.toml", directory="plans", text="goal = 'it'\n")


@contextmanager
def opened(path: Path, **words: Any) -> Iterator[SqliteJournal]:
    """A journal of a file, closed in the end."""
    journal = SqliteJournal(path, **words)
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def journal_of(kind: str, path: Path) -> Iterator[Journal]:
    """A new journal of one kind, closed in the end."""
    journal = KINDS[kind](path)
    try:
        yield journal
    finally:
        if isinstance(journal, SqliteJournal):
            journal.close()


@define
class Driven:
    """A run that a test drives input by input, each call one commit of the journal."""

    journal: Journal
    state: RunState
    core: Core = CORE
    now: float = 0.0
    lease: Lease = field(init=False)

    @classmethod
    def on(cls, journal: Journal, plan: Plan, run_id: str = "run", lease_s: float = 30) -> Driven:
        """A new run that somebody has just begun to drive."""
        driven = cls(journal, new_run(plan, run_id))
        journal.create(driven.state, driven.now, ORIGIN)
        driven.lease = journal.acquire(run_id, driven.now, lease_s, ROWS)
        driven.give(Drive())
        return driven

    def give(
        self, *inputs: Input, after: float = 0.0, replies: Mapping[str, str] | None = None
    ) -> tuple[Command, ...]:
        """Fold the inputs and commit what came of them."""
        self.now += after
        state, units, commands = self.core.advance(self.state, inputs, self.now)
        self.lease.append(units, state, self.now, replies or {})
        self.state = state
        return commands


def loaded(journal: Journal, run_id: str = "run") -> dict[str, Any]:
    """The nouns of a run as its journal has them, with every index."""
    return indexes(state_from(journal.load(run_id)))


def told(events: Iterable[Event]) -> list[Event]:
    """Events with their facts as any journal tells them: as JSON."""
    return [attrs.evolve(event, facts=plain(event.facts)) for event in events]


def resumed(journal: Any, *tools: Tool | Callable[..., Any], **words: Any) -> Loop:
    """A loop that takes up the run `run`; its clock waits for nothing."""
    return Loop.resume(
        "run", journal=journal, tools=tools, **{"clock": FakeClock(auto=True), **words}
    )
