"""What every scenario is run with: a journal of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No scenario writes to the user's data directory."""
    monkeypatch.setenv("LOOPFSM_JOURNAL", str(tmp_path / "runs.db"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
