"""The command's two streams: nobody else writes JSON lines, and a full disk ends no run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopfsm.cli import main

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow

TOOLS = """\
import os, subprocess, threading, time
print("imported")

class Shy:
    def __repr__(self):
        raise ValueError("no")

def talk():
    print("printed")
    subprocess.run(["echo", "started"], check=True)
    os.write(1, b"written")
    return float("nan")

def chatter():
    while True:
        print("still here")
        time.sleep(0.001)

def odd():
    loop = [1]
    loop.append(loop)
    deep = []
    for _ in range(5000):
        deep = [deep]
    return [10**5000, loop, deep, Shy()]
"""


def plan_of(directory: Path, module: str, *functions: str, more: str = "") -> Path:
    """A plan of Python functions; each test has a module of its own, for imports stay."""
    (directory / f"{module}.py").write_text(TOOLS, encoding="utf-8")
    text = 'goal = "g"\n'
    for name in functions:
        text += f'[tools.{name}]\npython = "{module}:{name}"\n'
    for name in functions:
        text += f'[[steps]]\nid = "{name}"\ntool = "{name}"\n{more}\n'
    path = directory / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def touching(directory: Path) -> Path:
    """A plan that leaves the file `done`."""
    path = directory / "plan.toml"
    args = "args = { command = 'touch done' }"
    path.write_text(f'goal = "g"\n[[steps]]\nid = "a"\ntool = "shell"\n{args}\n', encoding="utf-8")
    return path


def shell(line: str, *args: object) -> subprocess.CompletedProcess[str]:
    """A command line of sh; `loopfsm` is this one, `$1` the first of `args`."""
    line = line.replace("loopfsm", f"'{sys.executable}' -m loopfsm")
    return subprocess.run(
        ["sh", "-c", line, "sh", *map(str, args)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


# What tools return, and what they print


@pytest.mark.parametrize("option", ["", "--json"])
def test_an_odd_output_does_not_break_the_summary(tmp_path: Path, option: str) -> None:
    """A run that succeeded ends with 0, whatever its outputs are."""
    plan = plan_of(tmp_path, "odd_tools", "odd")
    ended = shell(f"loopfsm run $1 --journal memory {option}", plan)
    assert (0, "") == (ended.returncode, ended.stderr.replace("imported\n", ""))
    assert "<a whole number of 16610 bits>" in ended.stdout
    assert "COMPLETED" in ended.stdout.splitlines()[-1]


def test_json_lines_are_all_there_is_on_standard_output(tmp_path: Path) -> None:
    """Prints of tools, of their programs and of their modules go to standard error."""
    ended = shell("loopfsm run $1 --json", plan_of(tmp_path, "talking_tools", "talk"))
    *_, outcome = map(json.loads, ended.stdout.splitlines())
    assert (0, "NaN") == (ended.returncode, outcome["outputs"]["talk"])
    for said in ("imported", "printed", "started", "written"):
        assert said in ended.stderr


def test_a_tool_that_was_given_up_prints_nothing_after_the_last_line(tmp_path: Path) -> None:
    """Its thread lives as long as the process, and talks on."""
    more = "timeout_s = 0.1\noptional = true\nmax_retries = 0\n"
    plan = plan_of(tmp_path, "chattering_tools", "chatter", more=more)
    ended = shell("loopfsm run $1 --json", plan)
    assert ended.stderr.count("still here") > 1
    assert all(json.loads(line) for line in ended.stdout.splitlines())


def test_a_program_that_calls_main_keeps_its_standard_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Afterwards, what it prints goes where it went before."""
    plan = plan_of(tmp_path, "called_tools", "odd")
    assert main(["run", str(plan), "--json", "--journal", "memory"]) == 0
    print("after")
    written = capfd.readouterr()
    assert written.out.endswith("}\nafter\n")
    assert written.err == "imported\n"


# Streams that cannot be written to

COMMANDS = ("run $1", "run $1 --json", "--version")


@pytest.mark.parametrize(
    "line",
    [
        *(f"loopfsm {command} > /dev/full" for command in COMMANDS),
        *(f"loopfsm {command} >&-" for command in COMMANDS),
        "loopfsm --help > /dev/full",  # closed, argparse prints it nowhere, in silence
    ],
)
def test_output_that_is_lost_is_told_once_and_is_no_success(tmp_path: Path, line: str) -> None:
    """The run goes on to its end; 1 stands where 0 would have been."""
    plan = touching(tmp_path)
    ended = shell(line, plan)
    (complaint,) = ended.stderr.splitlines()
    assert complaint.startswith("standard output cannot be written: ")
    assert ended.returncode == 1
    assert ("run" in line) == (tmp_path / "done").exists()


@pytest.mark.parametrize(
    ("streams", "code"),
    [("> /dev/full 2> /dev/full", 1), (">&- 2>&-", 1), ("2> /dev/full", 0), ("2>&-", 0)],
)
@pytest.mark.parametrize("option", ["", "--json"])
def test_complaining_breaks_nothing(tmp_path: Path, streams: str, code: int, option: str) -> None:
    """With nowhere to complain to, the exit code is what it would have been."""
    good = shell(f"loopfsm run $1 {option} {streams}", touching(tmp_path))
    assert (code, "") == (good.returncode, good.stderr)
    bad = shell(f"loopfsm run $1 {option} {streams}", tmp_path / "missing.toml")
    assert (2, "") == (bad.returncode, bad.stderr)
