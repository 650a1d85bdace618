"""What every test of the commands is run with: a journal of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.plans import Terminal


@pytest.fixture(autouse=True, name="journal")
def _journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test, and no process that it starts, writes to the user's data directory."""
    path = tmp_path / "journal" / "runs.db"
    monkeypatch.setenv("LOOPFSM_JOURNAL", str(path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return path


@pytest.fixture(name="terminal")
def _terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path, capsys)
