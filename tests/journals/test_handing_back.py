"""A run is handed back whatever happened to its driver, and words reach the question they mean."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopfsm.engine.loop import Loop
from loopfsm.errors import AnswerRefused, JournalRefused, LeaseHeld
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.journals.sqlite.lease import SqliteLease
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Policy
from loopfsm.model.record import Message, Origin, Word
from loopfsm.testing import Fails, FakeClock, Hangs, Returns, ScriptedTool
from loopfsm.tools.shell import ShellTool
from tests.engine.kit import plan_of, run
from tests.journals.kit import opened


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with opened(tmp_path / "journal.db", durability="process") as made:
        yield made


def loop_with(work: ScriptedTool, journal: SqliteJournal) -> Loop:
    """A run of one step."""
    return Loop(plan_of("a"), tools=[work], journal=journal, clock=FakeClock(), run_id="run")


def test_a_lease_that_could_not_be_given_back_binds_nobody(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at the wrong moment does not lock a program out of its own run (B33)."""

    def full(*_: object) -> None:
        raise JournalRefused("journal.db", "the disk is full", "Make room")

    loop = loop_with(ScriptedTool("work", [Returns(1)], idempotent=True), journal)
    with monkeypatch.context() as patched:
        patched.setattr(SqliteLease, "append", full)
        patched.setattr("loopfsm.journals.sqlite.schema.told", full)
        with pytest.raises(JournalRefused, match="full"):
            run(loop)
    assert LoopState.COMPLETED is run(loop).state


def test_an_event_loop_closed_under_its_driver_drives_nothing(journal: SqliteJournal) -> None:
    """Whoever comes next takes the run up."""
    work = ScriptedTool("work", [Hangs(), Returns(1)], idempotent=True)
    loop = loop_with(work, journal)
    events = asyncio.new_event_loop()
    driving = events.create_task(loop.run())
    while not work.calls:
        events.run_until_complete(asyncio.sleep(0))
    events.close()
    assert LoopState.COMPLETED is run(loop).state
    assert not driving.done()
    driving.get_coro().close()  # nobody awaits it
    driving._log_destroy_pending = False  # type: ignore[attr-defined]  # that is the case here


def test_a_word_that_comes_while_the_driver_leaves_is_taken_all_the_same(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was meant for the driver; when that has left, it is taken without one (B20)."""
    loop = loop_with(ScriptedTool("work", [Fails()]), journal)
    leaving, spoken = threading.Event(), threading.Event()
    heard: list[str] = []

    def speak() -> None:
        leaving.wait(20)
        threading.Timer(0.05, spoken.set).start()  # by then the word lies with the event loop
        loop.answer("a", "skip")
        heard.append("answered")

    hears = loop._driver._hears

    def slowly() -> bool:
        found = hears()
        leaving.set()
        spoken.wait(20)
        return found

    monkeypatch.setattr(loop._driver, "_hears", slowly)
    speaker = threading.Thread(target=speak)
    speaker.start()
    run(loop)
    speaker.join(20)
    assert ["answered"] == heard
    assert () == loop.outcome.questions


def test_an_answer_to_an_earlier_question_answers_no_later_one(journal: SqliteJournal) -> None:
    """Whoever read Q1 has said nothing about Q2 (B31)."""
    loop = loop_with(ScriptedTool("work", [Fails()]), journal)
    run(loop)
    loop.answer("a", "retry", question="Q1")
    run(loop)
    with pytest.raises(AnswerRefused, match="it answers Q1, and what is asked now is Q2"):
        loop.answer("a", "retry", question="Q1")
    word = Message(token="t", word=Word.ANSWER, subject="a", question="Q1", choice="retry")
    journal.send("run", word)
    assert LoopState.WAITING_FOR_HUMAN is run(loop).state
    sent = journal.message("run", "t")
    assert sent is not None
    assert ("Q1", False) == (sent.question, sent.accepted)
    assert "it answers Q1" in (sent.reply or "")


def test_a_journal_is_one_by_any_name(journal: SqliteJournal, tmp_path: Path) -> None:
    """Through a symbolic link the same log and the same files are used."""
    link = tmp_path / "link.db"
    link.symlink_to(journal.path)
    with opened(link, durability="process") as other:
        assert journal.path == other.path
        loop_with(ScriptedTool("work", [Returns("x" * 100_000)]), other).run_sync()
    record = journal.load("run")
    assert "x" * 100_000 == record.steps["a"].output


def test_a_forked_child_gives_nothing_back(journal: SqliteJournal) -> None:
    """The lease that it has a copy of is its parent's."""
    loop = loop_with(ScriptedTool("work", [Returns(1)]), journal)
    journal.create(loop.state, 0.0, Origin())
    lease = journal.acquire("run", 0.0, 30)
    lease._pid = os.getpid() + 1  # as in a child
    lease.release(0.0)
    assert journal.header("run").hold is not None
    lease._pid = os.getpid()
    lease.release(0.0)
    assert journal.header("run").hold is None


def test_long_outputs_of_programs_go_with_their_run(journal: SqliteJournal, tmp_path: Path) -> None:
    """They stand beside the journal as long as the run does, and no longer."""
    long = ShellTool(name="work", command="printf 12345")
    plan = attrs.evolve(plan_of("a"), policy=Policy(output_cap_bytes=3))
    loop = Loop(plan, tools=[long], journal=journal, run_id="run")
    kept = Path(loop.run_sync().outputs["a"]["stdout_file"])
    assert (b"12345", tmp_path / "journal.db.files") == (kept.read_bytes(), kept.parents[1])
    assert ("run",) == journal.prune()
    assert not kept.exists()


def test_a_journal_is_closed_with_its_block_or_when_nobody_holds_it(tmp_path: Path) -> None:
    """Neither leaves SQLite's log behind, or a warning."""
    with SqliteJournal(tmp_path / "one.db") as one:
        assert () == one.runs()
    two = SqliteJournal(tmp_path / "two.db")
    assert () == two.runs()
    del two
    gc.collect()
    assert ["one.db", "two.db"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_lease_is_this_process_s_from_the_commit_on(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread finds it committed and not yet held, and takes it over (B33)."""
    journal.create(loop_with(ScriptedTool("work"), journal).state, 0.0, Origin())

    def slowly(*args: Any) -> SqliteLease:
        monkeypatch.undo()
        with pytest.raises(LeaseHeld):  # what another thread would try at this moment
            journal.acquire("run", 0.0, 30)
        return SqliteLease(*args)

    monkeypatch.setattr("loopfsm.journals.sqlite.journal.SqliteLease", slowly)
    assert 1 == journal.acquire("run", 0.0, 30).epoch
