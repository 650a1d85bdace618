"""The specs equal the code; and the comparison sees every kind of difference."""

from __future__ import annotations

from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.recovery.registry import MACHINES
from tests.specs import tables
from tests.specs.tables import Difference

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "specs" / "machines"


def listed(differences: list[Difference]) -> str:
    return "\n".join(map(str, differences))


@pytest.mark.parametrize("name", MACHINES)
def test_specs_equal_the_code(name: str) -> None:
    """The tables that people wrote for a machine and its rows are equal, cell by cell."""
    path = SPECS / f"{name}.md"
    file = path.relative_to(ROOT).as_posix()
    found = tables.tables_in(path, ROOT)
    differences = tables.row_differences(found, MACHINES[name], file)
    differences += tables.invariant_differences(found, MACHINES[name], file)
    assert not differences, listed(differences)


def test_every_machine_has_its_spec() -> None:
    """There is one file for each machine, and none beside."""
    differences = tables.file_differences((path.name for path in SPECS.glob("*.md")), MACHINES)
    assert not differences, listed(differences)


def test_every_why_is_a_sentence_of_its_own() -> None:
    """Each row and each invariant of all the specs says in its own words why it is there."""
    found = list(chain.from_iterable(tables.tables_in(p, ROOT) for p in sorted(SPECS.glob("*.md"))))
    entries = [
        entry
        for header in (tables.ROW_HEADER, tables.INVARIANT_HEADER)
        for entry in tables.entries_under(header, found)
    ]
    assert entries
    differences = tables.why_differences(entries)
    assert not differences, listed(differences)


# The gate bites: a small machine, its spec, and one planted difference of each kind.


class Door(Enum):
    OPEN = "open"
    SHUT = "shut"
    LOCKED = "locked"


@frozen
class House:
    id: str
    state: Door


def key_fits(house: House) -> bool:
    return True


def nobody_inside(house: House) -> bool:
    return True


def bolt_is_out(before: House, after: House) -> bool:
    return True


def alarm_is_on(house: House, before: Any, after: Any) -> bool:
    return True


BOTH = (key_fits, nobody_inside)
DOOR: Lifecycle[House] = Lifecycle(
    "door",
    states=Door,
    initial=Door.OPEN,
    rows=(
        Row(id="D-1", trigger="shut", source=(Door.OPEN,), target=Door.SHUT),
        Row(
            id="D-2",
            trigger="lock",
            source=(Door.SHUT, Door.OPEN),
            target=Door.LOCKED,
            guards=BOTH,
            ensures=(bolt_is_out,),
            ensures_run=(alarm_is_on,),
            spends="battery",
        ),
        Row(id="D-3", trigger="lock", source=(Door.SHUT,), target=Door.SHUT, guards=(key_fits,)),
    ),
    invariants={Door.LOCKED: (nobody_inside,), Door.SHUT: ()},
)

SPEC = r"""# The door

| id | trigger | from | to | guards | ensures | ensures of the run | spends | why |
|---|---|---|---|---|---|---|---|---|
| D-1 | shut | OPEN | SHUT | | | | | Warmth stays inside \| cold outside. |
| D-2 | lock | SHUT, OPEN | LOCKED | key_fits, nobody_inside | bolt_is_out | `alarm_is_on` | battery | A locked door keeps thieves out. |
| D-3 | lock | SHUT | SHUT | key_fits | | | | Somebody inside must get out. |

Words between, and a table of something else:

| state | colour |
|:--|--:|
| OPEN | green |

```
| state | invariants | why |
|---|---|---|
| OPEN | nonsense | In a fence stands only an example. |
```

| state | invariants | why |
|---|---|---|
| LOCKED | nobody_inside | Nobody is ever locked in. |
"""  # noqa: E501  # a row of a table is one line

FILE = "specs/machines/door.md"


def differences_of(text: str) -> list[Difference]:
    found = tables.tables_of(text, FILE)
    rows = tables.row_differences(found, DOOR, FILE)
    return rows + tables.invariant_differences(found, DOOR, FILE)


def whys_of(text: str) -> list[Difference]:
    found = tables.tables_of(text, FILE)
    headers = (tables.ROW_HEADER, tables.INVARIANT_HEADER)
    return tables.why_differences(chain(*(tables.entries_under(h, found) for h in headers)))


def changed(old: str, new: str) -> str:
    assert 1 == SPEC.count(old), "the plant has to stand in one place"
    return SPEC.replace(old, new)


def without(start: str) -> str:
    return "".join(line for line in SPEC.splitlines(keepends=True) if not line.startswith(start))


def test_no_difference() -> None:
    """A spec that says what the code says has no difference, and its whys are good."""
    assert [] == differences_of(SPEC)
    assert [] == whys_of(SPEC)


