"""The command line: exit codes, refusals, and what a person reads at the end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

from loopfsm import __version__
from loopfsm.cli import main
from loopfsm.cli import run as run_module
from loopfsm.cli.exits import EXIT_OF, MEANINGS
from loopfsm.engine.loop import Loop
from loopfsm.engine.state import new_run
from loopfsm.errors import PostconditionViolated, ToolError
from loopfsm.model.event import Event
from loopfsm.model.failure import Failure, FailureKind, FailureState
from loopfsm.model.loop_state import ENDED, LoopState
from loopfsm.model.question import Question
from loopfsm.ports import Journal

PLAN = """\
goal = "greet"
[[steps]]
id = "hello"
tool = "shell"
args = { command = "echo hello" }
"""

FAILURE = Failure(
    number=1,
    subject="hello",
    kind=FailureKind.REPORTED,
    message="exit code 3\nsecond \x1b[31mline",
    occurred_at=1.0,
    attempt=2,
    state=FailureState.ESCALATED,
)
QUESTION = Question(
    number=1,
    subject="hello",
    failure_id="F1",
    text="step 'hello' failed\x07: exit code 3",
    choices={"retry": "run it once more", "stop": "end the run"},
    asked_at=1.0,
)


@frozen(kw_only=True)
class Ending:
    """An outcome, made up."""

    state: LoopState
    run_id: str = "run-1"
    outputs: Mapping[str, Any] = field(factory=lambda: {"hello": {"stdout": "hello\n"}})
    questions: tuple[Question, ...] = ()
    failures: tuple[Failure, ...] = ()
    skipped: tuple[str, ...] = ()
    reason: str = ""
    reduced_goal: str = "greet"


class EndsAs:
    """A loop that ends as told, at once."""

    def __init__(self, ending: Ending | BaseException) -> None:
        self.ending = ending
        self.plans: list[Any] = []

    def __call__(self, plan: Any, *, journal: Journal, **_: Any) -> EndsAs:
        self.plans.append(plan)
        self.state = new_run(plan, "run-1")
        self.journal = journal
        return self

    async def run(self) -> Ending:
        if isinstance(self.ending, BaseException):
            raise self.ending
        return self.ending

    async def events(self) -> AsyncIterator[Event]:
        yield Event("LOOP-01", "loop", "run-1", 1.0)


@pytest.fixture(name="plan")
def _plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def ends_as(monkeypatch: pytest.MonkeyPatch, ending: Ending | BaseException) -> EndsAs:
    loop = EndsAs(ending)
    monkeypatch.setattr(run_module, "Loop", loop)
    return loop


# Exit codes


def test_the_table_of_exit_codes_is_complete() -> None:
    """Each state in which a driver returns has its code, once, and the help says so."""
    assert set(EXIT_OF) == {*ENDED, LoopState.WAITING_FOR_HUMAN}
    assert len(set(EXIT_OF.values())) == len(EXIT_OF)
    for state, code in EXIT_OF.items():
        assert f"{code:<5}{state.value}" in MEANINGS


@pytest.mark.parametrize("state", EXIT_OF)
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_run_ends_with_the_code_of_its_state(
    plan: Path, monkeypatch: pytest.MonkeyPatch, state: LoopState, option: list[str]
) -> None:
    """The exit code is that of the outcome, with and without `--json`."""
    ends_as(monkeypatch, Ending(state=state))
    assert EXIT_OF[state] == main(["run", str(plan), *option])


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["rnu"],
        ["run"],
        ["run", "a", "b"],
        ["run", "a", "--max-parallel", "0"],
        ["run", "a", "--max-parallel", "many"],
        ["run", "a", "--js"],
        ["run", "missing.toml"],
        ["run", "a", "--journal", ""],
        ["answer", "a"],
        ["answer", "a", "b", "c", "d"],
        ["answer", "a", "b", "--to", "many"],
        ["answer", "a", "b", "--to", "nan"],
        ["answer", "a", "b", "--unknown", "c"],
        ["show"],
        ["runs", "a"],
        ["schema", "nothing"],
    ],
)
def test_a_wrong_command_line_is_bad_input(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, words on the error stream, nothing on the other, no traceback."""
    assert main(argv) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err != ""
    assert "Traceback" not in written.err


