"""What `specs/requirements.md` says is covered is what the tests cite."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.specs.tables import Entry, entries_under, tables_in, tables_of

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "specs" / "requirements.md"
STRATEGIES = ROOT / "specs" / "strategies.md"

HEADER = ("number", "what must hold", "covered")
YES, NOT_YET = "yes", "not yet"
FAMILIES = {"S": 32, "B": 34, "D": 24, "X": 7, "R": 81, "A": 39}

NUMBER = r"[ABDRSX][1-9]\d*"
CITATION = re.compile(rf"\(({NUMBER}(?:, {NUMBER})*)\)")


# Reading


def cited_in(source: str) -> Iterator[tuple[str, str]]:
    """Test and number, for each citation `(S5)` or `(D1, S32)` in the docstring of a test."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if node.name.startswith("test_"):
            words = " ".join((ast.get_docstring(node) or "").split())
            for group in CITATION.findall(words):
                for number in group.split(", "):
                    yield node.name, number


def citations() -> Mapping[str, list[str]]:
    """Number -> the tests that cite it."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, number in cited_in(path.read_text(encoding="utf-8")):
            found.setdefault(number, []).append(f"{path.relative_to(ROOT).as_posix()}::{test}")
    return found


ENTRIES = entries_under(HEADER, tables_in(SPEC, ROOT))
CITED = citations()


# Comparing


def all_numbers() -> list[str]:
    return [f"{family}{n}" for family, last in FAMILIES.items() for n in range(1, last + 1)]


def numbers_marked(entries: Iterable[Entry], mark: str) -> list[str]:
    return [entry["number"] for entry in entries if entry["covered"] == mark]


def problems(entries: Iterable[Entry], cited: Mapping[str, list[str]]) -> list[str]:
    """Every number that is covered without a test, or cited without being covered."""
    rows = list(entries)
    covered, later = numbers_marked(rows, YES), numbers_marked(rows, NOT_YET)
    known = {entry["number"] for entry in rows}
    return [
        *(
            f"{number} is covered, but no test cites it"
            for number in covered
            if number not in cited
        ),
        *(
            f"{number} is not yet covered, but {cited[number][0]} cites it"
            for number in later
            if number in cited
        ),
        *(
            f"{number} is no requirement, but {cited[number][0]} cites it"
            for number in sorted(set(cited) - known)
        ),
    ]


# The page


def test_every_number_stands_there_once() -> None:
    """The six families are complete, in their order, without a number twice."""
    assert all_numbers() == [entry["number"] for entry in ENTRIES]


def test_every_row_is_one_sentence_and_a_mark() -> None:
    """What must hold is said, once, and covered is one of two words."""
    sentences = [entry["what must hold"] for entry in ENTRIES]
    assert [] == [sentence for sentence in sentences if not sentence.endswith(".")]
    assert len(sentences) == len(set(sentences))
    assert {YES, NOT_YET} == {entry["covered"] for entry in ENTRIES}


def test_what_is_covered_is_what_tests_cite() -> None:
    """Each covered number has a test, each cited number is covered."""
    assert [] == problems(ENTRIES, CITED)


def test_what_the_strategies_claim_is_covered() -> None:
    """The requirements that a strategy's table names are covered ones."""
    cells = [
        cell
        for table in tables_in(STRATEGIES, ROOT)
        for entry in table.entries
        if entry["what"] == "requirements"
        for cell in (entry.cells[table.header[1]],)
    ]
    claimed = {number for cell in cells for number in cell.split(", ")}
    assert claimed
    assert set() == claimed - set(numbers_marked(ENTRIES, YES))


# The reading bites


@pytest.mark.parametrize(
    ("docstring", "numbers"),
    [
        ("It holds (S5).", ["S5"]),
        ("It holds (D1, S32).", ["D1", "S32"]),
        ("It holds (D1,\n    S32).", ["D1", "S32"]),
        ("It holds (S5) and more (X7).", ["S5", "X7"]),
        ("It holds S5.", []),
        ("Termination rests on it (D1 to D4).", []),
        ("It holds (see S5).", []),
        ("It holds (S05), (Q5), (S), (s5).", []),
        ("", []),
    ],
)
def test_what_is_a_citation(docstring: str, numbers: list[str]) -> None:
    """Numbers alone between parentheses, however the line is broken; nothing beside them."""
    source = f'def test_it():\n    """{docstring}"""\n'
    assert numbers == [number for _, number in cited_in(source)]


def test_only_docstrings_of_tests_are_read() -> None:
    """Modules, classes, helpers, comments and other strings cite nothing; async tests do."""
    source = (
        '"""A module (S1)."""\n'
        'class Kit:\n    """A class (S2)."""\n'
        'def helper():\n    """A helper (S3)."""\n'
        'def test_a():\n    # (S4)\n    x = "(S5)"\n'
        'async def test_b():\n    """Awaited (S6)."""\n'
    )
    assert [("test_b", "S6")] == list(cited_in(source))


ROWS = "| number | what must hold | covered |\n|---|---|---|\n| S1 | One. | {} |\n"


@pytest.mark.parametrize(
    ("mark", "cited", "expected"),
    [
        (YES, {"S1": ["t"]}, []),
        (NOT_YET, {}, []),
        (YES, {}, ["S1 is covered, but no test cites it"]),
        (NOT_YET, {"S1": ["t"]}, ["S1 is not yet covered, but t cites it"]),
        (YES, {"S1": ["t"], "S99": ["t"]}, ["S99 is no requirement, but t cites it"]),
    ],
)
def test_what_differs_is_found(
    mark: str, cited: Mapping[str, list[str]], expected: list[str]
) -> None:
    """Covered without a test, cited without being covered, and numbers that do not exist."""
    entries = entries_under(HEADER, tables_of(ROWS.format(mark), "page.md"))
    assert 1 == len(entries)
    assert expected == problems(entries, cited)


# The count


def test_how_many_are_covered() -> None:
    """Every number is counted as covered or as not yet; `pytest -s` prints the counts."""
    covered = numbers_marked(ENTRIES, YES)
    print(f"\n{len(covered)} of {len(ENTRIES)} numbers covered")
    for family, last in FAMILIES.items():
        of_family = [number for number in covered if number.startswith(family)]
        print(f"  {family}: {len(of_family)} of {last}")
    assert sum(FAMILIES.values()) == len(covered) + len(numbers_marked(ENTRIES, NOT_YET))
