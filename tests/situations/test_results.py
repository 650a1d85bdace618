"""Results as an agent in production sees them, each with what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopfsm.situations.classify import classify_result

RESULTS = [
    json.loads(line)
    for line in (Path(__file__).parent / "results.jsonl").read_text(encoding="utf-8").splitlines()
]
WELL_FORMED = [case for case in RESULTS if case["expect"]["raises"] is None]
MALFORMED = [case for case in RESULTS if case["expect"]["raises"] is not None]


def classified(case: dict[str, Any], tool: str | None = None, args: Any = None) -> Any:
    args = case["args"] if args is None else args
    return classify_result(case["tool"] if tool is None else tool, args, case["result"])


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case["id"])
def test_a_result_says_what_it_says(case: dict[str, Any]) -> None:
    """Each recorded result fails, is refused and means what it should (R3, R6, R8, R9, R14)."""
    expect, found = case["expect"], classified(case)
    situation = found.situation
    kind = None if situation is None else situation.kind.value
    assert kind in {*expect["accept_kinds"], expect["kind"]}
    assert (expect["failed"], expect["refused"]) == (found.failed, found.refused)
    if situation is not None and expect["accept_subjects"]:
        assert situation.subject in [subject.casefold() for subject in expect["accept_subjects"]]
    if kind == expect["kind"]:
        assert expect["class"] == found.class_name
    if situation is not None and kind == expect["kind"]:
        assert expect["source"] == situation.source
        assert expect["interactive"] == situation.interactive


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case["id"])
def test_a_malformed_declaration_raises(case: dict[str, Any]) -> None:
    """It is a ValueError that names the tool, also in a result that succeeded (R4, R5)."""
    with pytest.raises(ValueError, match=case["tool"]):
        classified(case)


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case["id"])
def test_no_tool_name_is_special(case: dict[str, Any]) -> None:
    """Another name for the tool changes no decision; the subject may be the name (R16)."""
    if not case["tool"]:
        pytest.skip("a call without a name is what this result is about")
    before, after = classified(case), classified(case, tool="zz9")
    assert (before.failed, before.refused) == (after.failed, after.refused)
    assert before.class_name == after.class_name
    if before.situation is not None and after.situation is not None:
        assert before.situation.kind is after.situation.kind
        assert before.situation.subject in {after.situation.subject, case["tool"].casefold()}


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case["id"])
def test_arguments_may_be_json_text(case: dict[str, Any]) -> None:
    """Arguments as a mapping and as its JSON text are the same."""
    assert classified(case) == classified(case, args=json.dumps(case["args"]))


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case["id"])
def test_a_result_is_not_changed(case: dict[str, Any]) -> None:
    """Classifying leaves the result as it was."""
    before = json.dumps(case["result"])
    classified(case)
    assert before == json.dumps(case["result"])
