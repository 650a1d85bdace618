"""The benchmarks run and print every figure. What they measure is judged by people."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import SUBJECTS, main
from benchmarks.figures import Figure, medians, table

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_every_subject_is_measured_and_printed() -> None:
    """`python -m benchmarks --quick` exits with 0 and has figures of every subject."""
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert 0 == done.returncode, done.stderr
    printed = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    expected = set(SUBJECTS) if Path("/proc/self/statm").exists() else set(SUBJECTS) - {"memory"}
    assert expected == printed


def test_an_unknown_subject_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelled subject measures nothing and names those that there are."""
    with pytest.raises(SystemExit):
        main(["--quick", "transitoin"])
    assert "there are transition, import" in capsys.readouterr().err


def test_the_table_judges_what_has_a_target() -> None:
    """A value up to its target is OK, one above is MISSED, one without a target is neither."""
    figures = [
        Figure("memory", "in all", 2048, "B", 2048),
        Figure("import", "times", 1.41, "x", 1.4),
        Figure("import", "ours", 80.25, "ms"),
    ]
    expected = """\
subject  figure    value      target
memory   in all  2,048 B  <= 2,048 B  OK
import   times    1.41 x    <= 1.4 x  MISSED
import   ours    80.2 ms"""
    assert expected == table(figures)


def test_medians_are_taken_in_turns() -> None:
    """Each work is done once in every round, and its median is told."""
    order: list[str] = []
    values = {"one": iter([1.0, 9.0, 2.0]), "two": iter([4.0, 5.0, 6.0])}

    def work(name: str) -> float:
        order.append(name)
        return next(values[name])

    found = medians({"one": lambda: work("one"), "two": lambda: work("two")}, 3)
    assert {"one": 2.0, "two": 5.0} == found
    assert ["one", "two"] * 3 == order
