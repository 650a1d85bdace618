"""Golden errors: one plan per kind of mistake, with the words that a person gets to read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopfsm.errors import PlanError
from loopfsm.planfile import load, loads
from loopfsm.planfile.read import LARGEST_FILE

ENVIRONMENT = {"HOME": "/home/somebody"}

GOOD = """\
goal = "greet"
[[steps]]
id = "hello"
tool = "shell"
args = { command = "echo hello" }
"""


def mistakes(text: str | bytes, directory: Path = Path("/nowhere")) -> list[str]:
    """What `text` is refused with, line by line; empty when it is not."""
    content = text.encode() if isinstance(text, str) else text
    try:
        loads(content, directory, ENVIRONMENT)
    except PlanError as error:
        return str(error).splitlines()
    return []


def step(body: str) -> str:
    """A plan with one step more; its header is line 6."""
    return f"{GOOD}[[steps]]\n{body}\n"


MISTAKES: dict[str, tuple[str | bytes, list[str]]] = {
    "an unknown key at the top": (
        f"gaol = 1\n{GOOD}",
        ["gaol (line 1): unknown key 'gaol'; did you mean 'goal'?"],
    ),
    "an unknown key that is like no other": (
        f"zzz = 1\n{GOOD}",
        ["zzz (line 1): unknown key 'zzz'; valid: goal, journal, workspace, policy, tools, steps"],
    ),
    "a key in the wrong section": (
        f"max_parallel = 3\n{GOOD}",
        ["max_parallel (line 1): unknown key 'max_parallel'; it belongs in [policy]"],
    ),
    "a command written directly in a step": (
        step('id = "two"\ntool = "shell"\ncommand = "true"\nargs = { argv = ["true"] }'),
        [
            (
                "steps[1].command (line 9): unknown key 'command'; "
                "it belongs in this step's args or [tools.NAME]"
            ),
        ],
    ),
    "a command by another name": (
        step('id = "two"\ntool = "shell"\nargs = { cmd = "true", argv = ["true"] }')
        + '[tools.t]\ncmd = "true"\nargv = ["true"]\n',
        [
            "steps[1].args.cmd (line 9): unknown key 'cmd'; did you mean 'command'?",
            "tools.t.cmd (line 11): unknown key 'cmd'; did you mean 'command'?",
        ],
    ),
    "a command by another name, directly in a step": (
        step('id = "two"\ntool = "shell"\ncmd = "true"\nargs = { argv = ["true"] }'),
        [
            (
                "steps[1].cmd (line 9): unknown key 'cmd'; did you mean 'command'? "
                "it belongs in this step's args or [tools.NAME]"
            ),
        ],
    ),
    "a key whose feature is not there yet": (
        f'planner = "x"\n{GOOD}',
        ["planner (line 1): is not available yet"],
    ),
    "a section whose feature is not there yet": (
        f'{GOOD}[planner]\ncommand = "plan"\n',
        ["planner (line 6): is not available yet"],
    ),
    "no goal": (
        GOOD.partition("\n")[2],
        ["goal: is missing, and has no default"],
    ),
    "no steps": (
        'goal = "greet"\n',
        ["steps: is missing, and has no default"],
    ),
    "an empty plan": (
        'goal = "greet"\nsteps = []\n',
        ["steps (line 2): the plan has no steps; give it at least one"],
    ),
    "an empty goal": (
        GOOD.replace("greet", " "),
        ["goal (line 1): is empty; expected a text"],
    ),
    "steps that are no list": (
        'goal = "greet"\nsteps = "hello"\n',
        ["steps (line 2): found 'hello' (a text), expected a list of tables"],
    ),
    "a number out of range": (
        f"{GOOD}[policy]\nmax_parallel = 0\n",
        [
            (
                "policy.max_parallel (line 7): found 0 (a whole number), expected a whole number "
                "of at least 1"
            )
        ],
    ),
    "a number that is none": (
        f"{GOOD}[policy]\nbackoff_base_s = nan\nrecoveries = true\nbackoff_cap_s = {'9' * 400}\n",
        [
            "policy.backoff_base_s (line 7): found nan (a number), expected a number of at least 0",
            "policy.recoveries (line 8): found true, expected a whole number of at least 0",
            (
                "policy.backoff_cap_s (line 9): found a number of many digits (a whole number), "
                "expected a number of at least 0"
            ),
        ],
    ),
    "a word that is none of the valid ones": (
        f'{GOOD}[policy]\nwhen_exhausted = "aks"\n',
        ["policy.when_exhausted (line 7): unknown value 'aks'; did you mean 'ask'?"],
    ),
    "an unknown budget": (
        f"{GOOD}[policy.budget]\nsecond = 3\n",
        ["policy.budget.second (line 7): unknown key 'second'; did you mean 'seconds'?"],
    ),
    "an unknown strategy": (
        f'{GOOD}[policy.ladder]\nunclassified = ["RETRY", "RETRI"]\n',
        ["policy.ladder.unclassified[1] (line 7): unknown strategy 'RETRI'; did you mean 'RETRY'?"],
    ),
    "a strategy that is not there yet": (
        f'{GOOD}[policy.ladder]\nunclassified = ["ROLLBACK"]\n',
        ["policy.ladder.unclassified[0] (line 7): the strategy ROLLBACK is not available yet"],
    ),
    "a strategy that no ladder lists": (
        f'{GOOD}[policy.ladder]\nunclassified = ["TERMINATE"]\n',
        [
            (
                "policy.ladder.unclassified[0] (line 7): TERMINATE is no rung: when_exhausted says "
                "what comes after the last one"
            )
        ],
    ),
    "an unknown class of failure": (
        f'{GOOD}[policy.ladder]\nunclasified = ["RETRY"]\n',
        [
            (
                "policy.ladder.unclasified (line 7): unknown class of failure 'unclasified'; "
                "did you mean 'unclassified'?"
            )
        ],
    ),
    "a tool of no kind": (
        f"{GOOD}[tools.greet]\nread_only = true\n",
        ["tools.greet (line 6): found none, expected one of command, argv, python"],
    ),
    "a tool of two kinds": (
        f'{GOOD}[tools.greet]\ncommand = "echo"\nargv = ["echo"]\n',
        ["tools.greet (line 6): found command and argv, expected one of command, argv, python"],
    ),
    "a tool of a kind that is not there yet": (
        f'{GOOD}[tools.greet]\nhttp = {{ url = "http://localhost" }}\n',
        ["tools.greet.http (line 7): is not available yet"],
    ),
    "a tool under the name of a built-in one": (
        f'{GOOD}[tools.shell]\ncommand = "echo"\n',
        [
            (
                "tools.shell (line 6): 'shell' is the name of a built-in tool; "
                "give this one another name"
            )
        ],
    ),
    "a reference to an output in a tool": (
        f'{GOOD}[tools.greet]\nargv = ["echo", {{ from = "hello" }}]\n',
        [
            (
                "tools.greet.argv[1].from (line 7): a tool serves every step and takes no output; "
                "give it in the args of a step"
            )
        ],
    ),
    "a tool without a program": (
        f"{GOOD}[tools.greet]\nargv = []\n",
        ["tools.greet.argv (line 7): is empty; expected a list of texts or references"],
    ),
    "a function that is not named as one": (
        f'{GOOD}[tools.greet]\npython = "greet"\n',
        [
            (
                "tools.greet.python (line 7): found 'greet' (a text), expected a text of the form "
                '"module:function"'
            )
        ],
    ),
    "a module that is not there": (
        f'{GOOD}[tools.greet]\npython = "no_such_module_here:greet"\n',
        [
            (
                "tools.greet.python (line 7): the module 'no_such_module_here' cannot be imported "
                "from '/nowhere': ModuleNotFoundError: No module named 'no_such_module_here'"
            )
        ],
    ),
    "a directory for a function": (
        f'{GOOD}[tools.greet]\npython = "textwrap:dedent"\ncwd = "."\n',
        [
            (
                "tools.greet.cwd (line 8): belongs to a tool that runs a program; "
                "a Python function has args only"
            )
        ],
    ),
    "a function that is not there": (
        f'{GOOD}[tools.greet]\npython = "bisect:bisekt"\n',
        ["tools.greet.python (line 7): 'bisect' has no 'bisekt'; did you mean 'bisect'?"],
    ),
    "a step without an id and a tool": (
        step('description = "?"'),
        [
            "steps[1].id (line 6): is missing, and has no default",
            "steps[1].tool (line 6): is missing, and has no default",
        ],
    ),
    "an id that cannot be referred to": (
        step('id = "a.b"\ntool = "shell"\nargs = { command = "ls" }'),
        ["steps[1].id (line 7): found 'a.b' (a text), expected a text of letters, digits, - and _"],
    ),
    "an unknown tool": (
        step('id = "again"\ntool = "shel"'),
        ["steps[1].tool (line 8): unknown tool 'shel'; did you mean 'shell'?"],
    ),
    "a tool that is not there yet": (
        step('id = "again"\ntool = "http"'),
        ["steps[1].tool (line 8): the tool 'http' is not available yet"],
    ),
    "a key of a step that is not there yet": (
        step('id = "again"\ntool = "shell"\nargs = { command = "ls" }\nexpect = {}'),
        ["steps[1].expect (line 10): is not available yet"],
    ),
    "an unknown dependency": (
        step('id = "again"\ntool = "shell"\nargs = { command = "ls" }\nneeds = ["helo"]'),
        ["steps[1].needs[0] (line 10): no step has the id 'helo'; did you mean 'hello'?"],
    ),
    "needs of the wrong type": (
        step('id = "again"\ntool = "shell"\nargs = { command = "ls" }\nneeds = [\n1,\n"hello"]'),
        ["steps[1].needs[0] (line 10): found 1 (a whole number), expected a text"],
    ),
    "an id that is there twice": (
        step('id = "hello"\ntool = "shell"\nargs = { command = "ls" }'),
        [
            (
                "steps[1].id (line 7): the id 'hello' already stands at steps[0].id; "
                "each step needs an id of its own"
            )
        ],
    ),
    "a circle": (
        step('id = "again"\ntool = "shell"\nneeds = ["hello"]\nargs = { command = "ls" }').replace(
            '"echo hello"', '"echo", stdin = { from = "again.stdout" }'
        ),
        [
            (
                "steps[0].args.stdin (line 5): these steps wait for each other: 'hello' needs "
                "'again', 'again' needs 'hello'; remove one of these needs"
            )
        ],
    ),
    "a reference to an unknown step": (
        step('id = "again"\ntool = "shell"\nargs = { argv = ["cat", { from = "helo.stdout" }] }'),
        ["steps[1].args.argv[1].from (line 9): unknown step 'helo'; did you mean 'hello'?"],
    ),
    "a reference that names nothing": (
        step('id = "again"\ntool = "shell"\nargs = { argv = ["cat", { from = "hello..x" }] }'),
        [
            (
                "steps[1].args.argv[1].from (line 9): found 'hello..x' (a text), expected a text "
                'of the form "STEP" or "STEP.PATH", without empty parts'
            )
        ],
    ),
    "a table that is no reference": (
        step('id = "again"\ntool = "shell"\nargs = { argv = ["cat", { form = "hello" }] }'),
        [
            (
                "steps[1].args.argv[1] (line 9): found a table of 'form', expected a text, "
                '{ from = "STEP.PATH" } or { env = "NAME" }'
            )
        ],
    ),
    "a reference inside a command line": (
        step('id = "again"\ntool = "shell"\nargs = { command = { from = "hello.stdout" } }'),
        [
            (
                "steps[1].args.command (line 9): found a table of 'from', expected a text: a "
                "reference is a whole value and never part of a command line; use argv, or pass it "
                "in env"
            )
        ],
    ),
    "a variable that is not set": (
        step(
            'id = "again"\ntool = "shell"\n'
            'args = { command = "env", env = { TOKEN = { env = "TOKEN" } } }'
        ),
        ["steps[1].args.env.TOKEN.env (line 9): the environment has no variable 'TOKEN'"],
    ),
    "nothing to run": (
        step('id = "again"\ntool = "shell"'),
        ["steps[1].args (line 6): expected either argv or command, and only one"],
    ),
    "an unknown argument of a built-in tool": (
        step('id = "again"\ntool = "python"\nargs = { scirpt = "job.py" }'),
        [
            "steps[1].args.scirpt (line 9): unknown key 'scirpt'; did you mean 'script'?",
            "steps[1].args.script (line 9): is missing, and has no default",
        ],
    ),
    "a program given twice": (
        step('id = "again"\ntool = "greet"\nargs = { argv = ["cat"] }')
        + '[tools.greet]\nargv = ["echo"]\n',
        ["steps[1].args.argv (line 9): unknown key 'argv'; valid: env, cwd, stdin"],
    ),
    "a date among the args": (
        step('id = "again"\ntool = "greet"\nargs = { day = 2024-05-01, limit = inf }')
        + '[tools.greet]\npython = "textwrap:dedent"\n',
        [
            (
                "steps[1].args.day (line 9): found the date or time 2024-05-01, expected a text: "
                "put it in quotes"
            ),
            "steps[1].args.limit (line 9): found inf, expected a finite number",
        ],
    ),
    "a verification that may change the world": (
        step(
            'id = "again"\ntool = "shell"\nargs = { command = "ls" }\n'
            'verify = { tool = "shell", args = { command = "ls" } }'
        ),
        [
            (
                "steps[1].verify.tool (line 10): the tool 'shell' is not read_only, and a "
                "verification only looks; name a tool that is declared with read_only = true"
            )
        ],
    ),
    "a verification by nobody": (
        step('id = "again"\ntool = "shell"\nargs = { command = "ls" }\nverify = { args = {} }'),
        ["steps[1].verify.tool (line 10): is missing, and has no default"],
    ),
    "a required step that uses an optional one": (
        step(
            'id = "again"\ntool = "shell"\n'
            'args = { command = "cat", stdin = { from = "hello.stdout" } }'
        ).replace('"echo hello" }', '"echo hello" }\noptional = true'),
        [
            (
                "steps[1].args.stdin (line 10): required step 'again' uses the output of 'hello', "
                "which is optional and may be skipped; make 'again' optional too, make 'hello' "
                "required, or do not use its output"
            )
        ],
    ),
    "no TOML": (
        'goal = "greet"\n[[steps]\n',
        ["line 2, column 8: this is no TOML: Expected ']]' at the end of an array declaration"],
    ),
    "no TOML at the very end": (
        'goal = "greet"\nsteps = [',
        ["line 2, column 10: this is no TOML: Invalid value"],
    ),
    "no UTF-8": (
        b'goal = "gr\xc3\xbc\xdfe"\n',
        ["line 1, column 12: the byte 0xdf is no UTF-8; save the plan as UTF-8"],
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_named_with_its_place(kind: str) -> None:
    """Each kind of mistake is refused in exactly these words."""
    text, expected = MISTAKES[kind]
    assert expected == mistakes(text)


def test_the_plan_that_the_mistakes_are_made_in_is_good() -> None:
    """Nothing else is wrong with the plans of this file."""
    assert [] == mistakes(GOOD)


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    """Five mistakes of five kinds are five problems, whoever finds them."""
    text = """\
