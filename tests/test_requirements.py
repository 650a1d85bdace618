"""Every requirement that the specs claim is cited by a test, and none is cited that they do not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"\b[SBDX]\d{1,2}\b")


def claimed(text: str) -> list[str]:
    """The numbers that a page of requirements has a row for."""
    return re.findall(r"^\| ([SBDX]\d{1,2}) \| [^|\s]", text, flags=re.MULTILINE)


def cited_in(source: str) -> Iterator[str]:
    """The numbers in the docstrings of a module's tests, between parentheses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for group in re.findall(r"\(([^()]*)\)", ast.get_docstring(node) or ""):
                yield from NUMBER.findall(group)


def test_claims_and_citations_agree() -> None:
    """`specs/requirements.md` and the docstrings of the tests name the same numbers."""
    page = (ROOT / "specs" / "requirements.md").read_text(encoding="utf-8")
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    cited = {number for path in modules for number in cited_in(path.read_text(encoding="utf-8"))}
    print(f"{len(cited)} requirement numbers are cited by tests")
    assert (set(), set()) == (set(claimed(page)) - cited, cited - set(claimed(page)))


def test_each_number_is_claimed_once() -> None:
    """The page has one row a number."""
    numbers = claimed((ROOT / "specs" / "requirements.md").read_text(encoding="utf-8"))
    assert sorted(set(numbers)) == sorted(numbers)
    assert len(numbers) > 60


def test_a_citation_is_a_number_in_parentheses_in_the_docstring_of_a_test() -> None:
    """Neither code nor prose beside it counts."""
    source = 'def test_x():\n    """It holds (S5, D1). Not B3."""\n    y = "(S6)"\n'
    assert ["S5", "D1"] == list(cited_in(source))
    assert ["S1"] == claimed("| S1 | it holds |\n| S2 | |\n| Q1 | no |")
