"""What a plan file becomes: nouns, tools, references, and the lines of its places."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopfsm.model.failure import LAST_RUNGS, RecoveryStrategy
from loopfsm.model.plan import Budget, Plan, Policy, WhenExhausted
from loopfsm.model.situation import Probe
from loopfsm.model.step import Call, EnvironmentValue, Output, StepSpec
from loopfsm.planfile import PlanFile, load, loads
from loopfsm.planfile.keys import KEYS, NOT_YET, REQUIRED, STRATEGIES, STRATEGIES_NOT_YET
from loopfsm.planfile.places import line_of, lines_of
from loopfsm.planfile.tools import BUILT_IN
from loopfsm.ports import ToolContext
from loopfsm.situations.declared import Declared, When
from loopfsm.tools.python import PythonTool
from loopfsm.tools.shell import ShellTool

EVERYTHING = """\
goal = "everything"
workspace = "work"

[policy]
max_parallel = 3
max_retries = 4
backoff_base_s = 0.5
backoff_cap_s = 9
recoveries = 5
when_exhausted = "abstain"
may_abstain = false
question_deadline_s = 60
output_cap_bytes = 100

[policy.ladder]
unclassified = ["RETRY", "RETRY_WITH_BACKOFF"]

[policy.budget]
steps = 10
tool_calls = 20
seconds = 30.5
tokens = 40
cost = 0.5

[tools.count]
argv = ["wc", "-l"]
env = { LANG = "C", NAME = { env = "NAME" } }
cwd = "sub"
stdin = "one\\n"
timeout_s = 7
idempotent = true
read_only = true

[tools.line]
command = "wc -l < file"

[tools.dedent]
python = "textwrap:dedent"
read_only = true
timeout_s = 1.5

[[steps]]
id = "first"
description = "the first one"
tool = "shell"
args = { argv = ["echo", { env = "NAME" }], env = { A = { env = "NAME" } }, stdin = "in" }
optional = true
idempotent = true
timeout_s = 2
max_retries = 0

[[steps]]
id = "second"
tool = "dedent"
args = { text = { from = "first.stdout" }, deep = [{ a = [{ from = "first" }] }] }
needs = ["first"]
critical = true
optional = true
verify = { tool = "count", args = { stdin = { from = "first.stdout" } } }

