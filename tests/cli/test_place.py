"""Where the journal of a command is, who said so, and what later commands have to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import Place, place_of
from loopfsm.model.question import Question
from tests.cli.plans import ASKING, Terminal

PLANNED = Path("/planned/journal.db")


def test_the_option_outranks_all(journal: Path) -> None:
    """Flag over environment over plan."""
    assert Place(path=Path("/x.db"), said_by="--journal") == place_of("/x.db", PLANNED)
    assert Place(path=journal, said_by="LOOPFSM_JOURNAL") == place_of(None, PLANNED)


def test_the_plan_outranks_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Plan over the user's data directory; an empty variable says nothing."""
    monkeypatch.setenv("LOOPFSM_JOURNAL", "")
    assert Place(path=PLANNED, said_by="the plan") == place_of(None, PLANNED)
    usual = place_of(None)
    assert usual.said_by == "the user's data directory"
    assert usual.path is not None
    assert ("loopfsm", "journal.db") == (usual.path.parent.name, usual.path.name)
    assert usual.is_usual


def test_a_tilde_is_the_home_and_a_path_is_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is printed can be used from any directory."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    assert Path("/home/me/j.db") == place_of("~/j.db").path
    assert tmp_path / "j.db" == place_of("j.db").path


def test_memory_keeps_the_run_in_memory(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal, tmp_path: Path
) -> None:
    """The word in place of a path, as an option or in the environment: no file is made."""
    terminal.connect()
    plan = terminal.plan()
    monkeypatch.setenv("LOOPFSM_JOURNAL", "memory")
    assert "journal: memory (LOOPFSM_JOURNAL)" in terminal.do("run", plan)[1].splitlines()[0]
    assert "journal: memory (--journal)" in terminal.do("run", plan, "--journal", "memory")[1]
    assert [] == list(tmp_path.glob("**/*.db"))
    code, _, complaint = terminal.do("show", "last")
    assert code == 2
    assert "--journal PATH" in complaint


def test_the_plan_can_say_where(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal, tmp_path: Path
) -> None:
    """Relative to the plan; what is printed then names the journal, quoted for a shell."""
    monkeypatch.delenv("LOOPFSM_JOURNAL")
    plan = terminal.plan(f'journal = "my runs.db"\n{ASKING}')
    code, shown, _ = terminal.do("run", plan)
    assert code == 3
    assert f"journal: {tmp_path / 'my runs.db'} (the plan)" in shown.splitlines()[0]
    assert f" --journal '{tmp_path / 'my runs.db'}'" in shown
    assert (tmp_path / "my runs.db").exists()


def test_the_usual_journal_is_not_named(terminal: Terminal, journal: Path) -> None:
    """A command that a bare one finds again says no more than it must."""
    _, shown, _ = terminal.do("run", terminal.plan())
    assert "--journal" not in shown
    _, shown, _ = terminal.do("run", terminal.plan(), "--journal", str(journal))
    assert "--journal " not in shown.partition("\n")[2]


@pytest.mark.parametrize("kind", ["directory", "text", "empty"])
def test_a_journal_that_cannot_be_used_starts_nothing(
    terminal: Terminal, tmp_path: Path, kind: str
) -> None:
    """Exit 2 with the problem and what to do; the file is left as it is, no step has run."""
    path = tmp_path / "not.db"
    if kind == "directory":
        path.mkdir()
    else:
        path.write_text("what is this?" * 20 if kind == "text" else "", encoding="utf-8")
    before = path.is_dir() or path.read_bytes()
    for command in (["run", terminal.plan()], ["resume", "last"], ["runs"], ["runs", "--prune"]):
        code, shown, complaint = terminal.do(*command, "--journal", str(path))
        assert (2, "") == (code, shown)
        assert f"journal {str(path)!r}" in complaint
    assert before == (path.is_dir() or path.read_bytes())
    assert [] == terminal.done()


def test_names_that_a_shell_or_an_option_parser_would_take_apart_are_quoted() -> None:
    """A command can be typed as it is printed, whatever the ids are."""
    place = Place(path=Path("/a b.db"), said_by="--journal")
    question = Question(
        number=1, subject="-x$y", failure_id="F1", text="", choices={"retry": "r"}, asked_at=1.0
    )
    (offer,) = FollowUp("r;1", place).offers(question)
    assert "loopfsm answer --journal '/a b.db' -- 'r;1' '-x$y' retry" == offer.command
    assert "loopfsm resume 'r;1' --journal '/a b.db'" == FollowUp("r;1", place).resume


def test_a_printed_command_with_a_dash_is_understood(terminal: Terminal) -> None:
    """A step whose id begins with a dash can be answered by the command that is printed."""
    plan = ASKING.replace('"send"', '"-send"')
    run_id = terminal.parked(plan)
    terminal.connect()
    assert 0 == terminal.do("answer", "--", run_id, "-send", "retry")[0]
