"""The pictures: everything in the table stands in them, and nothing of chance."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from loopfsm import diagrams
from loopfsm.lifecycle import Lifecycle, Row


class Lamp(Enum):
    OFF = "off"
    ON = "on"
    BROKEN = "broken"


@frozen
class Bulb:
    id: str
    state: Lamp


def current_flows(bulb: Bulb) -> bool:
    return True


def glass_is_whole(bulb: Bulb) -> bool:
    return True


BOTH_GUARDS = (current_flows, glass_is_whole)


def lamp(*, initial: Lamp = Lamp.OFF, rows: tuple[Row, ...] = ()) -> Lifecycle[Bulb]:
    own = (
        Row(id="L-1", trigger="press", source=(Lamp.OFF,), target=Lamp.ON, guards=BOTH_GUARDS),
        Row(id="L-2", trigger="press", source=(Lamp.ON,), target=Lamp.OFF),
        Row(id="L-3", trigger="tap", source=(Lamp.OFF,), target=Lamp.ON, spends="taps"),
        Row(id="L-4", trigger="drop", source=(Lamp.ON, Lamp.OFF), target=Lamp.BROKEN),
    )
    return Lifecycle("lamp", states=Lamp, initial=initial, rows=(*own, *rows))


DOT = r"""digraph "lamp" {
  rankdir=LR
  nodesep=0.3
  node [fontname="Helvetica", shape=box, style=rounded]
  edge [fontname="Helvetica", fontsize=10]
  "[*]" [label="", shape=point, width=0.2]
  "OFF"
  "ON"
  "BROKEN" [peripheries=2]
  "[*]" -> "OFF"
  "OFF" -> "ON" [label="L-1 press\l  [current_flows]\l  [glass_is_whole]\lL-3 tap spends taps\l"]
  "OFF" -> "BROKEN" [label="L-4 drop\l"]
  "ON" -> "OFF" [label="L-2 press\l"]
  "ON" -> "BROKEN" [label="L-4 drop\l", color=gray60, fontcolor=gray40]
}
"""

MERMAID = """---
title: "lamp"
---
stateDiagram-v2
  direction LR
  state "OFF" as OFF
  state "ON" as ON
  state "BROKEN" as BROKEN
  [*] --> OFF
  OFF --> ON: L-1 press [current_flows, glass_is_whole]<br/>L-3 tap spends taps
  OFF --> BROKEN: L-4 drop
  ON --> OFF: L-2 press
  ON --> BROKEN: L-4 drop
  BROKEN --> [*]
