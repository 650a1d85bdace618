"""What a tool may declare, and how what it declares is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.errors import DefinitionError
from loopfsm.model.situation import (
    CLASS_OF,
    Probe,
    Situation,
    SituationClass,
    SituationKind,
    Source,
)
from loopfsm.situations.classify import classify_result
from loopfsm.situations.contract import MOST_LINE, one_line, validate_situation
from loopfsm.situations.declared import Declared, When, when_of

FULL = {
    "kind": "auth",
    "subject": " GH ",
    "unblock": "gh auth login",
    "interactive": True,
    "probe": {"tool": "status", "args": {"host": "example.org"}},
    "detail": "nobody is signed in",
    "scope": "gh@example.org",
    "allowed": ["reading"],
}


def test_a_declaration_is_kept_as_it_was_given() -> None:
    """All that a tool may declare comes back as it was declared (R1, R69)."""
    assert Situation(
        kind=SituationKind.AUTH,
        subject="gh",
        unblock="gh auth login",
        interactive=True,
        probe=Probe(tool="status", args={"host": "example.org"}),
        detail="nobody is signed in",
        scope="gh@example.org",
        allowed=("reading",),
        source=Source.DECLARED,
        evidence="declared",
    ) == validate_situation("check", FULL)


def test_a_situation_is_validated_like_its_keys() -> None:
    """A situation that was built by hand goes through the same door."""
    first = validate_situation("check", FULL)
    assert first == validate_situation("check", first)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "lost"},
        {"kind": "AUTH"},
        {"kind": None},
        {"kind": ["auth"]},
        {"subject": ""},
        {"subject": " \n"},
        {"subject": None},
        {"subject": 3},
        {"unblock": ["a"]},
        {"interactive": 1},
        {"interactive": "yes"},
        {"probe": "status"},
        {"probe": {}},
        {"probe": {"tool": " "}},
        {"probe": {"tool": "status", "args": "x"}},
        {"detail": 3},
        {"retry_at": "soon"},
        {"retry_at": True},
        {"retry_after_s": float("nan")},
        {"allowed": "reading"},
        {"allowed": [1]},
    ],
    ids=str,
)
def test_what_is_malformed_is_refused(wrong: dict[str, Any]) -> None:
    """A missing subject, unknown kind or wrong type is a ValueError with the tool (R4, A17)."""
    with pytest.raises(ValueError, match="'check'") as caught:
        validate_situation("check", {**FULL, **wrong})
    assert isinstance(caught.value, DefinitionError)


@pytest.mark.parametrize("value", ["auth", 3, ["auth"], True])
def test_a_declaration_is_a_mapping_or_absent(value: Any) -> None:
    """None is absent, and any other value that is no mapping raises (A16)."""
    assert classify_result("check", {}, {"status": "success", "situation": None}).situation is None
    with pytest.raises(ValueError, match="'check'"):
        classify_result("check", {}, {"status": "success", "situation": value})


def test_unknown_keys_are_tolerated() -> None:
    """Keys that nobody knows yet are passed over (A17)."""
    assert validate_situation("check", FULL) == validate_situation("check", {**FULL, "colour": 3})


@pytest.mark.parametrize("kind", SituationKind)
def test_declared_blockers_are_failures(kind: SituationKind) -> None:
    """A declared blocker has failed whatever the status says; any other kind has not (R5, R6)."""
    result = {"status": "success", "situation": {"kind": kind.value, "subject": "x"}}
    found = classify_result("check", {}, result)
    assert (CLASS_OF[kind] is SituationClass.BLOCKER) == found.failed
    assert found.situation is not None
    assert kind is found.situation.kind


def test_declared_wins_over_inferred() -> None:
    """With a declaration in the result nothing else in it is read (R7)."""
    result = {
        "status": "error",
        "stderr": "Permission denied",
        "return_code": 127,
        "situation": {"kind": "offline", "subject": "cloud"},
    }
    found = classify_result("check", {}, result).situation
    assert found is not None
    assert (SituationKind.OFFLINE, "cloud") == (found.kind, found.subject)


@given(st.text())
def test_what_is_shown_is_one_line(text: str) -> None:
    """Control characters and line ends go, and a cut is visible (A15)."""
    line = one_line(text)
    assert len(line) <= MOST_LINE
    assert all(char.isprintable() for char in line)
    if len(text) <= MOST_LINE and text.isprintable():
        assert " ".join(text.split()) == line


def test_a_cut_is_visible() -> None:
    """A long text ends in an ellipsis (A15)."""
    assert one_line("a" * 9_000).endswith("a…")


# Declared in advance


GH = Declared(
    when=When(exit=4),
    kind=SituationKind.AUTH,
    subject="GH",
    unblock="gh auth login",
    interactive=True,
    probe=Probe(tool="status"),
)
ON_TEXT = Declared(when=When(stderr="come BACK later"), kind=SituationKind.QUOTA, subject="api")
ON_HTTP = Declared(when=When(http=418), kind=SituationKind.PERMISSION, subject="teapot")
ALL = (GH, ON_TEXT, ON_HTTP)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"status": "error", "return_code": 4, "stderr": "x"}, GH),
        ({"status": "error", "return_code": 1, "stderr": "Please Come back LATER."}, ON_TEXT),
        ({"status_code": 418, "body": "short and stout"}, ON_HTTP),
    ],
    ids=["exit", "stderr", "http"],
)
def test_a_tool_declares_what_its_failures_mean(result: Any, expected: Declared) -> None:
    """Exit code, literal error text or HTTP status lead to the declared situation (R7, R69)."""
    found = classify_result("gh", {}, result, declared=ALL).situation
    assert found is not None
    assert Source.DECLARED == found.source
    assert (expected.kind, expected.subject) == (found.kind, found.subject)
    assert (expected.unblock, expected.probe) == (found.unblock, found.probe)
    assert expected.interactive == found.interactive


@pytest.mark.parametrize("result", [{"status": "success", "stdout": "come back later"}, "later"])
def test_a_success_is_nothing_that_was_declared(result: Any) -> None:
    """What a tool declares is about failures."""
    assert classify_result("gh", {}, result, declared=ALL).situation is None


@pytest.mark.parametrize(
    "value", [None, {}, {"exit": "4"}, {"exit": True}, {"exit": 4, "http": 401}, {"out": "x"}, "x"]
)
def test_a_condition_is_one_of_three(value: Any) -> None:
    """`when` takes exactly one of exit, stderr and http, of the right type."""
    with pytest.raises(ValueError, match="'gh'"):
        when_of(value, "gh")


def test_a_condition_says_something() -> None:
    """An empty condition, or none, would hold always or never."""
    for wrong in ({}, {"stderr": ""}, {"exit": 1, "http": 2}):
        with pytest.raises(ValueError, match="exactly one"):
            When(**wrong)
