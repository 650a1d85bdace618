"""The right to write one run: every commit proves it, in the transaction that makes it."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from loopfsm import codec
from loopfsm.errors import LeaseLost
from loopfsm.journals.sqlite.files import Files
from loopfsm.journals.sqlite.rows import (
    KINDS,
    STEP_COLUMNS,
    noun_text,
    sound,
    step_row,
    units_text,
)
from loopfsm.journals.sqlite.schema import place_of, told
from loopfsm.model.event import Event, Unit
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Budget
from loopfsm.model.question import Question
from loopfsm.model.record import Message, Word
from loopfsm.model.step import EMPTY


class Store:
    """An open journal file: one connection, used by one thread at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, files: Files) -> None:
        self.path = path
        self.connection = connection
        self.files = files
        self.lock = threading.RLock()
        # A journal that nobody holds any more is closed, not complained about.
        weakref.finalize(self, connection.close).atexit = False

    def transaction(self) -> _Transaction:
        """One commit, or nothing; errors of SQLite become `JournalRefused`."""
        return _Transaction(self)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with self.lock:
            try:
                return self.connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise told(self.path, error) from error


PUT_STEP = f"""
INSERT INTO steps (run, position, output_in, {", ".join(STEP_COLUMNS)})
VALUES (?, ?, ?, {", ".join("?" * len(STEP_COLUMNS))})
ON CONFLICT (run, position) DO UPDATE SET
output_in = CASE excluded.output_in WHEN -1 THEN output_in ELSE excluded.output_in END,
{", ".join(f"{name} = excluded.{name}" for name in STEP_COLUMNS)}
"""


