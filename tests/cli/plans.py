"""Plans that wait for a person, and the commands as a test gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from loopfsm.cli import main

ROOT = Path(__file__).resolve().parents[2]

ASKING = """\
goal = "tell them"
[[steps]]
id = "first"
tool = "shell"
args = { command = "echo first >> done" }
[[steps]]
id = "send"
tool = "shell"
needs = ["first"]
args = { command = "test -e net && echo send >> done" }
[[steps]]
id = "after"
tool = "shell"
needs = ["send"]
args = { command = "echo after >> done" }
"""
"""Asks about `send` until the file `net` is there."""

SPENT = ASKING.replace("[[steps]]", "[policy]\nbudget = { steps = 1 }\n[[steps]]", 1)
"""Asks about the run: a budget is spent after one step."""

TWO = """\
goal = "tell them twice"
[[steps]]
id = "left"
tool = "shell"
args = { command = "test -e net" }
[[steps]]
id = "right"
tool = "shell"
args = { command = "test -e net" }
"""
"""Asks about two steps."""


@frozen
class Terminal:
    """The commands, done in this process; what they print is read back."""

    directory: Path
    capsys: pytest.CaptureFixture[str]

    def plan(self, text: str = ASKING) -> str:
        """A plan file."""
        path = self.directory / "plan.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def parked(self, text: str = ASKING) -> str:
        """A run that waits for a person: its id."""
        code, lines, _ = self.json("run", self.plan(text))
        assert code == 3
        run_id = lines[-1]["run_id"]
        assert isinstance(run_id, str)
        return run_id

    def do(self, *words: str) -> tuple[int, str, str]:
        """The exit code, and what went to the two streams."""
        self.capsys.readouterr()
        code = main(words)
        written = self.capsys.readouterr()
        return code, written.out, written.err

    def json(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """The same, with `--json`, as data."""
        code, out, err = self.do(*words, "--json")
        return code, [json.loads(line) for line in out.splitlines()], err

    def done(self) -> list[str]:
        """What the steps have left in the file `done`."""
        path = self.directory / "done"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def connect(self) -> None:
        """From now on `send` succeeds."""
        (self.directory / "net").touch()


def started(*words: str) -> subprocess.Popen[str]:
    """A command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "loopfsm", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            found[str(path.relative_to(directory))] = path.read_bytes()
    return found
