"""The page about the journal file equals the code: tables, columns, keys, forms and numbers."""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopfsm import codec
from loopfsm.journals.sqlite import rows, schema
from loopfsm.plain import LARGEST_BITS
from tests.engine.kit import run
from tests.journals.contract import WAYS
from tests.journals.kit import opened
from tests.specs.tables import entries_under, tables_in

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "specs" / "journal.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())
FOUND = tables_in(PAGE, ROOT)

COLUMNS = ("table", "column", "meaning")
KEYS = ("of", "key", "meaning")
FORMS = ("form", "content", "stands for")
PRAGMAS = ("pragma", "value", "meaning")


def bare(cell: str) -> str:
    return cell.strip("`")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A new journal, as any program sees it."""
    with opened(tmp_path / "journal.db", durability="process"):
        pass
    connection = sqlite3.connect(tmp_path / "journal.db")
    yield connection
    connection.close()


Columns = list[tuple[str, str]]


def differences(in_code: Columns, in_spec: Columns) -> list[str]:
    """Columns without a row, rows without a column, rows that stand twice or out of order."""
    found = [f"{each} is not explained" for each in in_code if each not in in_spec]
    found += [f"{each} does not exist" for each in in_spec if each not in in_code]
    found += [f"{each} stands twice" for each in set(in_spec) if in_spec.count(each) > 1]
    for table in dict(in_code):
        order = [column for name, column in in_code if name == table]
        if not found and order != [column for name, column in in_spec if name == table]:
            found.append(f"{table} has another order")
    return found


def names_of_tables(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY rowid"
    return [name for (name,) in connection.execute(query) if not name.startswith("sqlite_")]


def test_every_column_is_explained(connection: sqlite3.Connection) -> None:
    """The page has each column of each table in the order of the file, and none beside."""
    in_code = [
        (table, column)
        for table in names_of_tables(connection)
        for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")
    ]
    in_spec = [(bare(e["table"]), bare(e["column"])) for e in entries_under(COLUMNS, FOUND)]
    assert [] == differences(in_code, in_spec)


@pytest.mark.slow
def test_every_key_of_a_commit_is_explained(tmp_path: Path) -> None:
    """Whatever happens in a run, its units and events have the keys of the page, and no others."""
    seen: set[tuple[str, str]] = set()
    for way in WAYS:
        path = tmp_path / f"{way}.db"
        with opened(path, durability="process") as journal:
            run(WAYS[way](journal))
        connection = sqlite3.connect(path)
        for (units,) in connection.execute("SELECT units FROM commits"):
            for unit in json.loads(units):
                seen |= {("unit", key) for key in unit}
                seen |= {("event", key) for event in unit["events"] for key in event}
        connection.close()
    assert {(e["of"], bare(e["key"])) for e in entries_under(KEYS, FOUND)} == seen


def forms_in(module: object) -> set[str]:
    """Every text in a module that is one of our keys."""
    source = Path(str(vars(module)["__file__"])).read_text(encoding="utf-8")
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"\$[a-z]+", text)}


def test_every_form_is_explained() -> None:
    """The page has each form that the code writes or reads, and none beside."""
    in_spec = [bare(entry["form"]) for entry in entries_under(FORMS, FOUND)]
    assert len(in_spec) == len(set(in_spec))
    assert forms_in(codec) | forms_in(rows) == set(in_spec)


def test_every_form_of_the_page_can_be_read() -> None:
    """`$file` stands for a whole output; the others are known to `tagged`."""
    content = {
        "$bytes": "",
        "$datetime": "2026-01-01",
        "$date": "2026-01-01",
        "$time": "10:00",
        "$path": "a",
        "$tuple": [],
        "$float": "nan",
        "$map": [],
        "$from": ["a"],
        "$env": "X",
    }
    for entry in entries_under(FORMS, FOUND):
        form = bare(entry["form"])
        if form != "$file":
            codec.tagged({form: content[form]}, lambda _: b"")


def test_the_numbers_are_those_of_the_code(connection: sqlite3.Connection) -> None:
    """Versions, the mark of the file, and the limits."""
    for entry in entries_under(PRAGMAS, FOUND):
        ((value,),) = connection.execute(f"PRAGMA {bare(entry['pragma'])}")
        assert entry["value"] == str(value)
    assert ["application_id", "user_version"] == [
        bare(entry["pragma"]) for entry in entries_under(PRAGMAS, FOUND)
    ]
    assert f"one SQLite file (format {schema.VERSION})" in TEXT
    assert f"(`runs.codec`, now {codec.VERSION})" in TEXT
    assert f"A whole output of {rows.LARGE:,} characters of JSON or more" in TEXT
    assert f"nested more than {codec.DEEPEST} deep" in TEXT
    assert f"whole numbers of more than {LARGEST_BITS:,} bits" in TEXT


def test_every_meaning_is_a_sentence() -> None:
    """No cell is empty, and each ends like a sentence."""
    entries = [
        (e[header[0]], e[header[1]], e[header[-1]])
        for header in (COLUMNS, KEYS, FORMS, PRAGMAS)
        for e in entries_under(header, FOUND)
    ]
    assert [] == [entry for entry in entries if not entry[2].endswith(".")]


def test_no_table_of_the_page_is_left_out() -> None:
    """Every table there has one of the headers that are compared."""
    assert {COLUMNS, KEYS, FORMS, PRAGMAS} == {table.header for table in FOUND}


CODE = [("t", "a"), ("t", "b"), ("u", "a")]


@pytest.mark.parametrize(
    ("in_spec", "expected"),
    [
        (CODE, []),
        ([CODE[2], *CODE[:2]], []),
        (CODE[1:], ["('t', 'a') is not explained"]),
        ([*CODE, ("u", "z")], ["('u', 'z') does not exist"]),
        ([*CODE, CODE[0]], ["('t', 'a') stands twice"]),
        ([CODE[1], CODE[0], CODE[2]], ["t has another order"]),
    ],
)
def test_the_comparison_sees_every_difference(in_spec: Columns, expected: list[str]) -> None:
    """The gate bites; only the order of the tables among themselves is free."""
    assert expected == differences(CODE, in_spec)
