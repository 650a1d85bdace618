"""The journal of one SQLite file."""

from __future__ import annotations

import difflib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import attrs

from loopfsm import codec, outputs
from loopfsm.errors import AnswerRefused, JournalRefused, LeaseHeld, NotSerialisable, UnknownRun
from loopfsm.journals.sqlite import holder as processes
from loopfsm.journals.sqlite import rows, schema
from loopfsm.journals.sqlite.files import Files
from loopfsm.journals.sqlite.lease import HELD_HERE, SqliteLease, Store, chained, message_of
from loopfsm.journals.sqlite.reading import Reading, made_sense
from loopfsm.model.event import Event
from loopfsm.model.loop_state import ENDED, LoopState, RunState
from loopfsm.model.plan import Plan
from loopfsm.model.record import Header, Hold, Holder, Message, Origin, Record, Restore
from loopfsm.model.step import EMPTY

T = TypeVar("T")

SYNCHRONOUS = {"full": "FULL", "process": "NORMAL"}
"""What a commit survives: a power failure, or the death of the process."""

CHUNK = 200
"""Commits that are read at a time."""

_HEADER = (
    "SELECT id, goal, state, created_at, changed_at, plan_steps, events, commits, hash, origin,"
    " library, epoch, host, boot, pid, started, held_until FROM runs JOIN heads ON run = number"
)


