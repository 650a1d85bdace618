"""`loopfsm runs`: one line per run, and what `--prune` forgets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopfsm.journals.sqlite import SqliteJournal
from tests.cli.plans import Terminal, contents


def test_a_journal_that_is_not_there_has_no_runs(terminal: Terminal, journal: Path) -> None:
    """It is not made; one that somebody has named is missed."""
    code, shown, _ = terminal.do("runs")
    assert (0, f"no runs; journal: {journal} (LOOPFSM_JOURNAL)\n") == (code, shown)
    assert not journal.parent.exists()
    assert 2 == terminal.do("runs", "--journal", str(journal))[0]
    assert 2 == terminal.do("show", "last")[0]
    assert not journal.parent.exists()


def test_each_run_is_one_line(terminal: Terminal) -> None:
    """Oldest first: id, state, steps, goal."""
    first, second = terminal.parked(), terminal.parked()
    lines = terminal.do("runs")[1].splitlines()
    assert [first, second] == [line.split()[0] for line in lines]
    assert "WAITING_FOR_HUMAN" in lines[0]
    assert "3 steps" in lines[0]
    assert lines[0].endswith("tell them")


def test_who_drives_a_run_is_told(terminal: Terminal, journal: Path) -> None:
    """A living holder is one, a dead one is told as dead."""
    run_id = terminal.parked()
    driver = SqliteJournal(journal)
    lease = driver.acquire(run_id, 1e9, 30.0)
    assert f"driven by process {os.getpid()} on" in terminal.do("runs")[1]
    assert "(alive)" in terminal.do("show", run_id)[1]
    assert True is terminal.json("runs")[1][0]["runs"][0]["driver"]["alive"]
    lease.release(1e9)
    driver.close()
    assert None is terminal.json("runs")[1][0]["runs"][0]["driver"]


def test_a_dead_driver_is_told_as_dead(
    terminal: Terminal, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is gone, so anybody may take the run up."""
    run_id = terminal.parked()
    driver = SqliteJournal(journal)
    driver.acquire(run_id, 1e9, 30.0)
    monkeypatch.setattr("loopfsm.journals.sqlite.holder.started", lambda _: None)
    assert "[last driven by process" in terminal.do("runs")[1]
    assert "(dead)" in terminal.do("runs")[1]
    assert 3 == terminal.do("watch", run_id)[0]
    driver.close()


@pytest.mark.slow
def test_prune_forgets_what_has_ended(terminal: Terminal) -> None:
    """It says which; what still waits is kept."""
    ended, waiting = terminal.parked(), terminal.parked()
    terminal.do("cancel", ended)
    code, shown, _ = terminal.do("runs", "--prune")
    first, second = shown.splitlines()
    assert (0, f"forgotten: {ended}, ABSTAINED: tell them") == (code, first)
    assert second.startswith(waiting)
    assert [] == terminal.json("runs", "--prune")[1][0]["forgotten"]


def test_looking_makes_and_changes_no_file(terminal: Terminal, journal: Path) -> None:
    """The journal and its directory are byte for byte what they were."""
    terminal.parked()
    before = contents(journal.parent)
    for command in ("runs", "show last", "show last send", "trace last", "watch last"):
        terminal.do(*command.split())
        assert before == contents(journal.parent)


def test_a_read_only_journal_can_be_looked_at(terminal: Terminal, journal: Path) -> None:
    """A run that has ended is shown from a file and a directory that nobody can write to."""
    run_id = terminal.parked()
    terminal.do("cancel", run_id)
    journal.chmod(0o400)
    journal.parent.chmod(0o500)
    try:
        for command in ("runs", "show last", "show last send", "trace last", "resume last"):
            assert terminal.do(*command.split())[0] in (0, 4)
        assert 2 == terminal.do("runs", "--prune")[0]
    finally:
        journal.parent.chmod(0o700)
