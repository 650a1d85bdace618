"""Who holds a run, and whether that process is still there."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from loopfsm.errors import LeaseHeld
from loopfsm.journals.sqlite import holder
from loopfsm.journals.sqlite.journal import SqliteJournal
from loopfsm.model.record import Holder
from loopfsm.processes import started
from tests.engine.kit import plan_of
from tests.journals.kit import ROWS, Driven, opened

ME = holder.this_process()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    """A journal with a run that this process drives."""
    with opened(tmp_path / "journal.db", durability="process") as made:
        Driven.on(made, plan_of("a"), lease_s=30)
        yield made


def ended() -> Holder:
    """A process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begun = started(process.pid)
    assert begun is not None
    process.communicate(timeout=20)
    return attrs.evolve(ME, pid=process.pid, started=begun)


def held_by(journal: SqliteJournal, other: Holder) -> None:
    """Let the run be driven by somebody else."""
    with sqlite3.connect(journal.path) as connection:
        values = (other.host, other.boot, other.pid, other.started)
        connection.execute("UPDATE heads SET host = ?, boot = ?, pid = ?, started = ?", values)
    connection.close()


def test_this_process_is_there() -> None:
    """It knows itself by host, boot, pid and the moment of its start."""
    assert (os.getpid(), False) == (ME.pid, holder.is_gone(ME))
    assert all((ME.host, ME.boot, ME.started))
    assert f"process {os.getpid()} on {ME.host}" == str(ME)


def test_a_process_that_has_ended_is_gone() -> None:
    """Its pid is nobody's."""
    assert holder.is_gone(ended()) is True


def test_a_process_that_nobody_waited_for_is_gone() -> None:
    """What is left of it writes nothing any more."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = attrs.evolve(ME, pid=process.pid, started=started(process.pid) or "")
    assert holder.is_gone(other) is False
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert holder.is_gone(other) is True
    process.wait()


def test_a_pid_is_used_again() -> None:
    """Who has it now started at another moment."""
    assert holder.is_gone(attrs.evolve(ME, started="1")) is True


def test_another_boot_of_this_host_is_over() -> None:
    """What ran before it is gone, whatever its pid."""
    assert holder.is_gone(attrs.evolve(ME, boot="another/pid:[1]")) is True


def test_what_cannot_be_seen_from_here_is_not_called_gone() -> None:
    """Another host; another namespace of processes on the same boot (a container)."""
    namespace = attrs.evolve(ME, boot=f"{ME.boot.partition('/')[0]}/pid:[1]")
    assert [None, None] == [
        holder.is_gone(attrs.evolve(ME, host="elsewhere", boot="another/pid:[1]")),
        holder.is_gone(namespace),
    ]


def test_a_machine_is_known_by_its_boot_whatever_it_is_called() -> None:
    """A host that woke up in another network is the same host, with the same processes."""
    renamed = [attrs.evolve(each, host="elsewhere") for each in (ME, ended())]
    assert [False, True] == [holder.is_gone(each) for each in renamed]


# ------------------------------------------------------------------ taking a run over


def test_a_living_driver_keeps_its_run_however_silent(journal: SqliteJournal) -> None:
    """On the same host its life decides, not the time (B33)."""
    with pytest.raises(LeaseHeld, match=r"Wait until it has left, or end it \(kill"):
        journal.acquire("run", 1e6, 30, ROWS)


def test_a_dead_driver_is_taken_over_at_once(journal: SqliteJournal) -> None:
    """On the same host nobody waits for a lease to end (B32)."""
    held_by(journal, ended())
    assert 2 == journal.acquire("run", 1.0, 30, ROWS).epoch


@pytest.mark.parametrize("change", [{"started": "1"}, {"boot": "another/pid:[1]"}])
def test_a_driver_of_another_life_is_taken_over_at_once(
    change: dict[str, str], journal: SqliteJournal
) -> None:
    """Neither a reused pid nor an earlier boot holds anything (B32)."""
    held_by(journal, attrs.evolve(ME, **change))  # type: ignore[arg-type]  # texts, all of them
    assert 2 == journal.acquire("run", 1.0, 30, ROWS).epoch


@pytest.mark.parametrize("change", [{"host": "elsewhere", "boot": "other/"}, {"boot": "same"}])
def test_a_driver_elsewhere_has_the_time_of_its_lease(
    change: dict[str, str], journal: SqliteJournal
) -> None:
    """Nobody can see whether it lives: silent for so long, it has lost the run (B33)."""
    if "host" not in change:
        change = {"boot": f"{ME.boot.partition('/')[0]}/pid:[1]"}
    other = attrs.evolve(ME, **change)  # type: ignore[arg-type]  # texts, all of them
    held_by(journal, other)
    with pytest.raises(LeaseHeld, match="if it says nothing by then, the run is free") as held:
        journal.acquire("run", 29.9, 30, ROWS)
    assert (30.0, str(other)) == (held.value.until, held.value.holder)
    assert 2 == journal.acquire("run", 30.0, 30, ROWS).epoch