class _Transaction:
    """What stands in its block is one commit, made by one thread at a time."""

    __slots__ = ("_connection", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection = store.connection

    def __enter__(self) -> sqlite3.Connection:
        self._store.lock.acquire()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._store.lock.release()
            raise told(self._store.path, error) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        except sqlite3.Error as failed:
            error = failed
            raise told(self._store.path, failed) from failed
        finally:
            if error is not None and self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            self._store.lock.release()
        if isinstance(error, sqlite3.Error):
            raise told(self._store.path, error) from error


BUDGETS = tuple(field.name for field in attrs.fields(Budget))
"""The budgets of a run."""

AS_BEFORE = -1
"""Stands for the commit that recorded the output which a step still has."""

PUT_COMMIT = "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?)"

CLAIM = """
UPDATE heads SET state = ?, without = ?, reason = ?, spent = ?, changed_at = ?, events = ?,
commits = ?, hash = ?, held_until = ? WHERE run = ? AND epoch = ? AND pid IS NOT NULL
"""

RENEW = "UPDATE heads SET held_until = ? WHERE run = ? AND epoch = ? AND pid IS NOT NULL"

RELEASE = """
UPDATE heads SET host = NULL, boot = NULL, pid = NULL, started = NULL, held_until = NULL
WHERE run = ? AND epoch = ?
"""


def chained(before: str, units: str) -> str:
    """The end of the chain after a commit: one hash stands for the plan and every event so far."""
    return hashlib.sha256(f"{before}\n{units}".encode("ascii")).hexdigest()


HELD_HERE: set[tuple[str, str, int]] = set()
"""Path, run and epoch of each lease that this process holds and has not given back. Whoever
acquires one adds it in the same transaction, so that no other thread finds it missing."""


class SqliteLease:
    """Implements `ports.Lease`."""

    def __init__(
        self,
        store: Store,
        run: int,
        run_id: str,
        epoch: int,
        lease_s: float,
        fingerprints: Mapping[str, str],
    ) -> None:
        self._store = store
        self._pid = os.getpid()
        self._name = (str(store.path), run_id, epoch)
        self._run = run
        self._run_id = run_id
        self._epoch = epoch
        self._lease_s = lease_s
        self._fingerprints = fingerprints
        find = "SELECT events, commits, hash FROM heads WHERE run = ?"
        ((self._events, self._commits, self._hash),) = store.rows(find, run)
        used = store.rows("SELECT row FROM rows WHERE run = ?", run)
        self._used = {row for (row,) in used}
        self._places: Mapping[str, int] = EMPTY
        """Step id -> its position, for the plan of `_placed`."""
        self._placed: object = None

    @property
    def epoch(self) -> int:
        return self._epoch

    def append(
        self,
        units: Iterable[Unit],
        after: RunState,
        now: float,
        replies: Mapping[str, str] = EMPTY,
    ) -> None:
        units = tuple(units)
        commit = _Commit(self._store.files, units)
        end = chained(self._hash, commit.text) if units else self._hash
        events, commits = self._events + commit.events, self._commits + bool(units)
        run, spent = after.run, run_budgets(after.spent)
        without = codec.text_of(run.without) if run.without else "[]"
        stands = (run.state.value, without, sound(run.reason), spent, now)
        counts = (events, commits, end, now + self._lease_s)
        with self._store.transaction() as connection:
            claim = connection.execute(CLAIM, (*stands, *counts, self._run, self._epoch))
            self._claim(claim)
            if units:
                body = (self._epoch, self._events + 1, commit.text, end)
                connection.execute(PUT_COMMIT, (place_of(self._run, commits), now, *body))
                self._keep_nouns(connection, commit, after, commits)
            if replies:
                connection.executemany(
                    "UPDATE inbox SET reply = ? WHERE run = ? AND token = ?",
                    [(sound(reply), self._run, sound(token)) for token, reply in replies.items()],
                )
        self._events, self._commits, self._hash = events, commits, end
        self._used.update(commit.rows)

    def messages(self) -> Sequence[Message]:
        found = self._store.rows(
            "SELECT token, word, subject, choice, said, raised_to, sent_at FROM inbox"
            " WHERE run = ? AND reply IS NULL ORDER BY sent_at, token",
            self._run,
        )
        return tuple(message_of(row) for row in found)

    def renew(self, now: float) -> None:
        with self._store.transaction() as connection:
            values = (now + self._lease_s, self._run, self._epoch)
            self._claim(connection.execute(RENEW, values))

    def release(self, now: float) -> None:
        if os.getpid() != self._pid:
            return  # a forked child has a copy of the lease, which is its parent's
        HELD_HERE.discard(self._name)  # even if that cannot be written
        with self._store.transaction() as connection:
            connection.execute(RELEASE, (self._run, self._epoch))

    def _claim(self, updated: sqlite3.Cursor) -> None:
        if updated.rowcount != 1:
            raise LeaseLost.to_another(self._run_id, self._epoch)

    def _keep_nouns(
        self, connection: sqlite3.Connection, commit: _Commit, after: RunState, number: int
    ) -> None:
        run, put = self._run, connection.executemany
        steps = []
        for step_id in commit.moved["step"]:
            step = after.step(step_id)
            recorded = number if step_id in commit.outputs else AS_BEFORE
            output_in = None if step.output is None else recorded
            steps.append((run, self._place_of(step_id, after), output_in, *step_row(step)))
        put(PUT_STEP, steps)
        for noun, found in (("failure", after.failures), ("question", after.questions)):
            if commit.moved[noun]:
                nouns = [found[noun_id] for noun_id in commit.moved[noun]]
                put(f"INSERT OR REPLACE INTO {noun}s VALUES (?, ?, ?, ?, ?)", _bodies(run, nouns))
        lineages = [(run, key, after.spent[key]) for key in commit.budgets if "/" in key]
        if lineages:
            put("INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", lineages)
        if commit.files:
            put("INSERT OR IGNORE INTO files VALUES (?, ?)", [(run, sha) for sha in commit.files])
        new = [row for row in commit.rows if row not in self._used and row in self._fingerprints]
        put("INSERT INTO rows VALUES (?, ?, ?)", [(run, n, self._fingerprints[n]) for n in new])

    def _place_of(self, step_id: str, after: RunState) -> int:
        if self._placed is not after.plan:
            self._placed = after.plan
            self._places = {step_id: at for at, step_id in enumerate(after.plan.ids)}
        return self._places[step_id]


class _Commit:
    """What the units of a commit wrote, and their text."""

    def __init__(self, files: Files, units: Sequence[Unit]) -> None:
        self._store = files
        self.events = 0
        self.rows: set[str] = set()
        self.moved: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
        """Noun -> the ids of those that changed, in order."""
        self.outputs: set[str] = set()
        """The steps whose output was recorded."""
        self.budgets: set[str] = set()
        self.files: list[str] = []
        for unit in units:
            for event in unit.events:
                self._see(event)
        self.text = units_text(units, self._keep)

    def _see(self, event: Event) -> None:
        self.events += 1
        self.rows.add(event.row)
        if event.changes:
            self.moved[event.noun][event.id] = None
            if "output" in event.changes:
                self.outputs.add(event.id)
        for budget, _ in event.spent:
            self.budgets.add(budget)

    def _keep(self, content: bytes) -> str:
        sha = self._store.keep(content)
        self.files.append(sha)
        return sha


def run_budgets(spent: Mapping[str, float]) -> str:
    """What the run as a whole has used; lineages have a table of their own."""
    names = sorted(name for name in BUDGETS if name in spent)
    return codec.text_of({name: spent[name] for name in names})


def _bodies(run: int, nouns: Sequence[Failure | Question]) -> Iterator[tuple[Any, ...]]:
    for noun in nouns:
        text = noun_text(noun, without=("number", "subject", "state"))
        yield run, noun.number, noun.subject, noun.state.value, text


def message_of(row: tuple[Any, ...]) -> Message:
    """A message of its columns."""
    token, word, subject, choice, said, raised_to, sent_at, *reply = row
    word, _, question = word.partition(" ")
    return Message(
        token=token,
        word=Word(word),
        question=question,
        subject=subject,
        choice=choice,
        said=said,
        raised_to=raised_to,
        sent_at=sent_at,
        reply=reply[0] if reply else None,
    )
