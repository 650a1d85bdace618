"""The published shapes: each is a schema, and whatever `--json` prints has one and fits it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # its types are a package of their own
import pytest

from loopfsm.cli import main, shapes
from loopfsm.cli.shapes import SHAPES, UNTYPED
from loopfsm.errors import PostconditionViolated
from tests.cli.plans import SPENT, TWO, Terminal


def check(lines: Iterable[Mapping[str, Any]]) -> set[str]:
    """The types of the lines; each line fits the shape of its type."""
    types = set()
    for line in lines:
        name = line.get("type", UNTYPED)
        jsonschema.validate(line, SHAPES[name], jsonschema.Draft202012Validator)
        types.add(name)
    return types


def test_each_shape_is_a_schema() -> None:
    """Of draft 2020-12, named by the type of its lines; the lines of one have no type."""
    for name, shape in SHAPES.items():
        jsonschema.Draft202012Validator.check_schema(shape)
        assert shapes.DIALECT == shape["$schema"]
        if name == UNTYPED:
            assert all("type" not in each["properties"] for each in shape["anyOf"])
        else:
            assert {"const": name} == shape["properties"]["type"]


def test_the_shapes_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """All names without a name, one schema with one."""
    assert main(["schema"]) == 0
    assert list(SHAPES) == [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert main(["schema", "outcome"]) == 0
    assert SHAPES["outcome"] == json.loads(capsys.readouterr().out)
    assert main(["schema", "outcom"]) == 2


@pytest.mark.slow
def test_what_every_command_prints_fits_its_shape(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every shape has been printed by some command."""
    seen: set[str] = set()

    def fits(*words: str) -> None:
        seen.update(check(terminal.json(*words)[1]))

    fits("runs")
    for text in (SPENT, TWO):
        fits("run", terminal.plan(text))
        fits("show", "last")
        fits("watch", "last")
    fits("answer", "last", "left", "skip", "--say", "why not")
    fits("answer", "last", "left", "skip")
    fits("answer", "last", "right", "what")
    fits("show", "last", "left")
    fits("trace", "last")
    fits("resume", "last")
    fits("cancel", "last")
    fits("cancel", "last")
    fits("resume", "nobody")
    fits("runs", "--prune")
    fits("run", str(terminal.directory / "missing.toml"))
    fits("run", terminal.plan(TWO), "--journal", "memory")
    fits("show", "last")
    monkeypatch.setattr("loopfsm.review.prove.report", lambda: ("proved", True))
    fits("prove")
    lines = terminal.directory / "lines"
    lines.write_text('{"tool": "t", "result": 1}\n[]\n', encoding="utf-8")
    fits("classify", str(lines))
    with monkeypatch.context() as patched:
        patched.setattr("loopfsm.engine.loop.Loop.run", interrupted)
        fits("run", terminal.plan())
        patched.setattr("loopfsm.engine.loop.Loop.run", broken)
        fits("run", terminal.plan())
    assert set(SHAPES) == seen


async def interrupted(_loop: object) -> None:
    """A run that Ctrl-C ends at once."""
    raise KeyboardInterrupt


async def broken(_loop: object) -> None:
    """A run that breaks a contract of the core."""
    raise PostconditionViolated("step", "a", "STEP-04", "EXECUTED", "output_is_recorded", "")


def test_a_line_that_says_more_or_less_does_not_fit(terminal: Terminal) -> None:
    """The shapes bite: a key that is missing, added or of another type is found."""
    (line,) = terminal.json("runs")[1]
    wrong: list[dict[str, Any]] = [
        {**line, "more": 1},
        {key: value for key, value in line.items() if key != "runs"},
        {**line, "forgotten": "none"},
    ]
    for each in wrong:
        with pytest.raises(jsonschema.ValidationError):
            check([each])


def test_no_code_prints_a_type_without_a_shape() -> None:
    """Every `"type": NAME` in the commands names a shape."""
    folder = Path(shapes.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == "shapes.py":
            continue
        names = [each.split('"')[0] for each in text.split('"type": "')[1:]]
        assert set() == set(names) - set(SHAPES), path.name
