"""The double entry: tables that people wrote in `specs/`, held against the code.

Nothing here writes a table. What differs is a `Difference` with its place, so that a test
shows all of them at once; each kind of difference is planted once in `test_tables`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from loopfsm.lifecycle import Lifecycle, Row

ROW_HEADER = (
    *("id", "trigger", "from", "to", "guards"),
    *("ensures", "ensures of the run", "spends", "why"),
)
INVARIANT_HEADER = ("state", "invariants", "why")

ABSENT = "(absent)"
LEAST_WORDS = 4


@frozen
class Difference:
    """One cell that is not as it should be, and where it stands."""

    file: str
    line: int
    cell: str
    found: str
    expected: str

    def __str__(self) -> str:
        found, expected = self.found or "(empty)", self.expected or "(empty)"
        return f"{self.file}:{self.line}: {self.cell}: found {found}, expected {expected}"


# Reading


@frozen
class Entry:
    """One row of a table in a spec."""

    file: str
    line: int
    cells: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def differs(self, cell: str, found: str, expected: str) -> Difference:
        return Difference(self.file, self.line, cell, found, expected)


@frozen
class Table:
    """A Markdown table: its columns, its rows, and the line its header stands on."""

    file: str
    line: int
    header: tuple[str, ...]
    entries: tuple[Entry, ...]


class MalformedTable(ValueError):
    """A row that has not as many cells as its table has columns."""


BARE_PIPE = re.compile(r"(?<!\\)\|")
RULE = re.compile(r":?-+:?")
FENCE = re.compile(r" {0,3}(```|~~~)")


def cells_of(line: str) -> tuple[str, ...] | None:
    """The cells of a line of a table, pipes unescaped; None when it is no such line."""
    line = line.strip()
    if len(line) < 2 or not line.startswith("|") or not line.endswith("|"):
        return None
    cells = BARE_PIPE.split(line)[1:-1]
    return tuple(cell.strip().replace(r"\|", "|") for cell in cells)


def tables_of(text: str, file: str) -> tuple[Table, ...]:
    """Every table of a Markdown text, those in fenced code left out."""
    blocks: list[list[tuple[int, tuple[str, ...]]]] = [[]]
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        if found := FENCE.match(line):
            fence = None if fence == found[1] else fence or found[1]
        cells = None if fence else cells_of(line)
        if cells is not None:
            blocks[-1].append((number, cells))
        elif blocks[-1]:
            blocks.append([])
    return tuple(_table(block, file) for block in blocks if _is_table(block))


def _is_table(block: Sequence[tuple[int, tuple[str, ...]]]) -> bool:
    return len(block) > 1 and all(RULE.fullmatch(cell) for cell in block[1][1])


def _table(block: Sequence[tuple[int, tuple[str, ...]]], file: str) -> Table:
    (line, header), (_, _), *rows = block
    for number, cells in block:
        if len(cells) != len(header):
            problem = f"{file}:{number}: {len(cells)} cells, the header has {len(header)}"
            raise MalformedTable(problem)
    entries = (Entry(file, number, dict(zip(header, cells, strict=True))) for number, cells in rows)
    return Table(file, line, header, tuple(entries))


def tables_in(path: Path, root: Path) -> tuple[Table, ...]:
    """Every table of a file; places are relative to `root`."""
    return tables_of(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())


def entries_under(header: tuple[str, ...], tables: Iterable[Table]) -> tuple[Entry, ...]:
    """The rows of all tables that have exactly this header."""
    return tuple(entry for table in tables if table.header == header for entry in table.entries)


# Comparing


def names(functions: Iterable[Callable[..., Any]]) -> str:
    return ", ".join(function.__name__ for function in functions)


def cells_of_row(row: Row) -> dict[str, str]:
    """What the spec has to say of a row, beside its *why*."""
    return {
        "id": row.id,
        "trigger": row.trigger,
        "from": ", ".join(state.name for state in row.source),
        "to": row.target.name,
        "guards": names(row.guards),
        "ensures": names(row.ensures),
        "ensures of the run": names(row.ensures_run),
        "spends": row.spends or "",
    }


def plain(cell: str) -> str:
    """A cell without its backticks, commas followed by one space."""
    return ", ".join(part.strip() for part in cell.replace("`", "").split(","))


def row_differences(
    tables: Sequence[Table], lifecycle: Lifecycle[Any], file: str
) -> list[Difference]:
    """Every cell of the row tables that differs from the lifecycle, and every row too few."""
    expected = {row.id: cells_of_row(row) for row in lifecycle.rows}
    entries = entries_under(ROW_HEADER, tables)
    found = list(_keyed_differences("id", expected, entries, _place(ROW_HEADER, tables, file)))
    found.extend(_order_differences(lifecycle.rows, entries))
    return found


def invariant_differences(
    tables: Sequence[Table], lifecycle: Lifecycle[Any], file: str
) -> list[Difference]:
    """Every cell of the invariant tables that differs, and every state too few."""
    expected = {
        state.name: {"state": state.name, "invariants": names(functions)}
        for state, functions in lifecycle.invariants.items()
        if functions
    }
    entries = entries_under(INVARIANT_HEADER, tables)
    place = _place(INVARIANT_HEADER, tables, file)
    return list(_keyed_differences("state", expected, entries, place))


def why_differences(entries: Iterable[Entry]) -> list[Difference]:
    """Every *why* that is no sentence of its own; `entries` are those of all the specs."""
    found = []
    first: dict[str, Entry] = {}
    for entry in entries:
        why = entry["why"]
        words = " ".join(why.casefold().split())
        if not why.endswith(".") or len(words.split()) < LEAST_WORDS:
            expected = f"a sentence of {LEAST_WORDS} words or more that ends with '.'"
            found.append(entry.differs("why", why, expected))
        elif words in first:
            other = first[words]
            expected = f"a sentence of its own, not that of {other.file}:{other.line}"
            found.append(entry.differs("why", why, expected))
        first.setdefault(words, entry)
    return found


def file_differences(files: Iterable[str], machines: Iterable[str]) -> list[Difference]:
    """Every machine without its file `NAME.md`, and every file without its machine."""
    there, wanted = set(files), {f"{name}.md" for name in machines}
    found = [Difference(file, 1, "file", ABSENT, file) for file in sorted(wanted - there)]
    found.extend(Difference(file, 1, "file", file, ABSENT) for file in sorted(there - wanted))
    return found


def _place(header: tuple[str, ...], tables: Iterable[Table], file: str) -> tuple[str, int]:
    """Where a missing row would belong: the last table with this header, else the file."""
    places = [(table.file, table.line) for table in tables if table.header == header]
    return places[-1] if places else (file, 1)


def _keyed_differences(
    key: str,
    expected: Mapping[str, Mapping[str, str]],
    entries: Iterable[Entry],
    place: tuple[str, int],
) -> Iterator[Difference]:
    seen: set[str] = set()
    for entry in entries:
        name = plain(entry[key])
        if name not in expected:
            yield entry.differs(key, name, ABSENT)
        elif name in seen:
            yield entry.differs(key, name, f"{name} only once")
        else:
            for column, text in expected[name].items():
                if plain(entry[column]) != text:
                    yield entry.differs(f"{name} {column}", entry[column], text)
        seen.add(name)
    for name in expected:
        if name not in seen:
            yield Difference(*place, key, ABSENT, name)


def _order_differences(rows: Sequence[Row], entries: Sequence[Entry]) -> Iterator[Difference]:
    """Rows of one trigger are tried in their order, so the spec has to keep it."""
    entry_of = {plain(entry["id"]): entry for entry in reversed(entries)}
    line = {id: position for position, id in enumerate(plain(entry["id"]) for entry in entries)}
    for trigger in dict.fromkeys(row.trigger for row in rows):
        ids = [row.id for row in rows if row.trigger == trigger and row.id in entry_of]
        written = sorted(ids, key=line.__getitem__)
        if written != ids:
            cell = f"order of {trigger}"
            yield entry_of[written[0]].differs(cell, ", ".join(written), ", ".join(ids))
