"""`loopfsm classify`: one answer per line, at once and in order, whatever the lines are."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # its types are a package of their own
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopfsm.cli import classify, main
from loopfsm.cli.shapes import SHAPES, UNTYPED
from loopfsm.situations.classify import classify_result
from tests.cli.plans import ROOT, Terminal

FINE: dict[str, Any] = {"tool": "run", "args": {"command": "ls"}, "result": {"stdout": "a\n"}}
KEYS = [
    "class", "kind", "subject", "interactive", "source",
    "failed", "refused", "unblock", "probe", "evidence",
]  # fmt: skip

PROBE = {"tool": "status", "args": {"binary": "gh"}}
SIGNED_OUT: dict[str, Any] = {
    "tool": "check",
    "args": {},
    "result": {
        "status": "error",
        "situation": {
            "kind": "auth",
            "subject": "GH",
            "unblock": "gh auth login",
            "interactive": True,
            "probe": PROBE,
        },
    },
}

PLAN = """\
goal = "g"
[tools.api]
argv = ["gh", "api"]
[[tools.api.situations]]
when = { exit = 4 }
kind = "auth"
subject = "gh"
unblock = "gh auth login"
interactive = true
probe = { tool = "status" }
[tools.status]
argv = ["gh", "auth", "status"]
read_only = true
[[steps]]
id = "one"
tool = "api"
"""


def answers(
    terminal: Terminal, lines: bytes | list[dict[str, Any]], *words: str
) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and what is said of the lines of a file; each fits its shape."""
    if not isinstance(lines, bytes):
        lines = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    path = terminal.directory / "lines"
    path.write_bytes(lines)
    code, out, err = terminal.do("classify", str(path), *words)
    assert "" == err
    assert out.isascii()
    assert not set(map(chr, range(32))) - {"\n"} & set(out)
    said = [json.loads(line) for line in out.splitlines()]
    for each in said:
        jsonschema.validate(each, SHAPES[UNTYPED], jsonschema.Draft202012Validator)
    return code, said


def test_a_line_is_answered_with_these_keys(terminal: Terminal) -> None:
    """A result that asks for nothing has the class `none`, and null where nothing is to be said."""
    code, (said,) = answers(terminal, [FINE])
    assert (0, KEYS) == (code, list(said))
    assert ("none", None, False, False) == tuple(
        said[key] for key in ("class", "kind", "failed", "refused")
    )


def test_a_declared_situation_is_told_whole(terminal: Terminal) -> None:
    """What the code of a tool declares comes out as it went in, under its class (R69)."""
    code, (said,) = answers(terminal, [SIGNED_OUT])
    said.pop("evidence")
    assert 0 == code
    assert {
        "class": "blocker",
        "kind": "auth",
        "subject": "gh",
        "interactive": True,
        "source": "declared",
        "failed": True,
        "refused": False,
        "unblock": "gh auth login",
        "probe": PROBE,
    } == said


BAD: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "it is no JSON: "),
    "no object": (b"[1]", "it is no JSON object; expected "),
    "no tool": (b'{"result": 1}', "it has no 'tool'"),
    "no result": (b'{"tool": "run"}', "it has no 'result'"),
    "neither": (b"{}", "it has no 'tool' and no 'result'"),
    "a tool without a name": (b'{"tool": " ", "result": 1}', "its 'tool' is not the name of "),
    "a tool that is no text": (b'{"tool": 1, "result": 1}', "its 'tool' is not the name of "),
    "args that are none": (b'{"tool": "t", "args": 1, "result": 1}', "its 'args' are neither "),
    "no UTF-8": (b'{"tool": "\xff", "result": 1}', "it is no UTF-8: invalid start byte at byte 10"),
    "nested too deeply": (b"[" * 200_000, "it is nested too deeply"),
    "too many digits": (b'{"tool": "t", "result": ' + b"9" * 5000 + b"}", "it is no JSON: "),
    "an unknown kind": (
        b'{"tool": "ask", "result": {"situation": {"kind": "\\u001b[2J", "subject": "x"}}}',
        "tool 'ask': ",
    ),
    "no subject": (b'{"tool": "ask", "result": {"situation": {"kind": "auth"}}}', "tool 'ask': "),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_told_and_stops_no_other(terminal: Terminal, kind: str) -> None:
    """Each kind of bad line is an error with its number; the lines around it are classified."""
    bad, says = BAD[kind]
    good = json.dumps(FINE).encode()
    code, said = answers(terminal, b"\n".join([good, bad, good]))
    assert (1, 3) == (code, len(said))
    assert ["error"] == list(said[1])
    assert said[1]["error"].startswith(f"line 2: {says}")
    assert said[0] == said[2]


