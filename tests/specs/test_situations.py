"""The situations that people described equal those of the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from loopfsm.model.situation import CLASS_OF, SituationKind
from loopfsm.situations import classify, evidence
from loopfsm.situations.classify import classify_result
from loopfsm.situations.evidence.codes import CODES, ERRNO
from loopfsm.situations.evidence.exit import EXITS
from loopfsm.situations.evidence.orders import ORDERS
from loopfsm.situations.evidence.sign import ANY
from loopfsm.situations.evidence.status import STATUS
from loopfsm.situations.evidence.stderr import STDERR
from loopfsm.situations.evidence.text import REPORTS, TEXT
from tests.specs.tables import LEAST_WORDS, Entry, entries_under, tables_in, why_differences

ROOT = Path(__file__).resolve().parents[2]
TABLES = tables_in(ROOT / "specs" / "situations.md", ROOT)
KINDS = entries_under(("kind", "class", "meaning", "example"), TABLES)
PRECEDENCE = entries_under(("evidence", "table", "why"), TABLES)

BY_SUCCESS = ("empty", "truncated", "garbled", "injected_instruction")
"""Kinds that a successful output carries."""


def listed(kinds: Iterable[SituationKind]) -> str:
    kinds = frozenset(kinds)
    return "any" if kinds == ANY else ", ".join(sorted(kinds))


def codes_described(column: str) -> list[tuple[str, str, str]]:
    entries = entries_under((column, "kind", "leaves open"), TABLES)
    return [(entry[column], entry["kind"], entry["leaves open"]) for entry in entries]


def codes_of(table: Mapping[int, Any]) -> list[tuple[str, str, str]]:
    return [(str(c), row.kind or "", listed(row.leaves_open)) for c, row in table.items()]


def test_the_kinds_are_those_of_the_code() -> None:
    """Each of the 14 kinds is described, in order, with its one class (R2, A20)."""
    described = [(entry["kind"], entry["class"]) for entry in KINDS]
    assert described == [(kind.value, CLASS_OF[kind].value) for kind in SituationKind]
    assert 14 == len(described)
    assert 4 == len(set(CLASS_OF.values()))


@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: str(entry["kind"]))
def test_every_example_is_what_it_is_an_example_of(entry: Entry) -> None:
    """The example of a kind is classified as that kind."""
    text = entry["example"].strip("`")
    if entry["kind"] in BY_SUCCESS:
        result = {"status": "success", "stdout": text, "stderr": "", "return_code": 0}
    else:
        result = {"status": "error", "stdout": "", "stderr": text, "return_code": 1}
    found = classify_result("any", {}, result).situation
    assert found is not None
    assert entry["kind"] == found.kind


def test_the_precedence_is_that_of_the_code() -> None:
    """Evidence is asked in the order that is published."""
    looks = [look.__name__.removeprefix("_") for look in classify._LOOKS]
    assert looks == [entry["evidence"] for entry in PRECEDENCE]
    places = (Path(str(evidence.__file__)).parent, Path(str(classify.__file__)).parent)
    for entry in PRECEDENCE:
        assert any((place / entry["table"].strip("`")).exists() for place in places)
    assert [] == why_differences(PRECEDENCE)


def test_statuses_are_those_of_the_code() -> None:
    """What each HTTP status says, and leaves open, is described (A19)."""
    assert codes_described("status") == codes_of(STATUS)


def test_exit_codes_are_those_of_the_code() -> None:
    """What each exit code says, and leaves open, is described."""
    assert codes_described("exit code") == codes_of(EXITS)


def test_every_row_of_evidence_says_why() -> None:
    """Each row of each table has a sentence of its own that says why it is there."""
    rows = [row for table in (CODES, ERRNO, STDERR, REPORTS, TEXT) for row in table.rows]
    whys = [*(row.why for row in rows), *(str(row.why) for row in STATUS.values())]
    whys += [row.why for row in EXITS.values()]
    assert all(why.endswith((".", ")", "?")) for why in whys)
    assert all(len(row.why.split()) >= LEAST_WORDS for row in rows)
    assert len({row.why for row in rows}) == len(rows)
    assert all(order.why.endswith(".") for order in ORDERS)
