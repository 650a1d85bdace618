"""`loopfsm cancel`: a run that waits, or was left, is ended; one that has ended is not touched."""

from __future__ import annotations

from pathlib import Path

from tests.cli.plans import Terminal, contents


def test_a_run_that_waits_is_taken_up_and_ended(terminal: Terminal) -> None:
    """Exit 0: the cancel stands. The run has ended as ABSTAINED, and says why."""
    run_id = terminal.parked()
    code, lines, _ = terminal.json("cancel", run_id, "--say", "no longer needed")
    assert ("run", "reply") == (lines[0]["type"], lines[1]["type"])
    outcome = lines[-1]
    assert (0, 0, "ABSTAINED") == (code, outcome["exit_code"], outcome["state"])
    assert "no longer needed" in outcome["reason"]
    assert not outcome["resumable"]
    assert 4 == terminal.do("resume", run_id)[0]


def test_an_ended_run_is_not_cancelled(terminal: Terminal, journal: Path) -> None:
    """Exit 2, and every byte of the journal is as before."""
    run_id = terminal.parked()
    terminal.do("cancel", run_id)
    before = contents(journal.parent)
    code, shown, complaint = terminal.do("cancel", run_id)
    assert (2, "") == (code, shown)
    assert "has ended as ABSTAINED" in complaint
    assert before == contents(journal.parent)
