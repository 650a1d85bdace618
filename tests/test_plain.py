"""Whatever a tool returned can be shown, bounded, and as real JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from loopfsm.cli.printing import json_line
from loopfsm.plain import LARGEST_BITS, LONGEST_REPR, plain


class Shy:
    """Nothing can be said of it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class Loud:
    def __repr__(self) -> str:
        return "x" * 1_000_000


def itself() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    return value


def wide() -> list[Any]:
    """Few objects, 2 to the 80th paths."""
    value: list[Any] = [1]
    for _ in range(80):
        value = [value, value]
    return value


ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "a number of 5,000 digits": (lambda: [10**5000], "[<a whole number of 16610 bits>]"),
    "a list in itself": (itself, "[1, <contains itself>]"),
    "a list 5,000 deep": (deep, "<nested too deeply to be shown>"),
    "a list of too many paths": (wide, "<more than can be shown>"),
    "a repr that raises": (lambda: Shy(ValueError()), "<Shy: cannot be shown, ValueError>"),
    "a repr that ends all": (lambda: Shy(SystemExit()), "<Shy: cannot be shown, SystemExit>"),
    "a key that raises": (lambda: {Shy(OSError()): 1}, "{<Shy: cannot be shown, OSError>: 1}"),
    "no number": (lambda: [float("nan"), 1.5], "[NaN, 1.5]"),
    "infinities": (lambda: (float("inf"), float("-inf")), "[Infinity, -Infinity]"),
    "a key of 5,000 digits": (lambda: {10**5000: 1}, "cannot be shown, ValueError>: 1}"),
}


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("kind", ODD)
def test_what_cannot_be_said_becomes_a_placeholder(kind: str) -> None:
    """Never an exception, always JSON as others read it."""
    make, expected = ODD[kind]
    data = json.loads(json_line({"value": make()}), parse_constant=no_constant)["value"]
    assert expected in str(plain(make(), most_values=2000)).replace("'", "")
    assert data is not None


def test_the_bounds_are_wide() -> None:
    """What is merely large is shown as it is."""
    number, items = 2 ** (LARGEST_BITS - 1), list(range(100_000))
    assert [number, items] == json.loads(json_line({"v": [number, items]}))["v"]


def test_what_an_object_says_of_itself_is_cut() -> None:
    """A repr of a million characters does not flood a line."""
    assert len(plain(Loud())) == LONGEST_REPR


def test_ctrl_c_is_no_property_of_a_value() -> None:
    """An interrupt while something is shown stays an interrupt."""
    with pytest.raises(KeyboardInterrupt):
        plain(Shy(KeyboardInterrupt()))
