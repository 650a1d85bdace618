"""`loopfsm resume`: which run is meant, what is refused, and that nothing is done twice."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from loopfsm.engine.loop import Loop
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.plan import Plan
from loopfsm.model.step import StepSpec
from loopfsm.testing import Raises, Returns, ScriptedTool
from tests.cli.plans import ASKING, Terminal, contents


def test_a_run_that_waits_stays_as_it_is(terminal: Terminal) -> None:
    """Without an answer nothing is repeated: the same question, the same exit code."""
    run_id = terminal.parked()
    code, shown, _ = terminal.do("resume", run_id)
    assert code == 3
    assert f"run {run_id} goes on" in shown
    assert f"loopfsm answer {run_id} send retry" in shown
    assert ["first"] == terminal.done()


def test_the_plan_file_is_not_needed(terminal: Terminal, tmp_path: Path) -> None:
    """The journal holds the plan: an edit or the loss of the file changes nothing."""
    run_id = terminal.parked()
    (tmp_path / "plan.toml").unlink()
    terminal.connect()
    assert 0 == terminal.do("answer", run_id, "retry")[0]
    assert ["first", "send", "after"] == terminal.done()


def test_an_ended_run_is_told_and_not_touched(
    terminal: Terminal, journal: Path, tmp_path: Path
) -> None:
    """It says how the run ended, with its code."""
    run_id = terminal.parked()
    assert 4 == terminal.do("answer", run_id, "stop")[0]
    before = contents(journal.parent)
    code, shown, _ = terminal.do("resume", run_id)
    assert (4, "ABSTAINED") == (code, shown.splitlines()[-1].partition(":")[0])
    assert before == contents(journal.parent)


def test_a_run_is_named_by_its_id_its_beginning_or_last(terminal: Terminal) -> None:
    """`last` is the run created last."""
    first, second = terminal.parked(), terminal.parked()
    for name, run_id in ((first, first), ("last", second), (second[:8], second)):
        assert run_id == terminal.json("resume", name)[1][0]["run_id"]


def test_an_ambiguous_beginning_names_the_candidates(terminal: Terminal, journal: Path) -> None:
    """Nothing is guessed."""
    for run_id in ("abc1", "abc2", "b"):
        made = SqliteJournal(journal)
        plan = Plan(goal="g", steps=(StepSpec(id="a", tool="a"),))
        Loop(plan, tools=[ScriptedTool("a", [Returns(1)])], journal=made, run_id=run_id).run_sync()
        made.close()
    code, _, complaint = terminal.do("resume", "abc")
    assert code == 2
    assert "'abc' can mean abc1, abc2" in complaint
    assert 0 == terminal.do("resume", "b")[0]


def test_an_unknown_run_names_near_ones(terminal: Terminal) -> None:
    """A slip of the finger is found at once."""
    run_id = terminal.parked()
    slip = f"{run_id[:-1]}x"
    code, _, complaint = terminal.do("resume", slip)
    assert code == 2
    assert f"no run {slip!r}" in complaint
    assert run_id in complaint


def test_a_run_of_a_program_is_resumed_there(terminal: Terminal, journal: Path) -> None:
    """The terminal has no tools for it, and says what has."""
    made = SqliteJournal(journal)
    plan = Plan(goal="g", steps=(StepSpec(id="a", tool="a"),))
    tool = ScriptedTool("a", [Raises(ConnectionError("no"))])
    loop = Loop(plan, tools=[tool], journal=made, run_id="mine")
    assert loop.run_sync().questions
    made.close()
    for words in (("resume", "mine"), ("answer", "mine", "retry"), ("cancel", "mine")):
        code, _, complaint = terminal.do(*words)
        assert code == 2
        assert "`Loop.resume`" in complaint


@pytest.mark.parametrize("gone", ["directory", "workspace"])
def test_a_missing_directory_is_named(terminal: Terminal, tmp_path: Path, gone: str) -> None:
    """Neither the plan's directory nor the workspace is made anew: the work was in it."""
    home = tmp_path / "home"
    home.mkdir()
    plan = home / "plan.toml"
    plan.write_text(f'workspace = "work"\n{ASKING}', encoding="utf-8")
    assert 3 == terminal.do("run", str(plan))[0]
    shutil.rmtree(home if gone == "directory" else home / "work")
    code, _, complaint = terminal.do("resume", "last")
    assert code == 2
    assert f"{str(home if gone == 'directory' else home / 'work')!r}" in complaint
    assert home.exists() == (gone == "workspace")


def test_a_tool_that_is_gone_is_named(terminal: Terminal, tmp_path: Path) -> None:
    """Every problem of the tools is listed, as for a plan."""
    module = tmp_path / "resumed_tools.py"
    module.write_text("def send():\n    raise OSError('no')\n", encoding="utf-8")
    text = 'goal = "g"\n[tools.t]\npython = "resumed_tools:send"\n[[steps]]\nid = "a"\ntool = "t"\n'
    terminal.parked(text)
    module.write_text("def other():\n    pass\n", encoding="utf-8")
    sys.modules.pop("resumed_tools")  # as in another process
    code, _, complaint = terminal.do("resume", "last")
    assert code == 2
    assert "tools.t.python" in complaint


def test_a_run_that_somebody_drives_is_not_taken(terminal: Terminal, journal: Path) -> None:
    """It says who holds the run, until when, and what to do."""
    run_id = terminal.parked()
    driver = SqliteJournal(journal)
    lease = driver.acquire(run_id, 1e9, 30.0)
    code, _, complaint = terminal.do("resume", run_id)
    assert code == 2
    assert "is being driven by process" in complaint
    assert "Wait until it has left" in complaint
    lease.release(1e9)
    driver.close()
