"""A lifecycle as a picture: its table in, deterministic DOT and Mermaid text out.

Nothing is left to layout or chance: states stand in the order of their Enum, edges in
the order of the states, the lines on an edge in the order of the rows. Hence the text can
be kept beside the code and compared (`stale`), and a change of a table is a small diff.

Rows between the same two states share one edge, one line each:

    STEP-02 start [outside_every_planned_scope, budget_left] spends tool_calls

In DOT, where long lines push the states apart, each guard has a line of its own, and a row
that leaves many states has its guards on the first of its edges alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Protocol


class DrawnRow(Protocol):
    """What a picture shows of a row."""

    @property
    def id(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def source(self) -> tuple[Enum, ...]: ...
    @property
    def target(self) -> Enum: ...
    @property
    def guards(self) -> tuple[Callable[..., Any], ...]: ...
    @property
    def spends(self) -> str | None: ...


class Drawn(Protocol):
    """What a picture shows of a lifecycle (`lifecycle.Lifecycle` is one)."""

    @property
    def name(self) -> str: ...
    @property
    def states(self) -> type[Enum]: ...
    @property
    def initial(self) -> Enum: ...
    @property
    def rows(self) -> Sequence[DrawnRow]: ...


# ---------------------------------------------------------------------------------- DOT


def dot(lifecycle: Drawn, *, guards: bool = True) -> str:
    """Return the machine in the DOT language; `guards=False` leaves the guards out.

    A state that no row leaves has a double border, one that no row reaches a dotted border; an
    arrow from a dot marks the initial one. Grey edges only repeat rows that are drawn in black.
    """
    lines = [
        f"digraph {_dot(lifecycle.name)} {{",
        "  rankdir=LR",
        "  nodesep=0.3",
        '  node [fontname="Helvetica", shape=box, style=rounded]',
        '  edge [fontname="Helvetica", fontsize=10]',
        '  "[*]" [label="", shape=point, width=0.2]',  # no identifier, hence no state's name
    ]
    final, reached = _final(lifecycle), {row.target for row in lifecycle.rows}
    for state in lifecycle.states:
        looks = ["peripheries=2"] if state in final else []
        if state not in reached and state is not lifecycle.initial:
            looks.append('style="rounded,dotted"')
        attributes = f" [{', '.join(looks)}]" if looks else ""
        lines.append(f"  {_dot(state.name)}{attributes}")
    lines.append(f'  "[*]" -> {_dot(lifecycle.initial.name)}')
    drawn: set[str] = set()
    for source, target, rows in _edges(lifecycle):
        text = (line for row in rows for line in _dot_lines(row, guards and row.id not in drawn))
        label = "".join(_dot_escaped(line) + r"\l" for line in text)  # \l: ends a line, flush left
        grey = ", color=gray60, fontcolor=gray40" if drawn.issuperset(r.id for r in rows) else ""
        drawn.update(row.id for row in rows)
        lines.append(f'  {_dot(source.name)} -> {_dot(target.name)} [label="{label}"{grey}]')
    return "\n".join((*lines, "}", ""))


def _dot_lines(row: DrawnRow, guards: bool) -> Iterator[str]:
    yield _label(row, guards=False)
    if guards:
        yield from (f"  [{guard.__name__}]" for guard in row.guards)


def _dot(text: str) -> str:
    return f'"{_dot_escaped(text)}"'


def _dot_escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


# ------------------------------------------------------------------------------ Mermaid

MERMAID_WORDS = re.compile(
    r"(?i)accdescr|acctitle|class|classdef|click|default|end|href|note|scale|state"
    r"|statediagram|style"
)
"""Words that Mermaid reads, in any case, as its own: no state may bear one there."""


def mermaid(lifecycle: Drawn, *, guards: bool = True) -> str:
    """Return the machine as a Mermaid `stateDiagram-v2`; `guards=False` leaves the guards out.

    `[*]` leads to the initial state, and every state that no row leaves leads to `[*]`.
    """
    lines = [
        "---",
        f"title: {_yaml(lifecycle.name)}",
        "---",
        "stateDiagram-v2",
        "  direction LR",
    ]
    lines += (f'  state "{state.name}" as {_mermaid_id(state)}' for state in lifecycle.states)
    lines.append(f"  [*] --> {_mermaid_id(lifecycle.initial)}")
    for source, target, rows in _edges(lifecycle):
        label = "<br/>".join(_mermaid_escaped(_label(row, guards)) for row in rows)
        lines.append(f"  {_mermaid_id(source)} --> {_mermaid_id(target)}: {label}")
    final = _final(lifecycle)
    lines += (f"  {_mermaid_id(state)} --> [*]" for state in lifecycle.states if state in final)
    return "\n".join((*lines, ""))


def _mermaid_id(state: Enum) -> str:
    return f"{state.name}_" if MERMAID_WORDS.fullmatch(state.name) else state.name


def _mermaid_escaped(text: str) -> str:
    """Write as character codes what Mermaid would read as syntax."""
    return "".join(f"#{ord(char)};" if char in '#;:"<>&{}\n\\' else char for char in text)


def _yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', r"\"").replace("\n", r"\n") + '"'


# ------------------------------------------------------------------- what both pictures say


def _final(lifecycle: Drawn) -> frozenset[Enum]:
    left = {source for row in lifecycle.rows for source in row.source}
    return frozenset(state for state in lifecycle.states if state not in left)


def _edges(lifecycle: Drawn) -> Iterator[tuple[Enum, Enum, tuple[DrawnRow, ...]]]:
    """Every pair of states that a row connects, with its rows in their order."""
    rows: dict[tuple[Enum, Enum], list[DrawnRow]] = {}
    for row in lifecycle.rows:
        for source in row.source:
            rows.setdefault((source, row.target), []).append(row)
    place = {state: index for index, state in enumerate(lifecycle.states)}
    for source, target in sorted(rows, key=lambda edge: (place[edge[0]], place[edge[1]])):
        yield source, target, tuple(rows[source, target])


def _label(row: DrawnRow, guards: bool) -> str:
    words = [row.id, row.trigger]
    if guards and row.guards:
        words.append(f"[{', '.join(guard.__name__ for guard in row.guards)}]")
    if row.spends:
        words.append(f"spends {row.spends}")
    return " ".join(words)


# -------------------------------------------------------------------------------- files


def _files(machines: Mapping[str, Drawn]) -> dict[str, str]:
    files: dict[str, str] = {}
    for name, lifecycle in machines.items():
        files[f"{name}.dot"] = dot(lifecycle)
        files[f"{name}.mmd"] = mermaid(lifecycle)
    return files


def write_all(machines: Mapping[str, Drawn], directory: Path) -> None:
    """Write `NAME.dot` and `NAME.mmd` of each machine into `directory`; remove no file."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in _files(machines).items():
        (directory / name).write_text(text, encoding="utf-8", newline="\n")


def stale(machines: Mapping[str, Drawn], directory: Path) -> list[str]:
    """Return what `directory` lacks, has differently, or has too much; empty: all is fresh."""
    wanted = _files(machines)
    found = {path.name for pattern in ("*.dot", "*.mmd") for path in directory.glob(pattern)}
    complaints = [f"{name}: missing" for name in wanted if name not in found]
    for name, text in wanted.items():
        if name in found and (directory / name).read_bytes() != text.encode():
            complaints.append(f"{name}: differs from the machine")
    complaints.extend(f"{name}: belongs to no machine" for name in found.difference(wanted))
    return sorted(complaints)