class SqliteJournal:
    """Runs in one SQLite file, with their large outputs in files beside it.

    Args:
        path: the file. It is made, readable by its owner alone, when it is not there.
        durability: "full": a commit survives a power failure; "process": it survives the death
            of the process, and the file is never damaged.
        read_only: open what is there, and change nothing.
        is_still: with `read_only`: for one look, which makes no file beside the journal. Of a
            journal that nobody has open, what is written from then on is not seen.

    Raises:
        JournalRefused: the file is foreign, damaged, newer or read-only; nothing was changed.
        ValueError: an unknown durability.

    One journal may be used by several runs and threads of a process, and by many processes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: str = "full",
        read_only: bool = False,
        is_still: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            known = ", ".join(map(repr, SYNCHRONOUS))
            raise ValueError(f"durability is {durability!r}, expected one of {known}")
        self.path = Path(os.path.realpath(path))  # by any name it is one journal, with one log
        synchronous = SYNCHRONOUS[durability]
        connection = schema.connect(
            self.path, to_write=not read_only, synchronous=synchronous, is_still=is_still
        )
        files = Files.beside(self.path, is_synced=durability == "full")
        self._store = Store(self.path, connection, files)
        self._reader = rows.Reader(files.fetch)

    def __repr__(self) -> str:
        return f"SqliteJournal({str(self.path)!r})"

    @property
    def durable(self) -> bool:
        return True

    def __enter__(self) -> SqliteJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Runs that are driven lose their journal."""
        with self._store.lock:
            self._store.connection.close()

    # Writing

    def create(self, state: RunState, now: float, origin: Origin) -> None:
        plan = state.plan
        try:
            for text in (state.run.id, plan.goal, *(spec.id for spec in plan.steps)):
                text.encode("utf-8")
            specs = list(_spec_rows(plan))
            policy = rows.noun_text(plan.policy, without=())
            beginning = codec.text_of([state.run.id, plan.goal, policy, plan.version, specs])
        except NotSerialisable:
            raise
        except (ValueError, UnicodeError) as error:
            raise NotSerialisable("the plan", str(error)) from error
        run = state.run
        with self._store.transaction() as connection:
            taken = connection.execute("SELECT 1 FROM runs WHERE id = ?", (run.id,)).fetchall()
            if taken:
                raise JournalRefused.of_taken_id(str(self.path), run.id)
            number = connection.execute(
                "INSERT INTO runs (id, goal, policy, plan_version, plan_steps, origin, library,"
                " codec, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    plan.goal,
                    policy,
                    plan.version,
                    len(plan.steps),
                    codec.text_of(attrs.asdict(origin)),
                    _version(),
                    codec.VERSION,
                    now,
                ),
            ).lastrowid
            connection.execute(
                "INSERT INTO heads (run, state, without, reason, spent, changed_at, events,"
                " commits, hash, epoch) VALUES (?, ?, '[]', '', '{}', ?, 0, 0, ?, 0)",
                (number, run.state.value, now, chained("", beginning)),
            )
            connection.executemany(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?)", [(number, *spec) for spec in specs]
            )

    def acquire(
        self, run_id: str, now: float, lease_s: float, rows: Mapping[str, str] = EMPTY
    ) -> SqliteLease:
        me = processes.this_process()
        with self._store.transaction() as connection:
            find = (
                "SELECT number, epoch, host, boot, pid, started, held_until"
                " FROM runs JOIN heads ON run = number WHERE id = ?"
            )
            found = connection.execute(find, (run_id,)).fetchone()
            if found is None:
                raise self._unknown(run_id)
            number, epoch, *held = found
            hold = _hold(epoch, held)
            is_ours = hold is not None and hold.holder == me
            if is_ours and (str(self.path), run_id, epoch) not in HELD_HERE:
                hold = None  # it was given back, and that could not be written
            if hold is not None:
                _refuse_if_held(run_id, hold, now)
            connection.execute(
                "UPDATE heads SET epoch = ?, host = ?, boot = ?, pid = ?, started = ?,"
                " held_until = ? WHERE run = ?",
                (epoch + 1, me.host, me.boot, me.pid, me.started, now + lease_s, number),
            )
            HELD_HERE.discard((str(self.path), run_id, epoch))
            HELD_HERE.add((str(self.path), run_id, epoch + 1))
        return SqliteLease(self._store, number, run_id, epoch + 1, lease_s, rows)

    def send(self, run_id: str, message: Message) -> None:
        number = self._number(run_id)
        try:
            with self._store.transaction() as connection:
                connection.execute(
                    "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                    (
                        number,
                        rows.sound(message.token),
                        f"{message.word.value} {message.question}".strip(),
                        rows.sound(message.subject),
                        rows.sound(message.choice),
                        rows.sound(message.said),
                        message.raised_to,
                        message.sent_at,
                    ),
                )
        except JournalRefused as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise AnswerRefused.of_used_token(message.choice, message.token) from None
            raise

    def prune(self) -> Sequence[str]:
        """Forget every run that has ended, and the files that no run uses; returns their ids."""
        ended = tuple(state.value for state in ENDED)
        marks = ", ".join("?" * len(ended))
        with self._store.transaction() as connection:
            query = (
                "SELECT number, id, epoch, host, boot, pid, started, held_until"
                f" FROM runs JOIN heads ON run = number WHERE state IN ({marks})"
            )
            over = connection.execute(query, ended).fetchall()
            found = [row[:2] for row in over if not _is_driven(_hold(row[2], row[3:]))]
            for number, _ in found:
                begin, end = schema.place_of(number, 0), schema.place_of(number + 1, 0)
                connection.execute("DELETE FROM commits WHERE place BETWEEN ? AND ?", (begin, end))
                for table in _TABLES_OF_A_RUN:
                    connection.execute(f"DELETE FROM {table} WHERE run = ?", (number,))
                connection.execute("DELETE FROM runs WHERE number = ?", (number,))
        if found:
            self._store.rows("VACUUM")
        for _, run_id in found:
            shutil.rmtree(self._store.files.output_dir(run_id), ignore_errors=True)
        files = self._store.files
        kept = tuple(files.kept())  # listed first: what is kept from now on is not looked at
        held = self._store.rows("SELECT epoch, host, boot, pid, started, held_until FROM heads")
        is_driven = any(_is_driven(_hold(row[0], row[1:])) for row in held)
        if not is_driven:  # else some file may be kept already, and its commit on its way
            used = {sha for (sha,) in self._store.rows("SELECT DISTINCT sha FROM files")}
            files.drop(sha for sha in kept if sha not in used)
        return tuple(run_id for _, run_id in found)

    def output_dir(self, run_id: str) -> Path | None:
        return self._store.files.output_dir(run_id)

    def keepable(self, output: Any, annotation: Any) -> Any:
        files = self._store.files
        return outputs.kept(output, annotation, files.keep, files.fetch)

    # Reading

    def header(self, run_id: str) -> Header:
        found = self._store.rows(f"{_HEADER} WHERE id = ?", run_id)
        if not found:
            raise self._unknown(run_id)
        return made_sense(self.path, run_id, partial(_header, found[0]))

    def runs(self) -> Sequence[Header]:
        found = self._store.rows(f"{_HEADER} ORDER BY number")
        return tuple(made_sense(self.path, row[0], partial(_header, row)) for row in found)

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        number = self._number(run_id)
        query = "SELECT place, first, units FROM commits WHERE place > ? AND place < ? LIMIT ?"
        seek = "SELECT max(place) - 1 FROM commits WHERE place > ? AND place < ? AND first <= ?"
        begin, end = schema.place_of(number, 0), schema.place_of(number + 1, 0)
        place = (self._store.rows(seek, begin, end, after + 1)[0][0] or begin) if after else begin
        while found := self._store.rows(query, place, end, CHUNK):
            for place, first, units in found:  # noqa: B007  # the last one is where to go on
                events = made_sense(self.path, run_id, partial(self._events, units))
                yield from events[max(after + 1 - first, 0) :]

    def _events(self, units: str) -> list[Event]:
        return list(self._reader.events(units))

    def message(self, run_id: str, token: str) -> Message | None:
        found = self._store.rows(
            "SELECT token, word, subject, choice, said, raised_to, sent_at, reply FROM inbox"
            " WHERE run = ? AND token = ?",
            self._number(run_id),
            rows.sound(token),
        )
        return message_of(found[0]) if found else None

    def load(self, run_id: str, restore: Restore | None = None) -> Record:
        with self._store.lock:
            self._store.rows("BEGIN")  # all that is read belongs to one commit
            try:
                return Reading(self._store, self._reader, self._number(run_id), restore).record()
            finally:
                with suppress(sqlite3.Error):
                    self._store.connection.execute("ROLLBACK")

    def _number(self, run_id: str) -> int:
        found = self._store.rows("SELECT number FROM runs WHERE id = ?", run_id)
        if not found:
            raise self._unknown(run_id)
        return int(found[0][0])

    def _unknown(self, run_id: str) -> UnknownRun:
        known = [name for (name,) in self._store.rows("SELECT id FROM runs ORDER BY number DESC")]
        near = difflib.get_close_matches(run_id, known[:1000], n=3)
        return UnknownRun(run_id, tuple(near or known[:3]))


