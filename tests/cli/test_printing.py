"""What reaches the terminal is text, never an order to the terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.cli.printing import clean, json_line, one_line
from loopfsm.model.failure import Failure, FailureKind
from loopfsm.model.step import EnvironmentValue, Output
from loopfsm.plain import plain

ORDERS = {
    "colour": ("\x1b[1;31mred\x1b[0m", "red"),
    "eight-bit CSI": ("\x9b31mred", "red"),
    "title": ("\x1b]0;owned\x07text", "text"),
    "link": ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    "unfinished title": ("text\x1b]0;owned", "text"),
    "cursor and clearing": ("a\x1b[2J\x1b[Hb", "ab"),
    "character set": ("\x1b(0x", "x"),
    "overwriting": ("good\rbad\b\x7f", "goodbad"),
    "right to left": ("a\u202eb\u2066c", "abc"),
    "two lines": ("one\r\ntwo\n\tthree", "one\ntwo\n\tthree"),
}


@pytest.mark.parametrize("kind", ORDERS)
def test_orders_to_the_terminal_are_taken_out(kind: str) -> None:
    """Known sequences go as a whole, not only their first byte."""
    text, expected = ORDERS[kind]
    assert expected == clean(text)


@given(st.text(alphabet=st.characters(max_codepoint=0x2100)))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """No control character survives, whatever surrounds it; a line stays one line."""
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", clean(text))
    assert "\n" not in one_line(text)


def test_a_long_line_is_cut() -> None:
    """A flood of output does not become a flood of progress."""
    assert "x" * 297 + "..." == one_line("x" * 1000)


def test_nouns_become_data() -> None:
    """Nouns, references and enums have a JSON form."""
    failure = Failure(
        number=1,
        subject="one",
        kind=FailureKind.REPORTED,
        message="no",
        occurred_at=1.0,
        evidence={"args": [Output("a", ("b",)), EnvironmentValue("TOKEN")]},
    )
    data = json.loads(json_line({"failure": failure}))["failure"]
    assert ("F1", "reported", "UNHANDLED") == (data["id"], data["kind"], data["state"])
    assert [{"from": "a.b"}, {"env": "TOKEN"}] == data["evidence"]["args"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    )
)
def test_a_json_line_is_one_line_of_ascii(value: Any) -> None:
    """Whatever a tool returned, its line can be read back."""
    line = json_line({"value": value})
    assert line.isascii()
    assert line.isprintable()
    assert {"value": plain(value)} == json.loads(line)
