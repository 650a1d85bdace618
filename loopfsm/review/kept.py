"""What a journal gives back of a run whose process died: a real journal, on a real disk.

The units that led to a state are written, with the nouns that they moved, and the run is read
again, as a process that takes it up reads it. A noun that no unit moved is lost here too, and
so is what belongs to no noun: that somebody drives the run, what a preparation brought.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import evolve

from loopfsm.engine.state import state_from
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.event import Unit
from loopfsm.model.loop_state import RunState
from loopfsm.model.record import Origin


class Kept:
    """A journal of its own, made when it is used first; `close` forgets it."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._journal: SqliteJournal | None = None
        self._numbers = itertools.count(1)

    def read_back(self, begun: RunState, units: Iterable[Unit], died: RunState) -> RunState:
        """The state that was `died`, as another process finds it; `units` led there from `begun`.

        Every index of it is recounted, and nobody drives it.
        """
        journal = self._opened()
        run = evolve(begun.run, id=f"{begun.run.id} {next(self._numbers)}")
        journal.create(evolve(begun, run=run), 0.0, Origin())
        lease = journal.acquire(run.id, 0.0, died.plan.policy.lease_s)
        lease.append(units, died, 0.0)
        record = journal.load(run.id)
        return state_from(evolve(record, run=evolve(record.run, id=begun.run.id)))

    def _opened(self) -> SqliteJournal:
        if self._journal is None:
            self._directory = tempfile.TemporaryDirectory(prefix="loopfsm-prove-")
            path = Path(self._directory.name) / "journal.sqlite3"
            self._journal = SqliteJournal(path, durability="process")
        return self._journal

    def close(self) -> None:
        """Forget what was kept."""
        if self._journal is not None:
            self._journal.close()
        if self._directory is not None:
            self._directory.cleanup()


def lost(before: RunState, after: RunState) -> Iterator[str]:
    """What of the nouns is not what it was; nothing may be."""
    if before.plan != after.plan:
        yield "the journal does not give the plan back as it was"
    if before.run != after.run:
        yield "the journal does not give the loop back as it was"
    for name in ("steps", "failures", "questions"):
        kept, read = dict(getattr(before, name)), dict(getattr(after, name))
        for noun_id in {**kept, **read}:
            if kept.get(noun_id) != read.get(noun_id):
                yield f"the journal does not give {noun_id} back as it was"
    if dict(before.spent) != dict(after.spent):
        yield "the journal does not give back what was spent"
