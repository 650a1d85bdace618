"""The journal of one SQLite file."""

from __future__ import annotations

import difflib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import attrs

from loopfsm import codec
from loopfsm.errors import AnswerRefused, JournalRefused, LeaseHeld, NotSerialisable, UnknownRun
from loopfsm.journals.sqlite import holder as processes
from loopfsm.journals.sqlite import rows, schema
from loopfsm.journals.sqlite.files import Files
from loopfsm.journals.sqlite.lease import SqliteLease, Store, chained, message_of
from loopfsm.model.event import Event
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import ENDED, LoopState, Run, RunState, StepSource, StoredSteps
from loopfsm.model.plan import Plan, Policy, StoredSpecs
from loopfsm.model.question import Question
from loopfsm.model.record import Header, Hold, Holder, Message, Origin, Record, Restore
from loopfsm.model.step import EMPTY, FINAL, Step, StepSpec, StepState, Unreadable

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
        self.path = Path(path).absolute()
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
        except (ValueError, UnicodeError) as error:
            raise NotSerialisable("the plan", str(error)) from error
        run = state.run
        with self._store.transaction() as connection:
            taken = connection.execute("SELECT 1 FROM runs WHERE id = ?", (run.id,)).fetchall()
            if taken:
                problem = f"it has a run {run.id!r} already"
                instead = "Resume that one, or give the new one another id"
                raise JournalRefused(str(self.path), problem, instead)
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
            if hold is not None:
                _refuse_if_held(run_id, hold, now)
            connection.execute(
                "UPDATE heads SET epoch = ?, host = ?, boot = ?, pid = ?, started = ?,"
                " held_until = ? WHERE run = ?",
                (epoch + 1, me.host, me.boot, me.pid, me.started, now + lease_s, number),
            )
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
                        message.word.value,
                        rows.sound(message.subject),
                        rows.sound(message.choice),
                        rows.sound(message.said),
                        message.raised_to,
                        message.sent_at,
                    ),
                )
        except JournalRefused as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                problem = f"the token {message.token!r} was used before"
                raise AnswerRefused(message.choice, problem, ()) from None
            raise

    def prune(self) -> Sequence[str]:
        """Forget every run that has ended, and the files that no run uses; returns their ids."""
        ended = tuple(state.value for state in ENDED)
        marks = ", ".join("?" * len(ended))
        with self._store.transaction() as connection:
            query = (
                "SELECT number, id FROM runs JOIN heads ON run = number"
                f" WHERE state IN ({marks}) AND pid IS NULL"
            )
            found = connection.execute(query, ended).fetchall()
            for number, _ in found:
                begin, end = schema.place_of(number, 0), schema.place_of(number + 1, 0)
                connection.execute("DELETE FROM commits WHERE place BETWEEN ? AND ?", (begin, end))
                for table in _TABLES_OF_A_RUN:
                    connection.execute(f"DELETE FROM {table} WHERE run = ?", (number,))
                connection.execute("DELETE FROM runs WHERE number = ?", (number,))
        if found:
            self._store.rows("VACUUM")
        files = self._store.files
        used = {sha for (sha,) in self._store.rows("SELECT DISTINCT sha FROM files")}
        driven = self._store.rows("SELECT 1 FROM heads WHERE pid IS NOT NULL LIMIT 1")
        if not driven:  # else some file may be kept already, and its commit on its way
            files.drop(sha for sha in files.kept() if sha not in used)
        return tuple(run_id for _, run_id in found)

    def keepable(self, output: Any, annotation: Any) -> Any:
        files = self._store.files
        return codec.kept(output, annotation, files.keep, files.fetch)

    # Reading

    def header(self, run_id: str) -> Header:
        found = self._store.rows(f"{_HEADER} WHERE id = ?", run_id)
        if not found:
            raise self._unknown(run_id)
        return _header(found[0])

    def runs(self) -> Sequence[Header]:
        return tuple(map(_header, self._store.rows(f"{_HEADER} ORDER BY number")))

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        number = self._number(run_id)
        query = "SELECT place, first, units FROM commits WHERE place > ? AND place < ? LIMIT ?"
        seek = "SELECT max(place) - 1 FROM commits WHERE place > ? AND place < ? AND first <= ?"
        begin, end = schema.place_of(number, 0), schema.place_of(number + 1, 0)
        place = (self._store.rows(seek, begin, end, after + 1)[0][0] or begin) if after else begin
        while found := self._store.rows(query, place, end, CHUNK):
            for place, first, units in found:  # noqa: B007  # the last one is where to go on
                events = self._read(run_id, partial(self._events, units))
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
                return self._read(run_id, partial(self._load, run_id, restore))
            finally:
                with suppress(sqlite3.Error):
                    self._store.connection.execute("ROLLBACK")

    def _load(self, run_id: str, restore: Restore | None) -> Record:
        find = self._store.rows
        columns = "number, goal, state, without, reason, spent, policy, plan_version, codec, epoch"
        found = find(f"SELECT {columns} FROM runs JOIN heads ON run = number WHERE id = ?", run_id)
        if not found:
            raise self._unknown(run_id)
        number, goal, state, without, reason, used, policy, version, written, epoch = found[0]
        spent = find("SELECT budget, amount FROM spent WHERE run = ?", number)
        if written > codec.VERSION:
            problem = f"the run {run_id!r} was written by a newer version of loopfsm"
            raise JournalRefused(str(self.path), problem, "Upgrade loopfsm to read it")
        noun = self._reader.noun
        plan = Plan(
            goal=goal,
            steps=self._specs(number),
            policy=noun(Policy, policy),
            version=version,
        )
        run = Run(
            id=run_id,
            goal=goal,
            state=LoopState(state),
            without=tuple(codec.data_of(without)),
            reason=reason,
        )
        body = "SELECT number, subject, state, body FROM {} WHERE run = ? ORDER BY number"
        return Record(
            run=run,
            plan=plan,
            steps=self._steps(number, plan, restore),
            failures=[
                noun(Failure, text, number=n, subject=subject, state=stands)
                for n, subject, stands, text in find(body.format("failures"), number)
            ],
            questions=[
                noun(Question, text, number=n, subject=subject, state=stands)
                for n, subject, stands, text in find(body.format("questions"), number)
            ],
            tools=self._tools(number),
            spent={**codec.data_of(used), **dict(spent)},
            rows=dict(find("SELECT row, fingerprint FROM rows WHERE run = ?", number)),
            epoch=epoch,
        )

    def _specs(self, number: int) -> StoredSpecs:
        query = "SELECT id, needs FROM plan WHERE run = ? ORDER BY position"
        found = self._store.rows(query, number)
        ids = [step_id for step_id, _ in found]
        # One parse for all; a name that stands in many places is one text.
        listed = codec.data_of(f"[{','.join([needs for _, needs in found])}]")
        needs = [tuple([ids[at] for at in places]) for places in listed]
        return StoredSpecs(ids, needs, partial(self._spec, number, ids, needs))

    def _spec(
        self, number: int, ids: Sequence[str], needs: Sequence[tuple[str, ...]], at: int
    ) -> StepSpec:
        query = "SELECT tool, body FROM plan WHERE run = ? AND position = ?"
        ((tool, body),) = self._store.rows(query, number, at)
        spec: StepSpec = self._reader.noun(StepSpec, body, id=ids[at], needs=needs[at], tool=tool)
        return spec

    def _steps(self, number: int, plan: Plan, restore: Restore | None) -> StoredSteps:
        ids = plan.ids
        found = self._store.rows("SELECT position, state FROM steps WHERE run = ?", number)
        stands = {ids[position]: _STATES[state] for position, state in found}
        places = {step_id: at for at, step_id in enumerate(ids)}

        def make(step_id: str) -> Step:
            return self._step(number, places[step_id], plan.steps[places[step_id]], restore)

        return StoredSteps(StepSource(places, stands, make))

    def _step(self, number: int, at: int, spec: StepSpec, restore: Restore | None) -> Step:
        """A step of its row; it has none before it moves."""
        columns = ", ".join(rows.STEP_COLUMNS)
        query = f"SELECT output_in, {columns} FROM steps WHERE run = ? AND position = ?"
        found = self._store.rows(query, number, at)
        if not found:
            return Step(spec=spec)
        output_in, *row = found[0]
        output = None if output_in is None else self._output(number, output_in, spec, restore)
        return self._reader.step(spec, tuple(row), output)

    def _output(self, number: int, commit: int, spec: StepSpec, restore: Restore | None) -> Any:
        place = schema.place_of(number, commit)
        ((units,),) = self._store.rows("SELECT units FROM commits WHERE place = ?", place)
        try:
            output = self._reader.output(units, spec.id)
        except (KeyError, ValueError) as error:
            return Unreadable(str(error.args[0] if error.args else error))
        return output if restore is None else restore(spec.tool, output)

    def _tools(self, number: int) -> Mapping[str, int]:
        """The tools that unfinished steps need, each with the position of the first such step."""
        final = ", ".join(f"'{state.value}'" for state in FINAL)
        query = (
            "SELECT {0}, min(position) FROM plan WHERE run = ? AND {0} IS NOT NULL AND position"
            f" NOT IN (SELECT position FROM steps WHERE run = ? AND state IN ({final}))"
            " GROUP BY {0}"
        )
        found: dict[str, int] = {}
        for column in ("tool", "verifier"):
            found.update(self._store.rows(query.format(column), number, number))
        return found

    def _read(self, run_id: str, read: Callable[[], T]) -> T:
        """What `read` returns; what cannot be made sense of is a damaged or foreign row."""
        try:
            return read()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            says = f"the run {run_id!r} cannot be read: {error}"
            raise schema.damaged(self.path, says) from error

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


_STATES = {state.value: state for state in StepState}


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