_TABLES_OF_A_RUN = (
    "heads",
    "plan",
    "steps",
    "failures",
    "questions",
    "spent",
    "rows",
    "files",
    "inbox",
)


def _spec_rows(plan: Plan) -> Iterator[tuple[Any, ...]]:
    """What is kept of each step of a plan; needs are positions."""
    places = {step_id: at for at, step_id in enumerate(plan.ids)}
    for at, spec in enumerate(plan.steps):
        needs = codec.text_of([places[need] for need in spec.needs])
        verifier = spec.verify.tool if spec.verify else None
        yield at, spec.id, needs, spec.tool, verifier, rows.spec_text(spec, f"steps[{at}]")


def _header(row: tuple[Any, ...]) -> Header:
    (run_id, goal, state, created_at, changed_at, steps, events, commits, end, origin, *rest) = row
    library, epoch, *held = rest
    return Header(
        run_id=run_id,
        goal=goal,
        state=LoopState(state),
        created_at=created_at,
        changed_at=changed_at,
        steps=steps,
        events=events,
        commits=commits,
        hash=end,
        origin=Origin(**codec.data_of(origin)),
        hold=_hold(epoch, held),
        version=library,
    )


def _hold(epoch: int, held: Sequence[Any]) -> Hold | None:
    host, boot, pid, started, until = held
    if pid is None:
        return None
    return Hold(
        holder=Holder(host=host, boot=boot, pid=pid, started=started), epoch=epoch, until=until
    )


def _is_driven(hold: Hold | None) -> bool:
    """Whether somebody may still write; a process that died in its last commit does not."""
    return hold is not None and processes.is_gone(hold.holder) is not True


def _refuse_if_held(run_id: str, hold: Hold, now: float) -> None:
    """A dead holder is no holder; one on another host is, until its lease is over."""
    gone = processes.is_gone(hold.holder)
    if gone or (gone is None and hold.until <= now):
        return
    until = f"until {processes.local_time(hold.until)} at least"
    if gone is None:
        instead = f"Wait {until}: if it says nothing by then, the run is free"
    else:
        instead = f"Wait until it has left, or end it (kill {hold.holder.pid}) and resume"
    problem = f"the run {run_id} is being driven by {hold.holder}, which holds it {until}"
    raise LeaseHeld(problem, instead, run_id, str(hold.holder), hold.until)


def _version() -> str:
    try:
        return metadata.version("loopfsm")
    except metadata.PackageNotFoundError:  # run from a copy of the sources
        return ""
