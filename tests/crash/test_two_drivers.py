"""Two processes and one run: one of them drives it, the other is told who does."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopfsm.engine.state import state_from
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.loop_state import LoopState, RunState
from loopfsm.model.record import Header, Hold, Message
from loopfsm.testing.crash.kills import CALLED
from loopfsm.testing.crash.scenarios import calls_in
from loopfsm.testing.crash.worker import REFUSED, RUN_ID, journal_in

pytestmark = pytest.mark.slow  # each test starts processes

PATIENCE_S = 20.0
ANSWERERS = 8


@pytest.fixture(name="start")
def _start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process of the kit in `tmp_path`; none is left when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(command: str, scenario: str, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "loopfsm.testing.crash", command, str(tmp_path), scenario]
        pipe = subprocess.PIPE
        process = subprocess.Popen([*argv, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does, for a while at most."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.01)


def ended(process: subprocess.Popen[str], stdin: str | None = None) -> dict[str, Any]:
    """What a process said last, with its exit code."""
    out, err = process.communicate(stdin, timeout=PATIENCE_S)
    assert out, err
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return {**told, "code": process.returncode}


def reply(directory: Path, token: str) -> str | None:
    """What became of the word with that token; None: nobody has read it."""
    sent = message(directory, token)
    assert sent is not None
    return sent.reply


@contextmanager
def opened(directory: Path) -> Iterator[SqliteJournal]:
    """The journal of the run, to read."""
    journal = journal_in(directory, read_only=True)
    try:
        yield journal
    finally:
        journal.close()


def header(directory: Path) -> Header:
    """The run, as its journal stands now."""
    with opened(directory) as journal:
        return journal.header(RUN_ID)


def loaded(directory: Path) -> tuple[RunState, int]:
    """The run as whoever takes it up finds it, and its epoch."""
    with opened(directory) as journal:
        record = journal.load(RUN_ID)
        return state_from(record), record.epoch


def message(directory: Path, token: str) -> Message | None:
    """The word that somebody left in the journal, with its reply."""
    with opened(directory) as journal:
        return journal.message(RUN_ID, token)


def hold(directory: Path) -> Hold:
    """Who drives the run, as its journal stands now."""
    held = header(directory).hold
    assert held is not None
    return held


def take_the_lease(directory: Path) -> None:
    """Do by hand as a driver does that takes the run over: the epoch rises."""
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as journal, journal:
        tables = journal.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = {name for _, name, *_ in journal.execute(f"PRAGMA table_info({table})")}
            if {"epoch", "pid"} <= columns:
                journal.execute(f"UPDATE {table} SET epoch = epoch + 1")


Start = Callable[..., "subprocess.Popen[str]"]


def test_the_second_driver_is_told_who_drives_and_until_when(start: Start, tmp_path: Path) -> None:
    """`LeaseHeld` names the process that drives the run and the end of its lease; nothing moves."""
    first = start("drive", "gate")
    until((tmp_path / "waiting").exists)
    before = header(tmp_path)
    assert (1, first.pid) == (hold(tmp_path).epoch, hold(tmp_path).holder.pid)
    told = ended(start("drive", "gate", "--resume"))
    assert (REFUSED, "LeaseHeld") == (told["code"], told["refused"])
    assert told["holder"].startswith(f"process {first.pid} on ")
    assert told["holder"] in told["why"]
    assert time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(told["until"])) in told["why"]
    assert 0 < told["until"] - time.time() <= 30
    assert before == header(tmp_path)
    (tmp_path / "go").touch()
    assert "COMPLETED" == ended(first)["state"]


def test_a_dead_driver_is_taken_over_at_once(start: Start, tmp_path: Path) -> None:
    """Nobody waits for the lease of a process that was killed; the epoch rises by one."""
    first = start("drive", "gate")
    until((tmp_path / "waiting").exists)
    first.kill()
    first.wait(PATIENCE_S)
    held = hold(tmp_path)
    (tmp_path / "go").touch()
    second = ended(start("drive", "gate", "--resume"))
    assert (0, "COMPLETED") == (second["code"], second["state"])
    assert time.time() < held.until
    assert held.epoch + 1 == loaded(tmp_path)[1]
    assert header(tmp_path).hold is None


def test_a_dead_driver_that_nobody_has_waited_for_is_dead(start: Start, tmp_path: Path) -> None:
    """A process that was killed and is still in the table of processes holds nothing."""
    first = start("drive", "gate")
    until((tmp_path / "waiting").exists)
    first.kill()  # and nobody waits for it: it becomes a zombie
    (tmp_path / "go").touch()
    stat = Path(f"/proc/{first.pid}/stat")
    if stat.exists():
        until(lambda: stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z")
    assert "COMPLETED" == ended(start("drive", "gate", "--resume"))["state"]


def test_a_driver_that_lost_its_lease_stops(start: Start, tmp_path: Path) -> None:
    """It ends with `LeaseLost`, writes nothing more, and starts no further tool."""
    first = start("drive", "gate")
    until((tmp_path / "waiting").exists)
    take_the_lease(tmp_path)
    before = header(tmp_path)
    (tmp_path / "go").touch()
    told = ended(first)
    assert (REFUSED, "LeaseLost") == (told["code"], told["refused"])
    assert before == header(tmp_path)
    assert {("wait", "wait"): 1} == calls_in(tmp_path).counted(CALLED)


def test_a_driver_notices_by_itself_that_it_lost_its_lease(start: Start, tmp_path: Path) -> None:
    """Its tool goes on and on; within the time of its lease it has stopped all the same."""
    first = start("drive", "gate_with_a_short_lease")
    until((tmp_path / "waiting").exists)
    take_the_lease(tmp_path)
    before = header(tmp_path)
    assert "LeaseLost" == ended(first)["refused"]
    assert not (tmp_path / "go").exists()
    assert before == header(tmp_path)


def is_asking(directory: Path) -> Callable[[], bool]:
    """Whether the run waits at the gate and asks a person meanwhile."""
    return lambda: (directory / "waiting").exists() and bool(loaded(directory)[0].asked)


def test_a_driver_finds_the_word_that_was_left_for_it(start: Start, tmp_path: Path) -> None:
    """An answer to a run that another process drives is taken by that process, which goes on."""
    first = start("drive", "gate_and_question", "--ask")
    until(is_asking(tmp_path))
    told = ended(start("answer", "gate_and_question", "approve", "retry", "mine"), "now\n")
    assert ("given", "LeaseHeld") == (told["answer"], told["refused"])
    until(lambda: reply(tmp_path, "mine") is not None)
    assert ("", first.pid) == (reply(tmp_path, "mine"), hold(tmp_path).holder.pid)
    (tmp_path / "go").touch()
    assert "COMPLETED" == ended(first)["state"]


def test_a_word_outlives_the_driver_it_was_left_for(start: Start, tmp_path: Path) -> None:
    """A driver dies before it reads what people sent: the next one takes the first word, once."""
    first = start("drive", "gate_and_question", "--ask")
    until(is_asking(tmp_path))
    first.send_signal(signal.SIGSTOP)  # alive, and reads nothing
    told = [
        ended(start("answer", "gate_and_question", "approve", "retry", token), "now\n")
        for token in ("mine", "mine", "yours")
    ]
    assert ["given", "AnswerRefused", "given"] == [words["answer"] for words in told]
    assert (None, None) == (reply(tmp_path, "mine"), reply(tmp_path, "yours"))
    first.kill()
    (tmp_path / "go").touch()
    assert "COMPLETED" == ended(start("drive", "gate_and_question", "--resume"))["state"]
    assert "" == reply(tmp_path, "mine")
    assert "nothing is asked" in (reply(tmp_path, "yours") or "")
    assert 2 == calls_in(tmp_path).counted(CALLED)["approve", "approve"]


def test_one_of_many_answers_stands(start: Start, tmp_path: Path) -> None:
    """Eight processes answer one question at a time: one answer is taken, the others are told."""
    asked = ended(start("drive", "approval", "--ask"))
    assert (["approve"], "WAITING_FOR_HUMAN") == (asked["asked"], asked["state"])
    people = {
        token: start("answer", "approval", "approve", "retry", token)
        for token in (f"token {number}" for number in range(ANSWERERS))
    }
    for person in people.values():
        assert person.stdout is not None
        assert "ready" in json.loads(person.stdout.readline())
    for person in people.values():
        assert person.stdin is not None
        person.stdin.write("now\n")
        person.stdin.flush()
    told = {token: ended(person) for token, person in people.items()}

    state = loaded(tmp_path)[0]
    (question,) = state.questions.values()
    assert LoopState.COMPLETED is state.run.state
    assert {("approve", "approve"): 2} == calls_in(tmp_path).counted(CALLED)
    messages = {token: message(tmp_path, token) for token in people}
    accepted = {
        token
        for token, sent in messages.items()
        if (sent.accepted if sent else told[token]["answer"] == "given")
    }
    assert {question.token} == accepted
    for token in people.keys() - accepted:
        sent, words = messages[token], told[token]
        refused = words["answer"] == "AnswerRefused" or bool(sent and sent.reply)
        assert refused or words.get("refused") == "LeaseHeld", (words, sent)