goal = "greet"
[policy]
max_paralel = 3
[[steps]]
id = "one"
tool = "shel"
[[steps]]
id = "two"
tool = "shell"
timeout_s = "soon"
args = { argv = ["cat", { from = "noe.stdout" }] }
needs = ["three"]
"""
    assert [
        "policy.max_paralel (line 3): unknown key 'max_paralel'; did you mean 'max_parallel'?",
        "steps[0].tool (line 6): unknown tool 'shel'; did you mean 'shell'?",
        "steps[1].timeout_s (line 10): found 'soon' (a text), expected a number of seconds above 0",
        "steps[1].args.argv[1].from (line 11): unknown step 'noe'; did you mean 'one'?",
        "steps[1].needs[0] (line 12): no step has the id 'three'; none has a name like it",
    ] == mistakes(text)


def test_fixing_each_mistake_as_told_makes_the_plan_load() -> None:
    """The words of an error are enough to put it right."""
    text = 'gaol = "greet"\n[[steps]]\nid = "one"\ntool = "shel"\nargs = { comand = "ls" }\n'
    fixed = text.replace("gaol", "goal").replace("shel", "shell").replace("comand", "command")
    assert [] != mistakes(text)
    assert [] == mistakes(fixed)


@pytest.mark.parametrize("name", ["missing.toml", ".", "nul\0.toml"])
def test_a_plan_that_cannot_be_read_is_a_plan_error(tmp_path: Path, name: str) -> None:
    """A missing file, a directory, an impossible name: one clear error."""
    with pytest.raises(PlanError, match="cannot be read"):
        load(tmp_path / name)


def test_a_module_that_ends_the_program_is_a_mistake_of_its_own(tmp_path: Path) -> None:
    """Whatever an imported module raises, the plan is refused and the process lives on."""
    (tmp_path / "ends_the_program.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    text = f'{GOOD}[tools.greet]\npython = "ends_the_program:greet"\n'
    (problem,) = mistakes(text, tmp_path)
    assert problem.endswith("SystemExit: 3")


def test_a_workspace_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """The workspace is a directory, or not there yet."""
    (tmp_path / "taken").write_text("", encoding="utf-8")
    (problem,) = mistakes(f'workspace = "taken"\n{GOOD}', tmp_path)
    assert problem.startswith("workspace (line 1): ")
    assert problem.endswith("is not a directory")


def test_a_device_and_a_pipe_are_refused_without_reading_them(tmp_path: Path) -> None:
    """What might never end is not read, and not even opened."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(PlanError, match="cannot be read: it is no regular file"):
            load(path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A plan has its size; the bound is said."""
    plan = tmp_path / "plan.toml"
    plan.write_text(GOOD, encoding="utf-8")
    os.truncate(plan, LARGEST_FILE + 1)
    with pytest.raises(PlanError, match="cannot be read: it is larger than 16 MiB"):
        load(plan)