"""

BOTH = pytest.mark.parametrize("draw", [diagrams.dot, diagrams.mermaid])


def test_dot() -> None:
    """The DOT text of a small machine, in full."""
    assert DOT == diagrams.dot(lamp())


def test_mermaid() -> None:
    """The Mermaid text of a small machine, in full."""
    assert MERMAID == diagrams.mermaid(lamp())


@BOTH
def test_every_name_is_drawn(draw: Any) -> None:
    """Every row, trigger, guard, state and spent budget of the table stands in the text."""
    machine = lamp()
    text = draw(machine)
    for row in machine.rows:
        guards = {guard.__name__ for guard in row.guards}
        spends = {row.spends} if row.spends else set()
        for name in {row.id, row.trigger, row.target.name} | guards | spends:
            assert name in text


@BOTH
def test_without_guards(draw: Any) -> None:
    """Left out, no guard is drawn, and everything else still is."""
    text = draw(lamp(), guards=False)
    assert "current_flows" not in text
    assert "L-1 press" in text
    assert "spends taps" in text


@BOTH
def test_one_edge_for_two_states(draw: Any) -> None:
    """Rows between the same two states share one edge."""
    assert 1 == len(re.findall(r'OFF"? --?> "?ON\b', draw(lamp())))


@BOTH
def test_deterministic(draw: Any) -> None:
    """The same table gives the same text, whatever order its sources have."""
    turned = Row(id="L-5", trigger="fix", source=(Lamp.BROKEN, Lamp.ON), target=Lamp.OFF)
    straight = Row(id="L-5", trigger="fix", source=(Lamp.ON, Lamp.BROKEN), target=Lamp.OFF)
    assert draw(lamp(rows=(turned,))) == draw(lamp(rows=(straight,)))


def test_guards_are_drawn_once() -> None:
    """In DOT a row that leaves two states has its guards on its first edge, the other is grey."""
    row = Row(id="L-5", trigger="melt", source=tuple(Lamp), target=Lamp.BROKEN, guards=BOTH_GUARDS)
    text = diagrams.dot(lamp(rows=(row,)))
    assert 1 == text.count(r"L-5 melt\l  [current_flows]\l  [glass_is_whole]\l")
    assert 3 == text.count("L-5 melt")
    assert text.count("L-5 melt") - 1 == text.count("gray60")


def test_a_state_out_of_reach() -> None:
    """In DOT a state that no row reaches, and in which nothing begins, is dotted."""
    assert "dotted" not in diagrams.dot(lamp())
    rows = [Row(id="T-1", trigger="press", source=(Lamp.OFF,), target=Lamp.ON)]
    two: Lifecycle[Bulb] = Lifecycle("two", states=Lamp, initial=Lamp.OFF, rows=rows)
    assert '"BROKEN" [peripheries=2, style="rounded,dotted"]' in diagrams.dot(two)


def test_initial_is_marked() -> None:
    """Whichever state is the initial one, the mark leads to it."""
    assert '"[*]" -> "ON"' in diagrams.dot(lamp(initial=Lamp.ON))
    assert "[*] --> ON" in diagrams.mermaid(lamp(initial=Lamp.ON))


def test_no_final_state() -> None:
    """A machine without an end has none drawn."""
    back = Row(id="L-5", trigger="fix", source=(Lamp.BROKEN,), target=Lamp.OFF)
    assert "peripheries=2" not in diagrams.dot(lamp(rows=(back,)))
    assert "--> [*]" not in diagrams.mermaid(lamp(rows=(back,)))


AWKWARD = Row(
    id='a "b"', trigger="c:d;e\\f<g>#h", source=(Lamp.OFF,), target=Lamp.BROKEN, spends="two\nlines"
)


def test_dot_escapes() -> None:
    """No name can end a DOT string or be read as an escape."""
    label = r'"L-4 drop\la \"b\" c:d;e\\f<g>#h spends two\nlines\l"'
    assert f'"OFF" -> "BROKEN" [label={label}]' in diagrams.dot(lamp(rows=(AWKWARD,)))


def test_mermaid_escapes() -> None:
    """No name can end a Mermaid label or be read as markup."""
    label = "a #34;b#34; c#58;d#59;e#92;f#60;g#62;#35;h spends two#10;lines"
    assert f"OFF --> BROKEN: L-4 drop<br/>{label}\n" in diagrams.mermaid(lamp(rows=(AWKWARD,)))


def test_mermaid_words() -> None:
    """A state whose name is a word of Mermaid keeps its name, under another id."""
    words = Enum("words", ["START", "END"])
    rows = [Row(id="W-1", trigger="go", source=(words["START"],), target=words["END"])]
    machine: Lifecycle[Any] = Lifecycle("words", states=words, initial=words["START"], rows=rows)
    text = diagrams.mermaid(machine)
    assert 'state "END" as END_' in text
    assert "START --> END_: W-1 go" in text
    assert "END_ --> [*]" in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed here")
def test_graphviz_reads_it() -> None:
    """Graphviz itself accepts the text, awkward names included."""
    text = diagrams.dot(lamp(rows=(AWKWARD,)))
    subprocess.run(["dot", "-Tcanon"], input=text.encode(), check=True, capture_output=True)


class TestFiles:
    def test_written_is_fresh(self, tmp_path: Path) -> None:
        """What was just written is not stale."""
        where = tmp_path / "deep" / "diagrams"
        diagrams.write_all({"lamp": lamp()}, where)
        assert DOT == (where / "lamp.dot").read_text(encoding="utf-8")
        assert MERMAID == (where / "lamp.mmd").read_text(encoding="utf-8")
        assert [] == diagrams.stale({"lamp": lamp()}, where)

    def test_nothing_there(self, tmp_path: Path) -> None:
        """A directory that is empty, or is not there, lacks every file."""
        expected = ["lamp.dot: missing", "lamp.mmd: missing"]
        assert expected == diagrams.stale({"lamp": lamp()}, tmp_path)
        assert expected == diagrams.stale({"lamp": lamp()}, tmp_path / "absent")

    def test_changed_table(self, tmp_path: Path) -> None:
        """A row more, and both pictures are stale."""
        diagrams.write_all({"lamp": lamp()}, tmp_path)
        row = Row(id="L-5", trigger="fix", source=(Lamp.BROKEN,), target=Lamp.OFF)
        expected = ["lamp.dot: differs from the machine", "lamp.mmd: differs from the machine"]
        assert expected == diagrams.stale({"lamp": lamp(rows=(row,))}, tmp_path)

    def test_picture_of_nothing(self, tmp_path: Path) -> None:
        """A picture whose machine is gone is stale; other files are nobody's business."""
        diagrams.write_all({"lamp": lamp(), "old": lamp()}, tmp_path)
        (tmp_path / "README.md").touch()
        expected = ["old.dot: belongs to no machine", "old.mmd: belongs to no machine"]
        assert expected == diagrams.stale({"lamp": lamp()}, tmp_path)
