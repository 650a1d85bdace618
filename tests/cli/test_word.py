"""A word on its way: what becomes of it when somebody else is faster, leaves, or has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import place_of
from loopfsm.cli.word import send
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.record import Message, Word
from tests.cli.plans import Terminal


def word(token: str, choice: str, sent_at: float = 0.0) -> Message:
    return Message(token=token, word=Word.ANSWER, subject="send", choice=choice, sent_at=sent_at)


def test_of_two_words_in_one_inbox_the_first_one_stands(terminal: Terminal, journal: Path) -> None:
    """Whoever takes the run up with the second one is refused, and still drives what was said."""
    run_id = terminal.parked()
    kept = SqliteJournal(journal)
    kept.send(run_id, word("first", "skip", sent_at=1.0))
    code, lines, _ = terminal.json("answer", run_id, "retry", "--token", "second")
    (reply,) = (line for line in lines if line["type"] == "reply")
    assert (2, False, 2) == (code, reply["accepted"], lines[-1]["exit_code"])
    assert "nothing is asked about 'send'" in reply["reason"]
    assert "PARTIALLY_COMPLETED" == lines[-1]["state"]
    first = kept.message(run_id, "first")
    kept.close()
    assert first is not None
    assert first.accepted


def test_a_word_to_a_run_that_has_ended_meanwhile_is_refused(
    terminal: Terminal, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody reads it any more, and nobody waits for that."""
    run_id = terminal.parked()
    assert 4 == terminal.do("answer", run_id, "stop")[0]
    follow_up = FollowUp(run_id, place_of(None))
    assert 2 == send(word("late", "retry"), follow_up, code_of=lambda _: 0, as_json=False)
    assert "refused: the run has ended as ABSTAINED\n" == capsys.readouterr().err


def test_who_does_not_wait_for_the_driver_leaves_the_word(
    terminal: Terminal, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while waiting: 130, and the next driver takes the word."""
    run_id = terminal.parked()
    driver = SqliteJournal(journal)
    lease = driver.acquire(run_id, 1e9, 30.0)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("loopfsm.cli.word.time.sleep", interrupted)
        code, lines, _ = terminal.json("answer", run_id, "skip", "--token", "mine")
    assert (130, f"loopfsm resume {run_id}") == (code, lines[-1]["resume"])
    lease.release(1e9)
    driver.close()
    assert 5 == terminal.do("resume", run_id)[0]


def test_what_cannot_be_taken_up_is_not_left_in_the_inbox(
    terminal: Terminal, journal: Path, tmp_path: Path
) -> None:
    """With nobody to drive the run, a word that could not be carried out is refused first."""
    work = tmp_path / "work"
    work.mkdir()
    run_id = terminal.parked(
        'goal = "g"\nworkspace = "work"\n[[steps]]\nid = "send"\ntool = "shell"\n'
        'args = { command = "false" }\n'
    )
    work.rmdir()
    assert 2 == terminal.do("answer", run_id, "retry", "--token", "mine")[0]
    kept = SqliteJournal(journal)
    assert kept.message(run_id, "mine") is None
    kept.close()
