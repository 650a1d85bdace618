"""What stands in `diagrams/` is what the machines look like now, and the command says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopfsm.diagrams import stale
from loopfsm.recovery.registry import MACHINES
from loopfsm.review.draw import main

DIAGRAMS = Path(__file__).resolve().parents[1] / "diagrams"


def test_the_diagrams_are_fresh() -> None:
    """Each machine is drawn as it is; `python -m loopfsm.review.draw` writes what is not."""
    assert [] == stale(MACHINES, DIAGRAMS)


def test_written_and_checked(tmp_path: Path) -> None:
    """The command writes every picture, and finds nothing to say about what it wrote."""
    assert 0 == main([str(tmp_path)])
    assert sorted(path.name for path in DIAGRAMS.glob("*.*")) == sorted(
        path.name for path in tmp_path.iterdir()
    )
    assert 0 == main(["--check", str(tmp_path)])


def test_checking_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` names each stale file, exits with 1 and leaves everything as it was."""
    main([str(tmp_path)])
    picture = tmp_path / "step.dot"
    picture.write_text("digraph {}\n", encoding="utf-8")
    assert 1 == main(["--check", str(tmp_path)])
    assert f"{picture}: differs from the machine\n" == capsys.readouterr().err
    assert "digraph {}\n" == picture.read_text(encoding="utf-8")


def test_what_it_cannot_put_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The picture of a machine that is gone is not removed, but told."""
    old = tmp_path / "old.dot"
    old.touch()
    assert 1 == main([str(tmp_path)])
    assert f"{old}: belongs to no machine\n" == capsys.readouterr().err
    assert old.exists()
