"""A journal whose driver dies at a chosen commit, as a process does: without a word."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define

from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.event import Unit
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import EMPTY
from loopfsm.ports import Lease


class Died(Exception):
    """The process is no more."""


@define
class Dying:
    """Hands on to a journal until the commit `at` (they count from 1), then to nobody.

    `committed`: the process dies just after that commit, else just before it.
    """

    journal: SqliteJournal
    at: int
    committed: bool = False
    commits: int = 0
    is_dead: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.journal, name)

    def acquire(self, *args: Any) -> DyingLease:
        return DyingLease(self, self.journal.acquire(*args))

    def dies(self, *, now: bool = False) -> None:
        """Raise, if it is time; or kill it now."""
        if self.is_dead:
            raise Died
        if now:
            self.is_dead = True
            buried(self.journal)


@define
class DyingLease:
    """The lease of a `Dying` journal."""

    journal: Dying
    lease: Lease

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    def append(
        self,
        units: Iterable[Unit],
        after: RunState,
        now: float,
        replies: Mapping[str, str] = EMPTY,
    ) -> None:
        self.journal.dies()
        self.journal.commits += 1
        is_last = self.journal.commits == self.journal.at
        if self.journal.committed or not is_last:
            self.lease.append(units, after, now, replies)
        if is_last:
            self.journal.dies(now=True)
            raise Died

    def messages(self) -> Any:
        self.journal.dies()
        return self.lease.messages()

    def renew(self, now: float) -> None:
        self.journal.dies()
        self.lease.renew(now)

    def release(self, now: float) -> None:
        if not self.journal.is_dead:
            self.lease.release(now)


def buried(journal: SqliteJournal) -> None:
    """Let the driver of every run be a process that has ended."""
    with sqlite3.connect(journal.path) as connection:
        connection.execute("UPDATE heads SET started = 'long ago' WHERE pid IS NOT NULL")
    connection.close()