[[steps]]
id = "third"
tool = "python"
args = { script = "job.py", argv = ["x"] }
"""


@pytest.fixture(name="everything")
def _everything(tmp_path: Path) -> PlanFile:
    path = tmp_path / "plan.toml"
    path.write_text(EVERYTHING, encoding="utf-8")
    return load(path, {"NAME": "value"})


def test_every_key_of_the_policy_is_read(everything: PlanFile) -> None:
    """`[policy]` becomes a `Policy`."""
    assert everything.plan.policy == Policy(
        max_parallel=3,
        max_retries=4,
        backoff_base_s=0.5,
        backoff_cap_s=9,
        recoveries=5,
        when_exhausted=WhenExhausted.ABSTAIN,
        may_abstain=False,
        question_deadline_s=60,
        output_cap_bytes=100,
        ladder={"unclassified": ("RETRY", "RETRY_WITH_BACKOFF")},
        budget=Budget(steps=10, tool_calls=20, seconds=30.5, tokens=40, cost=0.5),
    )


def test_every_key_of_a_step_is_read(everything: PlanFile) -> None:
    """`[[steps]]` become `StepSpec`s, with references as nouns."""
    first, second, third = everything.plan.steps
    assert first == StepSpec(
        id="first",
        description="the first one",
        tool="shell",
        args={
            "argv": ["echo", EnvironmentValue("NAME")],
            "env": {"A": EnvironmentValue("NAME")},
            "stdin": "in",
        },
        optional=True,
        idempotent=True,
        timeout_s=2,
        max_retries=0,
    )
    assert second == StepSpec(
        id="second",
        tool="dedent",
        args={"text": Output("first", ("stdout",)), "deep": [{"a": [Output("first")]}]},
        needs=("first",),
        critical=True,
        optional=True,
        verify=Call("count", {"stdin": Output("first", ("stdout",))}),
    )
    assert third == StepSpec(id="third", tool="python", args={"script": "job.py", "argv": ["x"]})


def test_every_key_of_a_tool_is_read(everything: PlanFile, tmp_path: Path) -> None:
    """`[tools.NAME]` become tools; their variables are looked up at once."""
    count, line, dedent = (everything.tools.get(name) for name in ("count", "line", "dedent"))
    assert count == ShellTool(
        name="count",
        argv=["wc", "-l"],
        env={"LANG": "C", "NAME": "value"},
        cwd="sub",
        stdin="one\n",
        timeout_s=7,
        idempotent=True,
        read_only=True,
        workspace=tmp_path / "work",
    )
    assert line == ShellTool(name="line", command="wc -l < file", workspace=tmp_path / "work")
    assert isinstance(dedent, PythonTool)
    assert ("dedent", 1.5, True) == (dedent.name, dedent.timeout_s, dedent.read_only)
    assert dedent.idempotent  # what changes nothing can be asked again
    assert ("shell", "python", "count", "line", "dedent") == everything.tools.names


def test_a_plan_with_the_least_has_every_default(tmp_path: Path) -> None:
    """What a plan does not say is what the nouns say."""
    content = b'goal = "g"\n[[steps]]\nid = "one"\ntool = "shell"\nargs = { command = "ls" }\n'
    loaded = loads(content, tmp_path)
    spec = StepSpec(id="one", tool="shell", args={"command": "ls"})
    assert loaded.plan == Plan(goal="g", steps=(spec,))
    assert loaded.workspace == tmp_path


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    """A plan saved by another editor is the same plan."""
    text = 'goal = "g"\n[[steps]]\nid = "one"\ntool = "shell"\nargs = { command = "ls" }\n'
    content = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert loads(content, tmp_path).plan == loads(text.encode(), tmp_path).plan


# Tools from the plan's directory


def function_plan(directory: Path, module: str, body: str, settings: str = "") -> PlanFile:
    (directory / f"{module}.py").write_text(body, encoding="utf-8")
    text = f"""\
goal = "g"
[tools.greet]
python = "{module}:greet"
{settings}
[[steps]]
id = "one"
tool = "greet"
"""
    return loads(text.encode(), directory)


def test_a_module_comes_from_the_plans_directory(tmp_path: Path) -> None:
    """The function is the one beside the plan; the directory then comes last on the path."""
    loaded = function_plan(tmp_path, "planfile_greets", "def greet():\n    return 'hello'\n")
    found = loaded.tools.get("greet")
    assert isinstance(found, PythonTool)
    assert found() == "hello"
    assert sys.path[-1] == str(tmp_path)


def test_a_decorated_function_keeps_what_the_plan_does_not_say(tmp_path: Path) -> None:
    """Plan over code over default."""
    body = """\
from loopfsm.tools.registry import tool

@tool(idempotent=True, timeout_s=5)
def greet():
    return "hello"
"""
    loaded = function_plan(tmp_path, "planfile_decorated", body, "timeout_s = 9")
    found = loaded.tools.get("greet")
    assert ("greet", 9, True) == (found.name, found.timeout_s, found.idempotent)


def context() -> ToolContext:
    return ToolContext(
        run_id="run",
        step_id="one",
        attempt=1,
        idempotency_key="key",
        deadline=None,
        log=logging.LoggerAdapter(logging.getLogger("loopfsm"), {}),
        spend=lambda tokens, cost: None,
    )


@pytest.mark.parametrize(
    ("said", "expected"), [("runs.db", "HERE/runs.db"), ("/x.db", "/x.db"), ("~/x.db", "/me/x.db")]
)
def test_the_journal_of_a_plan_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, expected: str
) -> None:
    """Relative to the plan's directory, and `~` is the home of whoever runs it."""
    monkeypatch.setenv("HOME", "/me")
    text = f'goal = "g"\njournal = "{said}"\n[[steps]]\nid = "a"\ntool = "shell"\n'
    loaded = loads(f"{text}args = {{ command = 'true' }}\n".encode(), tmp_path)
    assert Path(expected.replace("HERE", str(tmp_path))) == loaded.journal