@pytest.mark.parametrize(
    ("old", "new", "line", "cell", "found", "expected"),
    [
        ("| D-2 |", "| D-9 |", 6, "id", "D-9", tables.ABSENT),
        ("D-1 | shut", "D-1 | close", 5, "D-1 trigger", "close", "shut"),
        ("SHUT, OPEN |", "SHUT |", 6, "D-2 from", "SHUT", "SHUT, OPEN"),
        ("shut | OPEN | SHUT", "shut | OPEN | LOCKED", 5, "D-1 to", "LOCKED", "SHUT"),
        ("key_fits, nobody", "nobody", 6, "D-2 guards", "nobody_inside", tables.names(BOTH)),
        ("bolt_is_out", "bolt_is_in", 6, "D-2 ensures", "bolt_is_in", "bolt_is_out"),
        ("`alarm_is_on`", "", 6, "D-2 ensures of the run", "", "alarm_is_on"),
        ("battery", "time", 6, "D-2 spends", "time", "battery"),
        ("SHUT | | | | |", "SHUT | | | | time |", 5, "D-1 spends", "time", ""),
        (
            "LOCKED | nobody",
            "LOCKED | some",
            23,
            "LOCKED invariants",
            "some_inside",
            "nobody_inside",
        ),
    ],
)
def test_a_cell_that_differs(
    old: str, new: str, line: int, cell: str, found: str, expected: str
) -> None:
    """A cell that differs is told with its place, what it says and what it should say."""
    assert Difference(FILE, line, cell, found, expected) in differences_of(changed(old, new))


def test_order_of_guards() -> None:
    """Guards are asked in order, so the order has to be that of the code."""
    text = changed("key_fits, nobody_inside", "nobody_inside, key_fits")
    expected = ("nobody_inside, key_fits", "key_fits, nobody_inside")
    assert [Difference(FILE, 6, "D-2 guards", *expected)] == differences_of(text)


def test_order_of_rows() -> None:
    """The first row of a trigger wins, so rows of one trigger stand in the code's order."""
    lines = SPEC.splitlines()
    lines[5], lines[6] = lines[6], lines[5]
    expected = Difference(FILE, 6, "order of lock", "D-3, D-2", "D-2, D-3")
    assert [expected] == differences_of("\n".join(lines))


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("| D-1 |", Difference(FILE, 3, "id", tables.ABSENT, "D-1")),
        ("| LOCKED |", Difference(FILE, 21, "state", tables.ABSENT, "LOCKED")),
    ],
)
def test_a_row_only_the_code_has(start: str, expected: Difference) -> None:
    """What the spec leaves out is told at its table."""
    assert [expected] == differences_of(without(start))


def test_no_table_at_all() -> None:
    """A file without tables, or with a misspelled header, lacks every row."""
    lacks = ["D-1", "D-2", "D-3", "LOCKED"]
    assert lacks == [each.expected for each in differences_of("# Nothing\n")]
    misspelled = SPEC.replace("| spends |", "| spend |").replace("invariants", "invariant")
    assert lacks == [each.expected for each in differences_of(misspelled)]


@pytest.mark.parametrize(
    ("more", "cell", "found", "expected"),
    [
        ("| D-4 | x | OPEN | SHUT | | | | | Says who. |", "id", "D-4", tables.ABSENT),
        ("| D-1 | shut | OPEN | SHUT | | | | | Again. |", "id", "D-1", "D-1 only once"),
    ],
)
def test_a_row_only_the_spec_has(more: str, cell: str, found: str, expected: str) -> None:
    """A row too many, or one written twice, is told on its own line."""
    text = changed("\n\nWords between", f"\n{more}\n\nWords between")
    assert [Difference(FILE, 8, cell, found, expected)] == differences_of(text)


def test_a_state_only_the_spec_has() -> None:
    """A state to which the code gives no invariant has no line in the spec."""
    text = SPEC + "| SHUT | | An empty promise is none at all. |\n"
    assert [Difference(FILE, 24, "state", "SHUT", tables.ABSENT)] == differences_of(text)


@pytest.mark.parametrize("why", ["", "No end of this sentence", "Too short it."])
def test_a_why_that_is_no_sentence(why: str) -> None:
    """A why that is empty, has no full stop, or has under four words is told."""
    (found,) = whys_of(changed("A locked door keeps thieves out.", why))
    assert (FILE, 6, "why", why) == (found.file, found.line, found.cell, found.found)


def test_a_why_that_is_another_ones() -> None:
    """Two rows, of whatever tables, may not share their reason."""
    (found,) = whys_of(changed("Nobody is ever locked in.", "Somebody  inside must get OUT."))
    assert 23 == found.line
    assert f"a sentence of its own, not that of {FILE}:7" == found.expected


def test_a_file_too_few_or_too_many() -> None:
    """A machine without a spec and a spec without a machine are both told."""
    expected = [
        Difference("loop.md", 1, "file", tables.ABSENT, "loop.md"),
        Difference("lop.md", 1, "file", "lop.md", tables.ABSENT),
    ]
    assert expected == tables.file_differences(["step.md", "lop.md"], ["step", "loop"])


def test_a_row_of_the_wrong_width() -> None:
    """A row with a cell too few is refused with its place, not guessed at."""
    with pytest.raises(tables.MalformedTable, match=rf"^{FILE}:7: 8 cells, the header has 9$"):
        differences_of(changed("key_fits | | | | Some", "key_fits | | | Some"))


def test_escaped_pipes() -> None:
    """An escaped pipe belongs to its cell."""
    first = tables.entries_under(tables.ROW_HEADER, tables.tables_of(SPEC, FILE))[0]
    assert "Warmth stays inside | cold outside." == first["why"]


def test_differences_say_where() -> None:
    """A difference reads as a line of a report: file, line, cell, found, expected."""
    expected = "a.md:3: D-1 guards: found (empty), expected key_fits"
    assert expected == str(Difference("a.md", 3, "D-1 guards", "", "key_fits"))
