"""The strategies that people described equal those that are registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from loopfsm.model.failure import RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.recovery.registry import MACHINES, default_registry
from tests.specs.tables import Entry, names, plain, tables_of

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "specs" / "strategies.md"

REGISTRY = default_registry()
SECTION = "3.{}"
"""Where the specification describes its n-th strategy."""

KEYS = (
    *("file", "adds", "decided by", "guards", "scope"),
    *("true after", "bounded by", "leads to", "specification", "requirements"),
)


def described() -> Mapping[str, Mapping[str, Entry]]:
    """Strategy -> what is said of it -> the entry of its table."""
    tables = tables_of(SPEC.read_text(encoding="utf-8"), SPEC.relative_to(ROOT).as_posix())
    return {
        table.header[1]: {entry["what"]: entry for entry in table.entries}
        for table in tables
        if table.header[0] == "what"
    }


DESCRIBED = described()

EACH = pytest.mark.parametrize("strategy", REGISTRY.strategies)


def said(strategy: str, key: str) -> str:
    """What the table of a strategy says under `key`, without backticks."""
    entry = DESCRIBED[strategy][key]
    return plain(entry[strategy])


def test_every_strategy_is_described() -> None:
    """The registered strategies have a section each, in their order, and nothing else has."""
    assert REGISTRY.strategies == tuple(DESCRIBED)
    headings = re.findall(r"^## (.+)$", SPEC.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert list(REGISTRY.strategies) == headings


@EACH
def test_every_table_says_the_same_things(strategy: str) -> None:
    """No table leaves out a key, or has one that the others have not."""
    assert KEYS == tuple(DESCRIBED[strategy])


@EACH
def test_the_file_is_where_the_handler_stands(strategy: str) -> None:
    """Whoever reads the table finds the code."""
    handler = REGISTRY.get(strategy)
    assert handler is not None
    source = inspect.getsourcefile(type(handler))
    assert source is not None
    assert Path(source).resolve().relative_to(ROOT).as_posix() == said(strategy, "file")


@EACH
def test_the_rows_are_those_of_the_handler(strategy: str) -> None:
    """The rows it adds, and those of its trigger with their guards, are named in order."""
    handler = REGISTRY.get(strategy)
    assert handler is not None
    deciding = [row for row in MACHINES["step"].rows if row.trigger == handler.trigger]
    assert ", ".join(row.id for row in handler.rows) == said(strategy, "adds")
    assert ", ".join(row.id for row in deciding) == said(strategy, "decided by")
    guards = dict.fromkeys(guard for row in deciding for guard in row.guards)
    assert names(tuple(guards)) == said(strategy, "guards")


@EACH
def test_the_place_in_the_specification(strategy: str) -> None:
    """The eleven strategies stand at 3.1 to 3.11, in table and module; orders at no place."""
    handler = REGISTRY.get(strategy)
    places = {name.value: SECTION.format(n) for n, name in enumerate(RecoveryStrategy, 1)}
    place = places.get(strategy, "")
    assert place == said(strategy, "specification")
    if place:
        module = inspect.getmodule(type(handler))
        assert module is not None
        assert f"(specification {place})" in (module.__doc__ or "")


@EACH
def test_the_rest_is_said(strategy: str) -> None:
    """What no code can be compared with is there, and well formed."""
    for key in ("true after", "bounded by"):
        assert DESCRIBED[strategy][key][strategy].endswith(".")
    assert said(strategy, "scope")
    assert said(strategy, "leads to") in LoopState.__members__
    numbers = said(strategy, "requirements").split(", ")
    assert all(re.fullmatch(r"[SBXD][1-9]\d*", number) for number in numbers)
    assert len(numbers) == len(set(numbers))
