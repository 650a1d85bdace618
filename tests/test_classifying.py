"""The score of the classifier: what counts as right, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import classifying, situations
from benchmarks.classifying import FOLDS, fold_of, main
from loopfsm.model.situation import Classification, Situation, SituationKind, Source
from loopfsm.situations.classify import classify_result


def said(_tool: str, _args: Any, result: Mapping[str, Any]) -> Classification:
    """A classifier that is told what to say."""
    if "breaks" in result:
        raise TypeError(result["breaks"])
    if result["kind"] == "malformed":
        raise ValueError("no situation")
    failed = result.get("failed", result["kind"] != "none")
    if result["kind"] == "none":
        return Classification(failed=failed, refused=False)
    found = Situation(kind=SituationKind(result["kind"]), subject=result.get("subject", "gh"))
    return Classification(failed=failed, refused=False, situation=found)


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifying, "classify_result", said)


def real(program: str, expected: str, found: str, *also: str, **more: Any) -> dict[str, Any]:
    """A line of the first form: what `program` printed is `expected`, and `found` is found."""
    return {
        "program": program,
        "tool": "run",
        "args": {},
        "result": {"kind": found, "text": "SECRET"},
        "expect": {"kind": expected, "also": also, "subject": "gh", "interactive": False},
        **more,
    }


def agent(id: str, expected: str | None, result: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A line of the second form."""
    expect = {
        "class": "none" if expected is None else "blocker",
        "kind": expected,
        "accept_kinds": [],
        "accept_subjects": [] if expected is None else ["gh"],
        "failed": expected is not None,
        "refused": False,
        "source": None if expected is None else "inferred",
        "interactive": False,
        "raises": None,
    }
    line = {"id": id, "tool": "run", "args": {}, "result": {**result, "text": "SECRET"}}
    return {**line, "expect": {**expect, **more}}


def score(
    directory: Path, lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str]:
    """The exit code and the report."""
    path = directory / "lines.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    code = main([str(path), *words])
    out = capsys.readouterr().out
    assert "SECRET" not in out
    return code, out


def test_another_kind_that_is_allowed_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An `also` is as right as the kind itself, in every figure."""
    lines = [real("a", "auth", "auth"), real("b", "auth", "quota", "quota", "none")]
    code, out = score(tmp_path, lines, capsys)
    assert 0 == code
    assert "right       2 of 2 (100.0 %)" in out
    assert "subject     2 of 2 (100.0 %) of the right claims" in out
    assert ["quota", "1/1", "100.0", "%", "0/0", "-"] in [line.split() for line in out.splitlines()]
    assert "wrong lines: 0" in out


def test_wrong_lines_are_named_without_their_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which line, which program, what was expected and what was found."""
    lines = [real("gh", "auth", "quota", "offline", id="c7"), real("gh", "none", "none")]
    code, out = score(tmp_path, lines, capsys)
    assert 1 == code
    (wrong,) = [line.split() for line in out.splitlines() if "c7" in line]
    assert ["c7", "gh", "expected", "auth", "or", "offline,", "found", "quota"] == wrong
    assert "MISSED: right: 50.0 %, at least 97.0 %" in out
    assert ["1", "auth", ".", ".", "1"] in [line.split() for line in out.splitlines()]


def test_the_targets_are_those_of_the_specification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """97 % right; per blocker one wrong claim or 95 % precision; none where there is nothing."""
    right = [real(str(number), "auth", "auth") for number in range(98)]
    one, two = real("x", "syntax", "quota"), real("y", "syntax", "quota")
    assert 0 == score(tmp_path, [*right, one], capsys)[0]
    code, out = score(tmp_path, [*right, one, two], capsys)
    assert (1, True) == (code, "MISSED: quota: 2 of 2 claims are wrong" in out)
    code, out = score(tmp_path, [*right, real("x", "none", "auth", id="c1")], capsys)
    assert (1, True) == (code, "MISSED: a blocker where there is nothing: c1" in out)
    assert 0 == score(tmp_path, [*right, real("x", "none", "empty")], capsys)[0]