def test_the_version_and_the_help_are_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """Both end with 0."""
    assert main(["--version"]) == 0
    assert f"loopfsm {__version__}\n" == capsys.readouterr().out
    assert main(["--help"]) == 0
    assert MEANINGS in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("answer", "Answers an open question of a run; where nobody drives the run, it goes on"),
        ("resume", "Takes a run up where it stands"),
        ("cancel", "Gives a run up"),
        ("watch", "for as long as somebody drives it"),
        ("trace", "the id of its row in specs/machines/"),
        ("show", "Shows how a run stands"),
    ],
)
def test_the_help_of_a_command_says_what_it_does(
    capsys: pytest.CaptureFixture[str], command: str, says: str
) -> None:
    """In a sentence; of the places of the journal it names those that apply."""
    assert main([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert says in shown
    assert "LOOPFSM_JOURNAL" in shown
    assert "what the plan says" not in shown
    assert "`memory`" not in shown
    main(["run", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "what the plan says" in shown
    assert "`memory`: nowhere" in shown


@pytest.mark.parametrize(
    "command", ["answer last a skip", "show last a", "trace last", "cancel last"]
)
def test_a_problem_is_headed_by_what_was_asked(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """`last` alone would say nothing."""
    assert main(command.split()) == 2
    head = f"loopfsm {command}: a problem; nothing was changed"
    assert head == capsys.readouterr().err.splitlines()[0]


# Bad plans


def test_a_bad_plan_starts_nothing_and_lists_every_problem(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, each problem on its line, with its place."""
    marker = plan.parent / "started"
    text = PLAN.replace("echo hello", f"touch {marker}") + 'needs = ["who"]\nretries = 3\n'
    plan.write_text(text, encoding="utf-8")
    assert main(["run", str(plan)]) == 2
    first, *problems = capsys.readouterr().err.splitlines()
    assert first == f"{plan}: 2 problems; nothing was started"
    assert [
        "  steps[0].needs[0] (line 6): no step has the id 'who'; none has a name like it",
        "  steps[0].retries (line 7): unknown key 'retries'; did you mean 'max_retries'?",
    ] == problems
    assert not marker.exists()


def test_a_bad_plan_is_one_json_object(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads `--json` gets the places apart."""
    plan.write_text(PLAN.replace("shell", "shel"), encoding="utf-8")
    assert main(["run", str(plan), "--json"]) == 2
    data = json.loads(capsys.readouterr().out)
    assert ("refused", 2) == (data["type"], data["exit_code"])
    assert ["steps[0].tool (line 4)"] == [problem["place"] for problem in data["problems"]]


def test_a_refusal_by_the_loop_is_bad_input_too(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is refused at the door of the loop has started nothing."""

    def refusing(*_: Any, **__: Any) -> Loop:
        raise ToolError("shell", "no")

    monkeypatch.setattr(run_module, "Loop", refusing)
    assert main(["run", str(plan)]) == 2
    assert capsys.readouterr().err.endswith("a problem; nothing was started\n  tool 'shell': no\n")


def test_a_workspace_that_cannot_be_made_is_bad_input(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The workspace is made when it is not there; what is in the way is named."""
    (plan.parent / "file").write_text("", encoding="utf-8")
    plan.write_text(f'workspace = "file/below"\n{PLAN}', encoding="utf-8")
    assert main(["run", str(plan)]) == 2
    assert "cannot be made: Not a directory" in capsys.readouterr().err


# What a person reads


def test_a_waiting_run_says_what_is_asked_and_that_it_is_gone(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question, its exact choices, and the truth about a run in memory."""
    ending = Ending(
        state=LoopState.WAITING_FOR_HUMAN, questions=(QUESTION,), failures=(FAILURE,), outputs={}
    )
    ends_as(monkeypatch, ending)
    assert main(["run", str(plan), "--journal", "memory"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "greet: 1 steps, at most 8 at once; journal: memory (--journal)"
    assert [
        "Blocked: hello: step 'hello' failed: exit code 3",
        "To unblock: one of",
        "    retry  run it once more",
        "    stop   end the run",
    ] == lines[1:5]
    assert "cannot be resumed" in lines[5]
    assert lines[-1] == "WAITING_FOR_HUMAN  [greet]"


def test_a_failed_run_says_what_failed(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs, failures with every line of their message, what was left out, why it ended."""
    ending = Ending(
        state=LoopState.FAILED,
        failures=(FAILURE,),
        skipped=("optional",),
        reason="TERMINATE",
        reduced_goal="greet (without optional)",
    )
    ends_as(monkeypatch, ending)
    assert main(["run", str(plan)]) == 1
    assert [
        "outputs:",
        '  hello: {"stdout": "hello\\n"}',
        "failure: hello (attempt 2), failed: exit code 3",
        "    second line",
        "skipped: optional",
        "FAILED: TERMINATE  [greet (without optional)]",
    ] == capsys.readouterr().out.splitlines()[2:]


def test_the_last_json_line_is_the_outcome(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Events first, then everything about the end."""
    ending = Ending(state=LoopState.WAITING_FOR_HUMAN, questions=(QUESTION,))
    ends_as(monkeypatch, ending)
    main(["run", str(plan), "--json"])
    first, event, outcome = map(json.loads, capsys.readouterr().out.splitlines())
    assert ("run", "event") == (first["type"], event["type"])
    assert ("outcome", "WAITING_FOR_HUMAN", 3, True) == tuple(
        outcome[key] for key in ("type", "state", "exit_code", "resumable")
    )
    assert {"retry", "stop"} == set(outcome["questions"][0]["choices"])


def test_an_interrupted_run_ends_with_130(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C is no traceback."""
    ends_as(monkeypatch, KeyboardInterrupt())
    assert main(["run", str(plan)]) == 130
    assert capsys.readouterr().err.startswith("interrupted")


def test_a_defect_of_ours_is_told_as_one(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a contract that the core broke shows a traceback, and asks for a report."""
    broken = PostconditionViolated("step", "hello", "STEP-04", "EXECUTED", "output_is_recorded", "")
    ends_as(monkeypatch, broken)
    assert main(["run", str(plan)]) == 1
    assert "please report it" in capsys.readouterr().err.splitlines()[-1]


def test_max_parallel_overrides_the_plan(
    plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flag over plan over default."""
    loop = ends_as(monkeypatch, Ending(state=LoopState.COMPLETED))
    main(["run", str(plan), "--max-parallel", "2"])
    assert loop.plans[0].policy.max_parallel == 2
    assert "at most 2 at once" in capsys.readouterr().out
