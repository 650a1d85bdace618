"""A journal in memory: the run can be read by this process, and by no other.

A run may have millions of events, so they are not kept as objects: one flat list per run
holds the fields of one event after the other. What recurs - the names of changed fields and
of facts, what was spent - is kept once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field

from loopfsm.errors import AnswerRefused, JournalRefused, LeaseHeld, LeaseLost, UnknownRun
from loopfsm.model.event import Event, Unit
from loopfsm.model.loop_state import RunState
from loopfsm.model.record import Header, Hold, Holder, Message, Origin, Record, Restore
from loopfsm.model.step import EMPTY, FINAL

THIS_PROCESS = Holder(host="this process", boot="", pid=0, started="")
"""Nobody else can see the journal."""


@define
class _Kept:
    """What is known of one run beside its events."""

    state: RunState
    origin: Origin
    created_at: float
    changed_at: float
    epoch: int = 0
    held_until: float | None = None
    inbox: dict[str, Message] = field(factory=dict)
    rows: dict[str, str] = field(factory=dict)


class MemoryJournal:
    """Keeps every event of its runs until it is dropped."""

    durable = False

    def __init__(self) -> None:
        self._events: dict[str, list[Any]] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        """Run -> its events and its commits."""
        self._recurring: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.RLock()

    # Writing

    def create(self, state: RunState, now: float, origin: Origin) -> None:
        """Keep a new run; `JournalRefused` when its id is taken."""
        with self._lock:
            if state.run.id in self._kept:
                raise JournalRefused.of_taken_id("memory", state.run.id)
            self._kept[state.run.id] = _Kept(state, origin, now, now)

    def acquire(
        self, run_id: str, now: float, lease_s: float, rows: Mapping[str, str] = EMPTY
    ) -> MemoryLease:
        """Take the lease of a run; `LeaseHeld` when a loop of this process drives it."""
        with self._lock:
            kept = self.kept(run_id)
            if kept.held_until is not None:
                problem = f"the run {run_id} is being driven in this process"
                instead = "Await the first driver instead"
                until = kept.held_until
                raise LeaseHeld(problem, instead, run_id, str(THIS_PROCESS), until)
            kept.epoch += 1
            kept.held_until = now + lease_s
            return MemoryLease(self, kept, run_id, kept.epoch, lease_s, rows)

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        """Keep the events of the units, all or none, in order."""
        flat: list[Any] = []
        once = self._recurring.setdefault
        count, commits = self._counts.get(run_id, (0, 0))
        for unit in units:
            for event in unit.events:
                changed, read = tuple(event.changes), tuple(event.facts)
                flat += (event.row, event.noun, event.id, event.at, event.attempt)
                flat += (once(changed, changed), once(read, read), once(event.spent, event.spent))
                flat += event.changes.values()
                flat += event.facts.values()
                count += 1
        self._events.setdefault(run_id, []).extend(flat)
        self._counts[run_id] = (count, commits + 1)

    def send(self, run_id: str, message: Message) -> None:
        """Leave a word for whoever drives the run; `AnswerRefused` when its token is used."""
        with self._lock:
            inbox = self.kept(run_id).inbox
            if message.token in inbox:
                raise AnswerRefused.of_used_token(message.choice, message.token)
            inbox[message.token] = message

    def output_dir(self, run_id: str) -> Path | None:
        """Wherever the tool finds a place: the run lasts no longer than this process."""
        return None

    def keepable(self, output: Any, annotation: Any) -> Any:
        """Whatever a tool returned: this process still has it."""
        return output

    # Reading

    def header(self, run_id: str) -> Header:
        """What is known of a run; `UnknownRun` when there is none of that id."""
        kept = self.kept(run_id)
        events, commits = self._counts.get(run_id, (0, 0))
        until = kept.held_until
        hold = None if until is None else Hold(holder=THIS_PROCESS, epoch=kept.epoch, until=until)
        return Header(
            run_id=run_id,
            goal=kept.state.run.goal,
            state=kept.state.run.state,
            created_at=kept.created_at,
            changed_at=kept.changed_at,
            steps=len(kept.state.plan.steps),
            events=events,
            commits=commits,
            hash="",
            origin=kept.origin,
            hold=hold,
        )

    def load(self, run_id: str, restore: Restore | None = None) -> Record:
        """Read the nouns of a run back, as they are."""
        kept = self.kept(run_id)
        state = kept.state
        return Record(
            run=state.run,
            plan=state.plan,
            steps=state.steps,
            tools=_tools_of(state),
            failures=tuple(state.failures.values()),
            questions=tuple(state.questions.values()),
            spent=state.spent,
            rows=kept.rows,
            epoch=kept.epoch,
        )

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """Every event of the run from number `after` + 1 on, in order; numbers count from 1."""
        self.kept(run_id)
        return islice(self._all_events(run_id), after, None)

    def _all_events(self, run_id: str) -> Iterator[Event]:
        fields = iter(tuple(self._events.get(run_id, ())))
        for row in fields:
            noun, noun_id, at, attempt, changed, read, spent = (next(fields) for _ in range(7))
            changes = {name: next(fields) for name in changed} or EMPTY
            facts = {name: next(fields) for name in read} or EMPTY
            yield Event(row, noun, noun_id, at, attempt, changes, facts, spent)

    def commits(self, run_id: str) -> int:
        """How many times something was appended."""
        return self._counts.get(run_id, (0, 0))[1]

    def runs(self) -> Sequence[Header]:
        """Every run, oldest first."""
        return tuple(map(self.header, self._kept))

    def message(self, run_id: str, token: str) -> Message | None:
        """The word of that token, with its reply if there is one."""
        return self.kept(run_id).inbox.get(token)

    def kept(self, run_id: str) -> _Kept:
        """What is kept of a run."""
        try:
            return self._kept[run_id]
        except KeyError:
            raise UnknownRun(run_id, tuple(self._kept)[-3:]) from None


def _tools_of(state: RunState) -> Mapping[str, int]:
    """The tools that unfinished steps need, each with the position of the first such step."""
    found: dict[str, int] = {}
    for at, spec in enumerate(state.plan.steps):
        if state.step(spec.id).state not in FINAL:
            for name in (spec.tool, *((spec.verify.tool,) if spec.verify else ())):
                found.setdefault(name, at)
    return found


@define
class MemoryLease:
    """Implements `ports.Lease`."""

    _journal: MemoryJournal
    _kept: _Kept
    _run_id: str
    epoch: int
    _lease_s: float
    _fingerprints: Mapping[str, str]

    def append(
        self,
        units: Iterable[Unit],
        after: RunState,
        now: float,
        replies: Mapping[str, str] = EMPTY,
    ) -> None:
        """One commit; it lasts as long as the process."""
        units = tuple(units)
        self.renew(now)
        if units:
            self._journal.append(self._run_id, units)
        kept = self._kept
        kept.state, kept.changed_at = after, now
        for unit in units:
            for event in unit.events:
                if event.row not in kept.rows and event.row in self._fingerprints:
                    kept.rows[event.row] = self._fingerprints[event.row]
        for token, reply in replies.items():
            if token in kept.inbox:
                kept.inbox[token] = attrs.evolve(kept.inbox[token], reply=reply)

    def messages(self) -> Sequence[Message]:
        """What was sent and nobody has read, oldest first."""
        unread = (each for each in self._kept.inbox.values() if each.reply is None)
        return tuple(sorted(unread, key=lambda each: (each.sent_at, each.token)))

    def renew(self, now: float) -> None:
        """Say that the driver is still there."""
        if self._kept.epoch != self.epoch or self._kept.held_until is None:
            raise LeaseLost.to_another(self._run_id, self.epoch)
        self._kept.held_until = now + self._lease_s

    def release(self, now: float) -> None:
        """Let the next driver in."""
        if self._kept.epoch == self.epoch:
            self._kept.held_until = None
