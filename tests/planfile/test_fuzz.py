"""Whatever a plan file holds: it loads, or it is refused with a `PlanError`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopfsm.errors import PlanError
from loopfsm.planfile import loads
from loopfsm.planfile.keys import KEYS, NOT_YET
from loopfsm.planfile.places import lines_of

NOWHERE = Path("/nowhere")

NAMES = st.sampled_from(
    sorted({key.name for keys in KEYS.values() for key in keys} | {"journal", "expect", "from"})
)
WORDS = st.sampled_from(
    ["a", "b", "a.x", "run", "shell", "python", "http", "t", "ask", "RETRY", "x:y", "", "\0", "ü"]
)
SCALARS = st.one_of(
    WORDS, st.text(max_size=4), st.integers(-3, 10**20), st.floats(), st.booleans(), st.dates()
)
VALUES = st.recursive(
    SCALARS | st.builds(lambda word: {"from": word}, WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | WORDS, inner, max_size=4),
    max_leaves=4,
)


def tables(section: str) -> st.SearchStrategy[dict[str, Any]]:
    """Tables that mostly have the keys of their section."""
    names = [key.name for key in KEYS[section]] + list(NOT_YET.get(section, ()))
    return st.dictionaries(st.sampled_from(names), VALUES, max_size=3)


STEPS = st.builds(
    lambda words, rest: {**rest, **words},
    st.fixed_dictionaries({"id": WORDS, "tool": WORDS}),
    tables("steps"),
)
SITUATIONS = st.builds(
    lambda when, probe, rest: {**rest, **when, **probe},
    st.fixed_dictionaries({"when": tables("tools.NAME.situations.when")}),
    st.fixed_dictionaries({}, optional={"probe": tables("tools.NAME.situations.probe")}),
    tables("tools.NAME.situations"),
)
TOOLS = st.builds(
    # no functions: a module that a plan names is really imported
    lambda table, rest: {k: v for k, v in {**table, **rest}.items() if k != "python"},
    tables("tools.NAME"),
    st.fixed_dictionaries(
        {}, optional={"argv": st.just(["true"]), "situations": st.lists(SITUATIONS, max_size=2)}
    ),
)
PLANS = st.builds(
    lambda known, rest: {**rest, **known},
    st.fixed_dictionaries(
        {},
        optional={
            "goal": WORDS,
            "policy": tables("policy"),
            "tools": st.dictionaries(WORDS, TOOLS, max_size=2),
            "steps": st.lists(STEPS, max_size=2),
        },
    ),
    tables("").map(lambda t: {k: t[k] for k in t if k != "tools"}),
)


def toml(value: Any) -> str:
    """A value as TOML, tables inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if "." in repr(value) or not repr(value)[-1].isdigit() else f"{value}"
    return str(value)


def is_loaded_or_refused(content: bytes) -> None:
    try:
        loads(content, NOWHERE, {"a": "1"})
    except PlanError as error:
        refused = error
    else:
        return
    assert refused.problems
    assert all(problem.message for problem in refused.problems)


@pytest.mark.slow  # a hundred generated plans
@given(PLANS)
def test_any_table_is_loaded_or_refused(plan: dict[str, Any]) -> None:
    """A plan of any keys and values raises nothing but `PlanError`."""
    text = "".join(f"{json.dumps(name)} = {toml(value)}\n" for name, value in plan.items())
    is_loaded_or_refused(text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode()))
@example(b"a = " + b"[" * 5000)
@example(b"a = " + b"9" * 5000)
@example(b"a = 1\r")
@example(b"steps = " + b"[" * 90 + b"]" * 90)
def test_any_bytes_are_loaded_or_refused(content: bytes) -> None:
    """A file of any bytes raises nothing but `PlanError`."""
    is_loaded_or_refused(content)


@given(st.text(alphabet="[]{}=\"'#\\\n\r\t .abc1", max_size=40))
def test_the_reader_of_lines_ends(text: str) -> None:
    """It is only asked about texts that parse, and takes any."""
    assert all(1 <= line <= text.count("\n") + 1 for line in lines_of(text).values())
