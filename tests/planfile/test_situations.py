"""`[[tools.NAME.situations]]`: what a plan says that the failures of its tools mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopfsm.errors import PlanError
from loopfsm.model.situation import Probe, SituationKind
from loopfsm.planfile import loads
from loopfsm.situations.declared import Declared, When
from loopfsm.tools.registry import ToolRegistry

STEP = """
[[steps]]
id = "one"
tool = "shell"
args = { command = "true" }
"""

STATUS = """\
[tools.status]
argv = ["gh", "auth", "status"]
read_only = true
"""


def tools_of(tools: str, directory: Path = Path("/nowhere")) -> ToolRegistry:
    """The tools of a plan that declares these."""
    return loads(f'goal = "g"\n{tools}{STEP}'.encode(), directory, {"NAME": "value"}).tools


def mistakes(tools: str, directory: Path = Path("/nowhere")) -> list[str]:
    """What they are refused with. The first line of `tools` is line 2 of the plan."""
    with pytest.raises(PlanError) as caught:
        tools_of(tools, directory)
    return str(caught.value).splitlines()


def api(situation: str, more: str = "") -> str:
    """The tool `api` with one situation; the first line of it is line 5."""
    return f'[tools.api]\nargv = ["gh"]\n[[tools.api.situations]]\n{situation}\n{more}'


GOOD = 'when = { exit = 4 }\nkind = "auth"\nsubject = "gh"'


def test_every_key_of_a_situation_is_read() -> None:
    """The tables become `Declared`s on the tool, in order; the probe may stand further down."""
    tools = tools_of(
        api(
            'when = { exit = 4 }\nkind = "auth"\nsubject = " GH "\nunblock = "gh auth login"\n'
            'interactive = true\ndetail = "nobody is signed in"\n'
            'probe = { tool = "status", args = { cwd = "sub" } }\n'
            "[[tools.api.situations]]\n"
            'when = { stderr = "rate limit" }\nkind = "quota"\nsubject = "gh"\n'
            "[[tools.api.situations]]\n"
            'when = { http = 503 }\nkind = "offline"\nsubject = "gh"',
            STATUS,
        )
    )
    expected = (
        Declared(
            when=When(exit=4),
            kind=SituationKind.AUTH,
            subject="gh",
            unblock="gh auth login",
            interactive=True,
            detail="nobody is signed in",
            probe=Probe(tool="status", args={"cwd": "sub"}),
        ),
        Declared(when=When(stderr="rate limit"), kind=SituationKind.QUOTA, subject="gh"),
        Declared(when=When(http=503), kind=SituationKind.OFFLINE, subject="gh"),
    )
    assert expected == tools.situations_of("api")
    assert () == tools.situations_of("status")
    assert () == tools.situations_of("shell")


@pytest.mark.parametrize("kind", SituationKind)
def test_every_kind_can_be_declared(kind: SituationKind) -> None:
    """A plan may say any of the 14 (R2)."""
    (declared,) = tools_of(api(GOOD.replace("auth", kind))).situations_of("api")
    assert kind is declared.kind


def test_a_tool_may_be_interactive() -> None:
    """It is on the tool for whoever decides about its calls (R18)."""
    tools = tools_of('[tools.login]\nargv = ["gh"]\ninteractive = true\n' + STATUS)
    login, status = tools.get("login"), tools.get("status")
    assert (True, False) == (login.interactive, status.interactive)  # type: ignore[attr-defined]  # of a ShellTool


MISTAKES: dict[str, tuple[str, list[str]]] = {
    "situations that are no list": (
        '[tools.api]\nargv = ["gh"]\nsituations = { kind = "auth" }\n',
        ["situations (line 4): found a table of 'kind', expected a list of tables"],
    ),
    "nothing said": (
        api(""),
        [
            "situations[0].when (line 4): is missing, and has no default",
            "situations[0].kind (line 4): is missing, and has no default",
            "situations[0].subject (line 4): is missing, and has no default",
        ],
    ),
    "an unknown key": (
        api(f'{GOOD}\nunblok = "x"'),
        ["situations[0].unblok (line 8): unknown key 'unblok'; did you mean 'unblock'?"],
    ),
    "a key of another table": (
        api(f"{GOOD}\nread_only = true"),
        ["situations[0].read_only (line 8): unknown key 'read_only'; it belongs in [tools.NAME]"],
    ),
    "an unknown kind": (
        api(GOOD.replace('"auth"', '"autth"')),
        ["situations[0].kind (line 6): unknown value 'autth'; did you mean 'auth'?"],
    ),
    "a blank subject": (
        api(GOOD.replace('"gh"', '" "')),
        ["situations[0].subject (line 7): is empty; expected a text"],
    ),
    "values of other types": (
        api(f'{GOOD}\nunblock = 1\ninteractive = "yes"\nprobe = "status"\ndetail = []'),
        [
            "situations[0].unblock (line 8): found 1 (a whole number), expected a text",
            "situations[0].interactive (line 9): found 'yes' (a text), expected true or false",
            "situations[0].probe (line 10): found 'status' (a text), expected a table",
            "situations[0].detail (line 11): found a list of 0, expected a text",
        ],
    ),
    "no condition": (
        api(GOOD.replace("exit = 4", "")),
        [
            ("situations[0].when (line 5): found nothing, expected one of exit, stderr, http, "
            "and only one")
        ],
    ),
    "two conditions": (
        api(GOOD.replace("exit = 4", 'exit = 4, stderr = "x"')),
        [
            ("situations[0].when (line 5): found 'exit' and 'stderr', expected one of exit, "
            "stderr, http, and only one")
        ],
    ),
    "an unknown condition": (
        api(GOOD.replace("exit", "exti")),
        ["situations[0].when.exti (line 5): unknown key 'exti'; did you mean 'exit'?"],
    ),
    "an exit code that is a success": (
        api(GOOD.replace("4", "0")),
        [
            ("situations[0].when.exit (line 5): found 0 (a whole number), "
            "expected a whole number from 1 to 255")
        ],
    ),
    "an exit code that is no number": (
        api(GOOD.replace("4", "true")),
        [
            ("situations[0].when.exit (line 5): found true, "
            "expected a whole number from 1 to 255")
        ],
    ),
    "a status that is a success": (
        api(GOOD.replace("exit = 4", "http = 200")),
        [
            ("situations[0].when.http (line 5): found 200 (a whole number), "
            "expected a whole number from 300 to 599")
        ],
    ),
    "an empty piece of text": (
        api(GOOD.replace("exit = 4", 'stderr = ""')),
        ["situations[0].when.stderr (line 5): is empty; expected a text"],
    ),
    "a probe without a tool": (
        api(f"{GOOD}\nprobe = {{ args = {{}} }}"),
        ["situations[0].probe.tool (line 8): is missing, and has no default"],
    ),
    "a probe by an unknown tool": (
        api(f'{GOOD}\nprobe = {{ tool = "statsu" }}', STATUS),
        ["situations[0].probe.tool (line 8): unknown tool 'statsu'; did you mean 'status'?"],
    ),
    "a probe that may change the world": (
        api(f'{GOOD}\nprobe = {{ tool = "shell", args = {{ command = "ls" }} }}'),
        [
            ("situations[0].probe.tool (line 8): the tool 'shell' is not read_only, and a probe "
            "only looks; name a tool that is declared with read_only = true")
        ],
    ),
    "a probe that needs somebody": (
        api(f'{GOOD}\nprobe = {{ tool = "status" }}', STATUS + "interactive = true\n"),
        [
            ("situations[0].probe.tool (line 8): the tool 'status' is interactive, and nobody is "
            "there for a probe")
        ],
    ),
    "a probe with args that its tool does not take": (
        api(f'{GOOD}\nprobe = {{ tool = "status", args = {{ argv = ["x"] }} }}', STATUS),
        ["situations[0].probe.args.argv (line 8): unknown key 'argv'; valid: env, cwd, stdin"],
    ),
    "a probe that refers to something": (
        api(
            f'{GOOD}\nprobe = {{ tool = "status", args = {{ stdin = {{ from = "one" }}, '
            'cwd = { env = "NAME" } } }',
            STATUS,
        ),
        [
            ("situations[0].probe.args.stdin.from (line 8): a probe is kept for later runs and "
            "takes no references; write the value"),
            ("situations[0].probe.args.cwd.env (line 8): a probe is kept for later runs and "
            "takes no references; write the value"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_named_with_its_place(kind: str) -> None:
    """Each kind of mistake is refused in exactly these words."""
    tools, expected = MISTAKES[kind]
    assert [f"tools.api.{each}" for each in expected] == mistakes(tools)


def test_what_a_tool_is_still_without_is_said() -> None:
    """`subject` waits for the policy; no key is accepted and ignored."""
    expected = ["tools.api.subject (line 4): is not available yet"]
    assert expected == mistakes('[tools.api]\nargv = ["gh"]\nsubject = "gh"\n')


def test_what_the_decorator_declares_holds_where_the_plan_is_silent(tmp_path: Path) -> None:
    """As for every other key of a Python tool."""
    (tmp_path / "declares_situations.py").write_text(
        "from loopfsm import tool\n"
        "@tool(interactive=True, situations=[\n"
        "    {'when': {'exit': 4}, 'kind': 'auth', 'subject': 'gh', 'probe': {'tool': 'look'}}])\n"
        "def ask(): ...\n",
        encoding="utf-8",
    )
    ask = '[tools.ask]\npython = "declares_situations:ask"\n'
    tools = tools_of(ask, tmp_path)
    assert ["gh"] == [each.subject for each in tools.situations_of("ask")]
    assert tools.get("ask").interactive  # type: ignore[attr-defined]  # of a PythonTool
    said = f"{ask}interactive = false\n[[tools.ask.situations]]\n{GOOD.replace('gh', 'hub')}\n"
    tools = tools_of(said, tmp_path)
    assert ["hub"] == [each.subject for each in tools.situations_of("ask")]
    assert not tools.get("ask").interactive  # type: ignore[attr-defined]  # of a PythonTool
    expected = "its probe calls 'look', which is not read_only; a probe only looks"
    look = '[tools.look]\nargv = ["gh"]\n'
    assert [f"tools.ask (line 2): {expected}"] == mistakes(ask + look, tmp_path)
