"""The types a key of a plan file can have: small named checkers.

A checker takes a value as the TOML parser gave it and its place, and yields what is wrong
with it. It changes nothing.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from loopfsm.errors import Problem
from loopfsm.planfile.places import join

Check = Callable[[object, str], Iterator[Problem]]

LARGEST_NUMBER = 1e15
"""Beyond this no number of a plan means anything (seconds, bytes, tries)."""

_TOML_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "a table"),
)
_LONGEST_SHOWN = 60


def shown(value: object) -> str:
    """A value as it stands in a message: short, with its TOML type."""
    kind = next((name for type_, name in _TOML_NAMES if isinstance(value, type_)), "a date or time")
    if isinstance(value, dict):
        return f"a table of {', '.join(map(shortened, value)) or 'nothing'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{shortened(value)} ({kind})"


def shortened(value: object) -> str:
    """`repr`, cut where it would flood the message."""
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        return "a number of many digits"
    text = repr(value[:_LONGEST_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def wrong(place: str, value: object, expected: str) -> Problem:
    """What was found, and what was expected instead."""
    return Problem(place, f"found {shown(value)}, expected {expected}")


def nearest(name: str, valid: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the name that was meant, or all of them."""
    names = tuple(valid)
    lowered = {candidate.lower(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name[:100].lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f"did you mean {lowered[close[0]]!r}?"
    return f"valid: {', '.join(names) or 'none'}"


def text(value: object, place: str) -> Iterator[Problem]:
    """Any text."""
    if not isinstance(value, str):
        yield wrong(place, value, "a text")
    elif "\0" in value:
        yield Problem(place, "holds a NUL character, which no program or path can take")


def filled_text(value: object, place: str) -> Iterator[Problem]:
    """A text that says something."""
    if isinstance(value, str) and not value.strip():
        yield Problem(place, "is empty; expected a text")
    else:
        yield from text(value, place)


def flag(value: object, place: str) -> Iterator[Problem]:
    """True or false."""
    if not isinstance(value, bool):
        yield wrong(place, value, "true or false")


def whole(minimum: int, maximum: int | None = None) -> Check:
    """A whole number of at least `minimum`, and at most `maximum`."""
    most = LARGEST_NUMBER if maximum is None else maximum
    span = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"

    def whole_number(value: object, place: str) -> Iterator[Problem]:
        good = isinstance(value, int) and not isinstance(value, bool)
        if not good or not minimum <= value <= most:  # type: ignore[operator]  # narrowed by `good`
            yield wrong(place, value, f"a whole number {span}")

    return whole_number


def number(value: object, place: str) -> Iterator[Problem]:
    """A finite number that is not negative."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= LARGEST_NUMBER:  # type: ignore[operator]  # narrowed by `good`
        yield wrong(place, value, "a number of at least 0")


def duration(value: object, place: str) -> Iterator[Problem]:
    """Seconds: a finite number above 0."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 < value <= LARGEST_NUMBER:  # type: ignore[operator]  # narrowed by `good`
        yield wrong(place, value, "a number of seconds above 0")


def at_least_a_second(value: object, place: str) -> Iterator[Problem]:
    """Seconds: a finite number of at least 1."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 1 <= value <= LARGEST_NUMBER:  # type: ignore[operator]  # narrowed by `good`
        yield wrong(place, value, "a number of seconds of at least 1")


def one_of(*names: str) -> Check:
    """One of a few words."""

    def word(value: object, place: str) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield wrong(place, value, f"one of {', '.join(names)}")
        elif value not in names:
            yield Problem(place, f"unknown value {shortened(value)}; {nearest(value, names)}")

    return word


def matching(pattern: str, expected: str) -> Check:
    """A text of one form."""
    form = re.compile(pattern)

    def formed_text(value: object, place: str) -> Iterator[Problem]:
        if not isinstance(value, str) or not form.fullmatch(value):
            yield wrong(place, value, expected)

    return formed_text


def list_of(item: Check, what: str, *, at_least_one: bool = False) -> Check:
    """A list whose items all pass `item`."""

    def items(value: object, place: str) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield wrong(place, value, f"a list of {what}")
            return
        if at_least_one and not value:
            yield Problem(place, f"is empty; expected a list of {what}")
        for index, entry in enumerate(value):
            yield from item(entry, f"{place}[{index}]")

    return items


def table(value: object, place: str) -> Iterator[Problem]:
    """A table; its keys are looked at by whoever reads it."""
    if not isinstance(value, dict):
        yield wrong(place, value, "a table")


def table_of(item: Check, what: str) -> Check:
    """A table whose values all pass `item`."""

    def entries(value: object, place: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield wrong(place, value, f"a table of {what}")
            return
        for key, entry in value.items():
            yield from item(entry, join(place, key))

    return entries


def text_or_reference(value: object, place: str) -> Iterator[Problem]:
    """A text, or a table that is a reference."""
    if not isinstance(value, dict):
        yield from text(value, place)


def command_line(value: object, place: str) -> Iterator[Problem]:
    """One text for the shell; a reference cannot stand in it."""
    if isinstance(value, dict):
        yield Problem(
            place,
            f"found {shown(value)}, expected a text: a reference is a whole value and never "
            "part of a command line; use argv, or pass it in env",
        )
    else:
        yield from filled_text(value, place)


def plain_value(value: object, place: str) -> Iterator[Problem]:
    """What JSON can hold too: the args of a step are journaled."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from plain_value(entry, join(place, key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from plain_value(entry, f"{place}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(place, f"found {value!r}, expected a finite number")
    elif not isinstance(value, bool | int | float | str):
        yield Problem(place, f"found the date or time {value}, expected a text: put it in quotes")


def arguments(value: object, place: str) -> Iterator[Problem]:
    """A table of plain values."""
    if isinstance(value, Mapping):
        yield from plain_value(value, place)
    else:
        yield wrong(place, value, "a table")
