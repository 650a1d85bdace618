"""What every journal promises: one suite for the one in memory and the one in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings

from loopfsm.engine.inputs import Accepted, Drive, Park, Refuse
from loopfsm.engine.state import new_run, state_from
from loopfsm.errors import AnswerRefused, JournalRefused, LeaseHeld, LeaseLost, UnknownRun
from loopfsm.model.event import Event, Unit
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Plan
from loopfsm.model.record import Message, Word
from loopfsm.model.step import StepState
from loopfsm.ports import Journal
from tests.engine.kit import answer, done, failed, folded, indexes, plan_of, run, spec
from tests.engine.walks import CORE as WALKED
from tests.engine.walks import Calls, calls, plans, walk
from tests.journals.contract import WAYS
from tests.journals.kit import KINDS, ORIGIN, ROWS, Driven, journal_of, loaded, told

PLAN = plan_of("a", spec("b", "a", idempotent=True))


@pytest.fixture(params=KINDS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """A new journal of each kind."""
    with journal_of(request.param, tmp_path / "journal.db") as made:
        yield made


# ------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_read_back_as_it_stands(way: str, journal: Journal) -> None:
    """Nouns and indexes, one by one, equal those of the process that drove the run (D22)."""
    loop = WAYS[way](journal)
    run(loop)
    assert indexes(loop.state) == loaded(journal)


@pytest.mark.parametrize("way", WAYS)
def test_the_events_lead_to_the_nouns(way: str, journal: Journal) -> None:
    """Their changes, written over the nouns of the beginning, give those of the end (D22, X7)."""
    loop = WAYS[way](journal)
    run(loop)
    events = list(journal.events("run"))
    assert indexes(folded(new_run(loop.state.plan, "run"), events)) == loaded(journal)


@pytest.mark.parametrize("way", WAYS)
def test_events_are_the_same_in_every_journal(way: str, tmp_path: Path) -> None:
    """Order, row, noun, moment, changes as values, facts and what was spent (X7)."""
    kept = []
    for kind in KINDS:
        with journal_of(kind, tmp_path / kind) as each:
            run(WAYS[way](each))
            kept.append(told(each.events("run")))
    assert kept[0] == kept[1] == kept[2]


def test_events_can_be_read_from_any_number_on(journal: Journal) -> None:
    """`after` counts from 1, across the borders of commits; past the end there are none."""
    run(WAYS["retries"](journal))
    events = list(journal.events("run"))
    assert len(events) > 20
    for after in range(len(events) + 2):
        assert events[after:] == list(journal.events("run", after))


def test_a_run_nobody_drove_is_as_it_was_made(journal: Journal) -> None:
    """The plan is kept when the run is, before anything has happened."""
    state = new_run(PLAN, "run")
    journal.create(state, 5.0, ORIGIN)
    assert indexes(state) == loaded(journal)
    header = journal.header("run")
    assert ([], 0, 0) == (list(journal.events("run")), header.events, header.commits)


@pytest.mark.slow
@settings(max_examples=60)
@given(plans(), calls())
def test_whatever_happens_both_journals_keep_the_same(plan: Plan, numbers: Calls) -> None:
    """A random run, commit by commit: equal events, and nouns equal to the state (D22)."""
    with (
        tempfile.TemporaryDirectory() as directory,
        journal_of("memory", Path(directory)) as memory,
        journal_of("process", Path(directory) / "journal.db") as sqlite,
    ):
        both, last = (memory, sqlite), new_run(plan, "run")
        for each in both:
            each.create(last, 0.0, ORIGIN)
        leases = [each.acquire("run", 0.0, 30, ROWS) for each in both]
        for taken in walk(plan, numbers, WALKED):
            last, units, _ = taken.advanced
            for lease in leases:
                lease.append(units, last, taken.now)
        assert told(memory.events("run")) == told(sqlite.events("run"))
        assert indexes(last) == loaded(sqlite) == loaded(memory)


# ------------------------------------------------------------------ commits


def test_a_commit_is_kept_whole_or_not_at_all(journal: Journal) -> None:
    """What breaks while the units are handed over leaves everything as it was (B6)."""
    driven = Driven.on(journal, PLAN)
    before = loaded(journal), list(journal.events("run")), journal.header("run")
    state, units, _ = driven.core.advance(driven.state, [done("a")], 1.0)

    def broken() -> Iterator[Unit]:
        yield units[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driven.lease.append(broken(), state, 1.0)
    after = loaded(journal), list(journal.events("run")), journal.header("run")
    assert before == after
    driven.give(done("a"))
    assert indexes(driven.state) == loaded(journal)


def test_the_rows_that_were_used_are_kept_with_their_fingerprint(journal: Journal) -> None:
    """Each once, when it is used first; no other."""
    driven = Driven.on(journal, PLAN)
    driven.give(done("a"))
    used = {event.row for event in journal.events("run")} & set(ROWS)
    assert {name: ROWS[name] for name in used} == dict(journal.load("run").rows)
    assert "STEP-03" in used


def test_the_header_says_where_a_run_stands(journal: Journal) -> None:
    """Goal, state, size, times, who drives it, and where it came from."""
    driven = Driven.on(journal, PLAN, lease_s=30)
    driven.give(done("a"), after=7.0)
    header = journal.header("run")
    assert ("run", PLAN.goal, driven.state.run.state) == (header.run_id, header.goal, header.state)
    assert (2, 2, len(list(journal.events("run")))) == (header.steps, header.commits, header.events)
    assert (0.0, 7.0, ORIGIN) == (header.created_at, header.changed_at, header.origin)
    assert header.hold is not None
    assert (1, 37.0) == (header.hold.epoch, header.hold.until)
    driven.lease.release(8.0)
    assert journal.header("run").hold is None


def test_an_empty_commit_is_none(journal: Journal) -> None:
    """Replies alone make no event and no link of the chain."""
    driven = Driven.on(journal, PLAN)
    before = journal.header("run")
    driven.lease.append((), driven.state, 3.0, {"nobody's": ""})
    after = journal.header("run")
    assert (before.commits, before.events, before.hash) == (after.commits, after.events, after.hash)


# ------------------------------------------------------------------ runs


def test_an_id_is_taken_once(journal: Journal) -> None:
    """A second run of the same id is refused, and the first is as it was."""
    driven = Driven.on(journal, PLAN)
    with pytest.raises(JournalRefused, match=r"it has a run 'run' already\. Resume that one"):
        journal.create(new_run(plan_of("z"), "run"), 1.0, ORIGIN)
    assert indexes(driven.state) == loaded(journal)


def test_runs_are_listed_oldest_first(journal: Journal) -> None:
    """Each with its own header; they share nothing."""
    runs = [Driven.on(journal, PLAN, name) for name in ("r2", "r1", "r3")]
    runs[1].give(done("a"))
    assert ["r2", "r1", "r3"] == [each.run_id for each in journal.runs()]
    assert [journal.header(name) for name in ("r2", "r1", "r3")] == list(journal.runs())
    for driven in runs:
        assert indexes(driven.state) == loaded(journal, driven.state.run.id)


def test_an_unknown_run_is_refused_with_what_is_known(journal: Journal) -> None:
    """Whatever is asked of it: the error names the runs that were perhaps meant."""
    for name in ("nightly-1", "weekly"):
        Driven.on(journal, PLAN, name)
    message = Message(token="t", word=Word.CANCEL)
    for ask in (
        lambda: journal.header("nightly-2"),
        lambda: journal.load("nightly-2"),
        lambda: list(journal.events("nightly-2")),
        lambda: journal.acquire("nightly-2", 0.0, 30),
        lambda: journal.send("nightly-2", message),
        lambda: journal.message("nightly-2", "t"),
    ):
        with pytest.raises(UnknownRun, match=r"no run 'nightly-2'.*nightly-1") as refused:
            ask()
        assert "nightly-1" in refused.value.known


def test_an_empty_journal_knows_no_run(journal: Journal) -> None:
    """It says so."""
    with pytest.raises(UnknownRun, match="it has none"):
        journal.header("run")
    assert () == tuple(journal.runs())


# ------------------------------------------------------------------ the lease


def test_one_driver_at_a_time(journal: Journal) -> None:
    """Whoever comes second is told who drives the run, and until when (B33)."""
    Driven.on(journal, PLAN, lease_s=30)
    with pytest.raises(LeaseHeld) as held:
        journal.acquire("run", 10.0, 30, ROWS)
    header = journal.header("run")
    assert header.hold is not None
    assert ("run", 30.0) == (held.value.run_id, held.value.until)
    assert str(header.hold.holder) == held.value.holder


def test_each_driver_has_its_epoch(journal: Journal) -> None:
    """It rises by one, so that what an earlier driver still says is told apart."""
    driven = Driven.on(journal, PLAN)
    epochs = [driven.lease.epoch]
    for now in (1.0, 2.0):
        driven.lease.release(now)
        driven.lease = journal.acquire("run", now, 30, ROWS)
        epochs.append(driven.lease.epoch)
    assert ([1, 2, 3], 3) == (epochs, journal.load("run").epoch)


def test_a_lease_is_renewed(journal: Journal) -> None:
    """By saying so, and by every commit."""
    driven = Driven.on(journal, PLAN, lease_s=30)
    until = []
    for work in (lambda: driven.lease.renew(10.0), lambda: driven.give(done("a"), after=20.0)):
        work()
        hold = journal.header("run").hold
        assert hold is not None
        until.append(hold.until)
    assert [40.0, 50.0] == until


def test_who_lost_the_lease_writes_nothing(journal: Journal) -> None:
    """Also when the new driver has committed meanwhile; giving it back takes it from nobody."""
    old = Driven.on(journal, PLAN)
    old.lease.release(0.0)
    state, units, _ = old.core.advance(old.state, [done("a")], 1.0)
    with pytest.raises(LeaseLost):  # given back is lost, too
        old.lease.append(units, state, 1.0)
    new = Driven(journal, old.state)
    new.lease = journal.acquire("run", 1.0, 30, ROWS)
    for _ in range(2):
        before = loaded(journal), list(journal.events("run")), journal.header("run")
        acts: tuple[Callable[[], None], ...] = (
            lambda: old.lease.append(units, state, 2.0),
            lambda: old.lease.append((), state, 2.0, {"t": ""}),
            lambda: old.lease.renew(2.0),
        )
        for work in acts:
            with pytest.raises(LeaseLost) as lost:
                work()
            assert ("run", 1) == (lost.value.run_id, lost.value.epoch)
        old.lease.release(2.0)
        assert before == (loaded(journal), list(journal.events("run")), journal.header("run"))
        new.give(failed("a"))
    assert indexes(new.state) == loaded(journal)


# ------------------------------------------------------------------ messages


def sent(token: str, at: float = 0.0, **words: object) -> Message:
    """An answer on its way."""
    plain = {"word": Word.ANSWER, "subject": "a", "choice": "retry", **words}
    return Message(**{"token": token, "sent_at": at, **plain})  # type: ignore[arg-type]  # tests


def test_messages_are_read_oldest_first(journal: Journal) -> None:
    """Those of the same moment in the order of their tokens; every word of them is there."""
    driven = Driven.on(journal, PLAN)
    odd = sent("b", 2.0, said="\u00e4\0\n'", raised_to=2.5)
    first, cancel = sent("z", 1.0), sent("a", 2.0, word=Word.CANCEL, subject="run", choice="")
    for message in (odd, first, cancel):
        journal.send("run", message)
    assert (first, cancel, odd) == tuple(driven.lease.messages())


def test_a_reply_settles_a_message(journal: Journal) -> None:
    """It is kept with the commit that it belongs to, and the message is read no more (B6)."""
    driven = Driven.on(journal, PLAN)
    for token in ("good", "bad", "later"):
        journal.send("run", sent(token))
    driven.give(done("a"), replies={"good": "", "bad": "no question is open", "unsent": ""})
    assert ["later"] == [message.token for message in driven.lease.messages()]
    replies = {token: journal.message("run", token) for token in ("good", "bad", "later")}
    assert {"good": "", "bad": "no question is open", "later": None} == {
        token: message and message.reply for token, message in replies.items()
    }
    assert [True, False, False] == [m is not None and m.accepted for m in replies.values()]
    assert journal.message("run", "unsent") is None


def test_a_token_is_used_once(journal: Journal) -> None:
    """Also when its word was read and answered long ago; another run has its own tokens."""
    driven = Driven.on(journal, PLAN)
    journal.send("run", sent("t"))
    for replies in ({}, {"t": ""}):
        driven.give(Park(), replies=replies)
        with pytest.raises(AnswerRefused, match="the token 't' was used before"):
            journal.send("run", sent("t", 9.0, choice="stop"))
    kept = journal.message("run", "t")
    assert (sent("t"), "") == (kept and attrs.evolve(kept, reply=None), kept and kept.reply)
    Driven.on(journal, PLAN, "other")
    journal.send("other", sent("t"))


def test_a_message_is_of_its_run(journal: Journal) -> None:
    """Another run's driver neither reads it nor settles it."""
    one, other = Driven.on(journal, PLAN), Driven.on(journal, PLAN, "other")
    journal.send("run", sent("t"))
    other.give(Drive(), replies={"t": ""})
    assert ((), 1) == (tuple(other.lease.messages()), len(one.lease.messages()))