def test_blank_lines_are_skipped_and_counted(terminal: Terminal) -> None:
    """A line of spaces has no answer; the numbers are those of the file."""
    code, said = answers(terminal, b"\r\n\n  \t\nx\n\n")
    assert (1, 1) == (code, len(said))
    assert said[0]["error"].startswith("line 4: ")
    assert (0, []) == answers(terminal, b"\n\n")


def test_the_last_line_needs_no_end_and_the_first_may_have_a_mark(terminal: Terminal) -> None:
    """A byte order mark and a missing newline are no mistakes."""
    line = json.dumps(FINE).encode()
    code, said = answers(terminal, b"\xef\xbb\xbf" + line + b"\r\n" + line)
    assert (0, 2) == (code, len(said))


def test_a_line_that_is_too_long_is_passed_over(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never held as a whole; the next line is read from its beginning."""
    monkeypatch.setattr(classify, "LONGEST_LINE", 200)
    good = json.dumps(FINE).encode()
    code, said = answers(terminal, b"\n".join([b'"' + b"x" * 1001, good, b"x" * 1001, good]))
    assert 1 == code
    assert [True, False, True, False] == ["error" in each for each in said]
    assert said[0]["error"].startswith("line 1: it is longer than ")


def test_no_control_sequence_comes_out(terminal: Terminal) -> None:
    """What a terminal would obey stays inside JSON, as an escape of ASCII."""
    words = "\x1b]0;title\x07\x9b2J\u202e \ud800 ü"
    lines = [
        {**FINE, "tool": words},
        {"tool": words, "result": {"status": "error", "error": words}},
        {"tool": words, "result": {"situation": {"kind": words, "subject": words}}},
        {"tool": "t", "result": {"situation": {"kind": "auth", "subject": words}}},
    ]
    code, said = answers(terminal, lines)
    assert (1, 4) == (code, len(said))


def test_the_situations_of_a_plan_are_those_of_its_tools(terminal: Terminal) -> None:
    """With `--plan` a tool's result means what the plan declares; another tool's does not."""
    result = {"status": "error", "stdout": "", "stderr": "", "return_code": 4}
    lines = [{"tool": name, "args": {}, "result": result} for name in ("api", "other")]
    code, (ours, other) = answers(terminal, lines, "--plan", terminal.plan(PLAN))
    assert 0 == code
    assert ("auth", "gh", "declared", "gh auth login", True) == tuple(
        ours[key] for key in ("kind", "subject", "source", "unblock", "interactive")
    )
    assert {"tool": "status", "args": {}} == ours["probe"]
    assert (None, None) == (other["unblock"], other["probe"])


def test_a_wrong_plan_is_refused_before_anything_is_read(terminal: Terminal) -> None:
    """Every mistake of the plan is told, and no line is classified."""
    text = PLAN.replace('"auth"', '"aut"')
    code, out, err = terminal.do("classify", "/no/such/file", "--plan", terminal.plan(text))
    (refused,) = [json.loads(line) for line in out.splitlines()]
    assert (2, "refused", "") == (code, refused["type"], err)
    assert "tools.api.situations[0].kind (line 6)" == refused["problems"][0]["place"]


@pytest.mark.parametrize("name", ["missing", ".", "nul\0"])
def test_a_file_that_cannot_be_read_is_bad_input(terminal: Terminal, name: str) -> None:
    """Exit code 2 and why, in the one form that this command has."""
    code, out, _ = terminal.do("classify", str(terminal.directory / name))
    (refused,) = [json.loads(line) for line in out.splitlines()]
    assert (2, "refused") == (code, refused["type"])
    assert "cannot be read: " in refused["problems"][0]["message"]


def test_without_a_file_standard_input_is_read(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`classify` alone, and `classify -`; a closed one is bad input."""
    for words in (("classify",), ("classify", "-", "--json")):
        held = io.TextIOWrapper(io.BytesIO(json.dumps(FINE).encode()))
        monkeypatch.setattr(sys, "stdin", held)
        code, out, _ = terminal.do(*words)
        assert (0, "none") == (code, json.loads(out)["class"])
    monkeypatch.setattr(sys, "stdin", None)
    assert 2 == terminal.do("classify")[0]


def test_a_defect_of_ours_costs_one_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when the classifier breaks on a line, the others are classified."""

    def broken(tool: str, args: Any, result: Any, *, declared: Any) -> Any:
        if tool == "bad":
            raise TypeError("what is this")
        return classify_result(tool, args, result, declared=declared)

    monkeypatch.setattr(classify, "classify_result", broken)
    code, said = answers(terminal, [{**FINE, "tool": "bad"}, FINE])
    assert 1 == code
    expected = "line 1: loopfsm itself is broken, please report it: TypeError: what is this"
    assert [expected, None] == [each.get("error") for each in said]


def test_when_nobody_reads_no_more_is_classified(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`| head` ends an endless input."""
    monkeypatch.setattr(classify, "somebody_reads", lambda: False)
    assert 1 == len(answers(terminal, [FINE, FINE, FINE])[1])


WORDS = st.sampled_from(
    ["status", "error", "stdout", "stderr", "return_code", "situation", "kind", "subject", "auth",
     "content", "isError", "executed", "http", "status_code", "code", "truncated", "probe", "files"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
CALLS = st.fixed_dictionaries(
    {"tool": st.text(min_size=1, max_size=5), "result": VALUES}, optional={"args": VALUES}
)


@pytest.mark.slow  # a hundred generated files
@given(st.lists(CALLS.map(json.dumps).map(str.encode) | st.binary(max_size=30), max_size=4))
@example([json.dumps({"tool": "t", "result": json.loads("[" * 900 + "]" * 900)}).encode()])
@example([b'{"tool": "t", "result": ' + b"[" * 900 + b'"\\ud800"' + b"]" * 900 + b"}"])
@example([b'{"tool": "t", "result": {"return_code": 1e999, "status_code": -1, "stderr": NaN}}'])
def test_any_lines_are_answered(lines: list[bytes]) -> None:
    """As many answers as there are lines, each of the shape, and never our own defect."""
    lines = [line.replace(b"\n", b" ") for line in lines]
    written, given_in = io.StringIO(), io.TextIOWrapper(io.BytesIO(b"\n".join(lines)))
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(written):
        patched.setattr(sys, "stdin", given_in)
        code = main(["classify"])
    said = [json.loads(line) for line in written.getvalue().splitlines()]
    assert len([line for line in lines if line.strip()]) == len(said)
    for each in said:
        jsonschema.validate(each, SHAPES[UNTYPED], jsonschema.Draft202012Validator)
        assert "itself is broken" not in each.get("error", "")
    assert any("error" in each for each in said) == code


@pytest.mark.slow  # starts a process
def test_a_line_is_answered_before_the_next_one_is_there() -> None:
    """Whoever writes a line can wait for its answer."""
    command = [sys.executable, "-m", "loopfsm", "classify"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (json.dumps(FINE), "no JSON", json.dumps(FINE)):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert ("error" in json.loads(process.stdout.readline())) == (line == "no JSON")
        process.stdin.close()
        assert "" == process.stdout.read()
        assert 1 == process.wait(30)


@pytest.mark.slow  # starts a process
def test_what_a_module_of_the_plan_prints_is_no_answer(tmp_path: Path) -> None:
    """Standard output holds the answers alone, whatever a plan imports."""
    (tmp_path / "noisy.py").write_text("print('hello')\ndef f(): ...\n", encoding="utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(f'{PLAN}[tools.f]\npython = "noisy:f"\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "loopfsm", "classify", "--plan", str(plan)],
        input=json.dumps(FINE),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=30,
    )
    assert 1 == len(done.stdout.splitlines())
    assert "none" == json.loads(done.stdout)["class"]
    assert "hello\n" == done.stderr
