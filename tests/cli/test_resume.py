"""`loopfsm resume`: which run is meant, what is refused, and that nothing is done twice."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # its types are a package of their own
import pytest

from loopfsm.cli.shapes import SHAPES
from loopfsm.engine.loop import Loop
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Plan
from loopfsm.model.step import StepSpec
from loopfsm.testing import Raises, Returns, ScriptedTool
from tests.cli.plans import ASKING, Terminal, contents


def test_a_run_that_waits_stays_as_it_is(terminal: Terminal) -> None:
    """Without an answer nothing is repeated: the same question, the same exit code."""
    run_id = terminal.parked()
    code, shown, _ = terminal.do("resume", run_id)
    assert code == 3
    assert f"run {run_id} waits for a person" in shown
    assert f"loopfsm answer {run_id} send retry" in shown
    assert ["first"] == terminal.done()


def test_the_plan_file_is_not_needed(terminal: Terminal, tmp_path: Path) -> None:
    """The journal holds the plan: an edit or the loss of the file changes nothing."""
    run_id = terminal.parked()
    (tmp_path / "plan.toml").unlink()
    terminal.connect()
    assert 0 == terminal.do("answer", run_id, "retry")[0]
    assert ["first", "send", "after"] == terminal.done()


CHANGED = "has changed since; this run keeps the plan it was begun with"


@pytest.mark.parametrize("command", ["resume last", "answer last skip", "cancel last"])
def test_an_edited_plan_file_is_told(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Whoever has put the file right learns that this run does not follow it."""
    monkeypatch.chdir(tmp_path)
    terminal.plan()
    assert 3 == terminal.do("run", "plan.toml")[0]
    terminal.plan(ASKING.replace("tell them", "tell nobody"))
    shown = terminal.do(*command.split())[1]
    assert f"plan.toml {CHANGED}" in shown.splitlines()
    assert "tell nobody" not in shown


def test_a_changed_plan_is_a_flag_of_the_run_line(terminal: Terminal) -> None:
    """Line ends and a byte order mark are no change."""
    terminal.parked()
    path = Path(terminal.plan())
    path.write_bytes(b"\xef\xbb\xbf" + ASKING.replace("\n", "\r\n").encode())
    assert terminal.json("resume", "last")[1][0]["plan_changed"] is False
    path.write_bytes(b"\xff")
    assert terminal.json("resume", "last")[1][0]["plan_changed"] is True


def test_a_plan_file_that_is_gone_is_no_change(terminal: Terminal, tmp_path: Path) -> None:
    """There is nothing to compare, and nothing is said; nor of what is no file."""
    terminal.parked()
    (tmp_path / "plan.toml").unlink()
    assert CHANGED not in terminal.do("resume", "last")[1]
    (tmp_path / "plan.toml").mkdir()
    assert CHANGED not in terminal.do("resume", "last")[1]


def test_an_ended_run_is_told_and_not_touched(
    terminal: Terminal, journal: Path, tmp_path: Path
) -> None:
    """It says how the run ended, with its code."""
    run_id = terminal.parked()
    assert 4 == terminal.do("answer", run_id, "stop")[0]
    before = contents(journal.parent)
    code, shown, _ = terminal.do("resume", run_id)
    assert f"run {run_id} has ended already; nothing was done" == shown.splitlines()[0]
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
    assert "among others" not in complaint
    assert complaint.startswith(f"loopfsm resume {slip}: a problem; nothing was changed")


def test_an_unknown_run_says_that_there_are_more(terminal: Terminal, journal: Path) -> None:
    """Those that are named are not all."""
    for number in range(4):
        begun_by_a_program(journal, f"run-{number}")
    complaint = terminal.do("show", "65")[2]
    assert "it knows: run-3, run-2, run-1, among others" in complaint
    assert "`loopfsm runs` lists them" in complaint


def test_a_file_in_place_of_a_run_is_told_what_a_run_is(terminal: Terminal, tmp_path: Path) -> None:
    """A plan file is what `run` takes; it need not be there."""
    terminal.parked()
    for name in ("my.toml", str(tmp_path)):
        complaint = terminal.do("resume", name)[2]
        assert "RUN is the id of a run, the beginning of an id, or `last`" in complaint