@pytest.mark.slow  # starts a Python interpreter
def test_the_python_tool_runs_a_file_of_the_workspace(tmp_path: Path) -> None:
    """`python` runs the script with this interpreter, in the workspace, with its argv."""
    script = "import os, sys\nprint(sys.argv[1:], sys.stdin.read(), os.getcwd() == sys.argv[2])\n"
    (tmp_path / "job.py").write_text(script, encoding="utf-8")
    content = b'goal = "g"\n[[steps]]\nid = "one"\ntool = "python"\nargs = { script = "job.py" }\n'
    tool = loads(content, tmp_path).tools.get("python")
    args = {"script": "job.py", "argv": ["a", str(tmp_path)], "stdin": "text"}
    result: Any = asyncio.run(_called(tool, args))
    assert f"['a', {str(tmp_path)!r}] text True\n" == result["stdout"]


async def _called(tool: Any, args: dict[str, Any]) -> Any:
    return await tool.call(args, context())


# The table of keys against the nouns


NOUNS: dict[str, type] = {
    "policy": Policy,
    "policy.budget": Budget,
    "steps": StepSpec,
    "verify": Call,
    "tools.NAME.situations": Declared,
    "tools.NAME.situations.when": When,
    "tools.NAME.situations.probe": Probe,
}


@pytest.mark.parametrize("section", NOUNS)
def test_every_key_goes_to_a_field_with_the_same_default(section: str) -> None:
    """The defaults of the table are those of the nouns, so that each is true when absent."""
    fields = attrs.fields_dict(NOUNS[section])
    for key in KEYS[section]:
        noun, _, name = key.goes.partition(".")
        assert noun == NOUNS[section].__name__
        default = fields[name].default
        if key.default is REQUIRED:
            assert default is attrs.NOTHING
        elif key.default is not None:
            assert key.default in (default, getattr(default, "value", None))
        elif default is not None:
            empty = default in ((), {}) or isinstance(default, attrs.Factory)  # type: ignore[arg-type]  # attrs types it as a function
            assert empty or name == "ladder"


def test_every_field_of_the_policy_has_a_key() -> None:
    """Nothing that can be set in code is out of reach of a plan file."""
    for section in ("policy", "policy.budget", "steps"):
        goes = {key.goes.partition(".")[2] for key in KEYS[section]}
        assert set(attrs.fields_dict(NOUNS[section])) == goes


def test_no_key_is_both_there_and_not_yet() -> None:
    """A key that has become available is no longer refused."""
    for section, names in NOT_YET.items():
        assert not {key.name for key in KEYS[section]} & set(names)


def test_every_strategy_is_listed_not_yet_listed_or_a_last_rung() -> None:
    """The strategies are those of the specification, each in one place."""
    names = [*STRATEGIES, *STRATEGIES_NOT_YET, *(rung.value for rung in LAST_RUNGS)]
    assert sorted(names) == sorted(each.value for each in RecoveryStrategy)


def test_every_built_in_tool_is_known_as_it_is(tmp_path: Path) -> None:
    """What the plan is told about a built-in tool is what the tool says of itself."""
    content = b'goal = "g"\n[[steps]]\nid = "one"\ntool = "shell"\nargs = { command = "ls" }\n'
    for tool in loads(content, tmp_path).tools:
        assert tool.read_only == BUILT_IN[tool.name].read_only


# Lines


def test_places_are_found_in_any_way_of_writing() -> None:
    """Headers, dotted and quoted keys, comments, long texts and long lists: the line is right."""
    text = '''\
# a comment [with = this]
goal = """
[[steps]]
id = "no"
"""  # "
policy.budget.steps = 3
[tools."my tool"]  # [x]
argv = [
  "]", # "
  'it',
]
[[steps]]
id = "a"
[steps.args]
x = { y = "]" }
[[steps]]
"id" = 'b'
'''
    lines = lines_of(text)
    places = {
        "goal": 2,
        "policy.budget": 6,
        "policy.budget.steps": 6,
        "tools.my tool": 7,
        "tools.my tool.argv[1]": 8,
        "steps[0]": 12,
        "steps[0].id": 13,
        "steps[0].args.x.y": 15,
        "steps[1].id": 17,
        "steps[1].tool": 16,
    }
    assert places == {place: line_of(place, lines) for place in places}
    assert line_of("nowhere.at.all", lines) is None