def test_a_refused_commit_settles_no_message(journal: Journal) -> None:
    """Reply and units stand and fall together."""
    driven = Driven.on(journal, PLAN)
    journal.send("run", sent("t"))
    driven.lease.release(1.0)
    with pytest.raises(LeaseLost):
        driven.give(done("a"), replies={"t": ""})
    kept = journal.message("run", "t")
    assert (True, None) == (kept is not None, kept and kept.reply)


def test_an_answer_of_the_core_is_replied_to(journal: Journal) -> None:
    """Accepted and refused words come back as commands, and end in the journal as they do."""
    driven = Driven.on(journal, plan_of("a"))
    driven.give(failed("a"))
    commands = driven.give(answer("a", "stop", "one"), answer("a", "stop", "two"))
    kinds = {each.token: type(each) for each in commands if isinstance(each, (Accepted, Refuse))}
    assert {"one": Accepted, "two": Refuse} == kinds
    assert (LoopState.ABSTAINED, StepState.ABSTAINED) == (
        state_from(journal.load("run")).run.state,
        state_from(journal.load("run")).step("a").state,
    )


def test_no_event_is_shared(journal: Journal) -> None:
    """What was read can be read again, and again is the same."""
    run(WAYS["judged"](journal))
    one, two = list(journal.events("run")), list(journal.events("run"))
    assert one == two
    assert all(isinstance(event, Event) for event in one)