def test_without_any_run_one_learns_how_to_begin_one(terminal: Terminal, journal: Path) -> None:
    """Before the first run there is no journal; after the last one it is empty."""
    complaint = terminal.do("resume", "last")[2]
    assert f"journal {str(journal)!r}: it is not there yet, so it has no runs" in complaint
    assert "Begin one with `loopfsm run PLAN`" in complaint
    assert not journal.parent.exists()
    terminal.parked()
    terminal.do("cancel", "last")
    terminal.do("runs", "--prune")
    complaint = terminal.do("resume", "last")[2]
    assert "this journal has no runs yet" in complaint
    assert "Begin one with `loopfsm run PLAN`" in complaint


def begun_by_a_program(journal: Path, run_id: str) -> None:
    """A run that no plan file can resume; it waits for a person."""
    made = SqliteJournal(journal)
    plan = Plan(goal="g", steps=(StepSpec(id="a", tool="a"),))
    tool = ScriptedTool("a", [Raises(ConnectionError("no"))])
    assert Loop(plan, tools=[tool], journal=made, run_id=run_id).run_sync().questions
    made.close()


def test_a_run_of_a_program_is_resumed_there(terminal: Terminal, journal: Path) -> None:
    """The terminal has no tools for it, and says what has."""
    begun_by_a_program(journal, "mine")
    code, _, complaint = terminal.do("resume", "mine")
    assert code == 2
    assert "`Loop.resume`" in complaint


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("answer", "mine", "retry"), LoopState.COMPLETED),
        (("cancel", "mine"), LoopState.ABSTAINED),
    ],
)
def test_a_word_to_a_run_of_a_program_is_recorded(
    terminal: Terminal, journal: Path, words: tuple[str, ...], state: LoopState
) -> None:
    """The program takes it when it drives the run on; the terminal says so, and ends with 0."""
    begun_by_a_program(journal, "mine")
    code, shown, complaint = terminal.do(*words)
    says = "the program that began the run takes it when it drives the run on"
    assert (0, f"recorded: {says}\n", "") == (code, shown, complaint)
    kept = SqliteJournal(journal)
    again = Loop.resume("mine", journal=kept, tools=[ScriptedTool("a", [Returns(1)])])
    assert state is again.run_sync().state
    kept.close()


def test_a_word_that_a_leaving_program_has_not_taken_is_recorded(
    terminal: Terminal, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the inbox by then: nobody is told that nothing was changed."""
    begun_by_a_program(journal, "mine")
    driver = SqliteJournal(journal)
    lease = driver.acquire("mine", 1e9, 30.0)
    monkeypatch.setattr("loopfsm.cli.word.time.sleep", lambda _: lease.release(1e9))
    code, shown, complaint = terminal.do("answer", "mine", "retry")
    driver.close()
    assert (0, "") == (code, complaint)
    assert shown.startswith("recorded: ")


def test_a_recorded_word_is_neither_accepted_nor_refused(terminal: Terminal, journal: Path) -> None:
    """As data: `accepted` is null. What does not fit is refused at the door, as ever."""
    begun_by_a_program(journal, "mine")
    assert 2 == terminal.do("answer", "mine", "agian")[0]
    assert 2 == terminal.do("answer", "mine", "b", "retry")[0]
    code, (reply,), _ = terminal.json("answer", "mine", "retry", "--token", "t")
    assert (0, "reply", None) == (code, reply["type"], reply["accepted"])
    jsonschema.validate(reply, SHAPES["reply"])
    assert 2 == terminal.do("answer", "mine", "retry", "--token", "t")[0]


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
    for words in (("resume", "last"), ("answer", "last", "stop"), ("cancel", "last")):
        code, _, complaint = terminal.do(*words)
        assert code == 2
        assert "tools.t.python" in complaint
        assert "Put back what is named here, as it was when the run was begun" in complaint


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