def test_a_program_is_in_one_fifth_of_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its fifth depends on its name alone; the fifths are all there, and add up."""
    names = [f"program {number}" for number in range(100)]
    assert set(range(1, FOLDS + 1)) == {fold_of(name) for name in names}
    assert [3, 2, 3] == [fold_of(name) for name in ("gh", "git", "npm")]
    _, out = score(tmp_path, [real(name, "auth", "auth") for name in names * 2], capsys)
    fifths = [line.split() for line in out.splitlines() if line.startswith("  fifth")]
    assert (200, 100) == (
        sum(int(each[4]) for each in fifths),
        sum(int(each[-2]) for each in fifths),
    )


def test_a_fifth_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that whoever writes rules does not see what they are measured by."""
    lines = [real("gh", "auth", "quota", id="hidden"), real("git", "auth", "auth")]
    code, out = score(tmp_path, lines, capsys, "--without", str(fold_of("gh")))
    assert (0, False) == (code, "hidden" in out)
    with pytest.raises(SystemExit):
        score(tmp_path, lines[:1], capsys, "--without", str(fold_of("gh")))


def test_the_speed_is_told_when_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Medians over the lines that failed and over those that did not."""
    lines = [real("gh", "auth", "auth"), real("git", "none", "none")]
    _, out = score(tmp_path, lines, capsys, "--speed")
    told = [line.split()[0] for line in out.splitlines() if "times one re.search" in line]
    assert ["succeeded", "failed"] == told


def test_of_an_agents_result_everything_has_to_be_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kind, subject, source, failed, refused; a malformed one has to be refused."""
    kind, nothing = {"kind": "auth"}, {"kind": "none"}
    malformed = {"raises": "ValueError", "class": "malformed"}
    right = [
        agent("r1", "auth", kind),
        agent("r2", None, nothing),
        agent("r3", None, {"kind": "malformed"}, **malformed),
        agent("r4", "quota", {**kind, "subject": "GH "}, accept_kinds=["auth"], source="declared"),
        agent("r5", "auth", {**nothing, "failed": True}, accept_kinds=[None]),
    ]
    code, out = score(tmp_path, right, capsys)
    assert (0, True) == (code, "right       5 of 5 (100.0 %)" in out)
    assert "fifth" not in out
    wrong = {
        "subject": agent("w", "auth", {**kind, "subject": "git"}),
        "source": agent("w", "auth", kind, source=Source.DECLARED),
        "refused": agent("w", "auth", kind, refused=True),
        "failed": agent("w", "auth", {**nothing, "failed": False}, accept_kinds=[None]),
        "class, failed": agent("w", None, {**nothing, "failed": True}),
        "found ValueError": agent("w", "auth", {"kind": "malformed"}),
        "found none": agent("w", None, nothing, **malformed),
        "found broken: TypeError": agent("w", None, {"breaks": "SECRET"}),
    }
    for why, line in wrong.items():
        code, out = score(tmp_path, [*right, line], capsys)
        (told,) = [each for each in out.splitlines() if each.startswith("  w ")]
        assert (1, True) == (code, why in told), told
        assert "MISSED: 1 of 6 lines are wrong, and every one is to be right" in out


def test_what_is_measured_is_what_it_is_called() -> None:
    """Of the generated results, those that succeeded have, and those that failed have."""
    for name, result in situations.successes(situations.SIZE).items():
        assert (name, False) == (name, classify_result("run", {}, result).failed)
    for name, result in situations.failures(situations.SIZE).items():
        assert (name, True) == (name, classify_result("run", {}, result).failed)
    assert situations.SIZE == len(situations.prose(situations.SIZE, "the end"))
    for name, text in situations.ADVERSARIAL.items():
        assert (name, True) == (name, 0.9 < len(text(1000)) / 1000 <= 1)
        assert situations.LITERAL not in text(1000)
