"""A drive at the terminal that cannot go on: what is told, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopfsm.errors import JournalRefused, LeaseLost
from loopfsm.journals.sqlite.lease import SqliteLease
from tests.cli.plans import Terminal

FULL = JournalRefused("j.db", "the disk is full", "Make room, then resume the run")


def failing_from(commit: int, error: Exception) -> Any:
    """An `append` that raises from the given commit on."""
    real, made = SqliteLease.append, [0]

    def append(lease: SqliteLease, *args: Any, **named: Any) -> None:
        made[0] += 1
        if made[0] >= commit:
            raise error
        real(lease, *args, **named)

    return append


def test_a_journal_that_fails_at_once_starts_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2 with the problem and what to do; no step has run."""
    monkeypatch.setattr(SqliteLease, "append", failing_from(1, FULL))
    code, _, complaint = terminal.do("run", terminal.plan())
    assert code == 2
    assert "the disk is full" in complaint
    assert "Make room" in complaint
    assert [] == terminal.done()


@pytest.mark.parametrize("error", [FULL, LeaseLost("it was taken over", "Resume it later", "r", 1)])
def test_a_journal_that_fails_later_leaves_a_run_that_can_be_resumed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Exit 130 with the reason and the command: no traceback, for it is no defect of ours."""
    with monkeypatch.context() as patched:
        patched.setattr(SqliteLease, "append", failing_from(2, error))
        code, lines, _ = terminal.json("run", terminal.plan())
    last = lines[-1]
    assert (130, "interrupted", True) == (code, last["type"], last["resumable"])
    assert str(error) == last["reason"]
    assert 3 == terminal.do(*last["resume"].split()[1:])[0]


def test_a_run_in_memory_that_is_interrupted_is_gone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told a command that cannot work."""

    async def interrupted(_loop: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("loopfsm.engine.loop.Loop.run", interrupted)
    code, lines, _ = terminal.json("run", terminal.plan(), "--journal", "memory")
    assert (130, False, "") == (code, lines[-1]["resumable"], lines[-1]["resume"])
    _, _, complaint = terminal.do("run", terminal.plan(), "--journal", "memory")
    assert "was kept in memory and is gone" in complaint


def test_a_run_that_was_never_begun_is_not_offered(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, journal: Path
) -> None:
    """Interrupted before its first commit: there is nothing to resume."""

    async def interrupted(_loop: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("loopfsm.engine.loop.Loop.run", interrupted)
    code, lines, _ = terminal.json("run", terminal.plan())
    assert (130, False) == (code, lines[-1]["resumable"])
