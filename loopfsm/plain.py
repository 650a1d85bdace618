"""Whatever a tool returned, as JSON-like data of bounded depth and size.

What a tool hands over may be hostile without meaning it: a list that holds itself, a number
of a million digits, an object that cannot even be shown. What cannot be said becomes a
placeholder in angle brackets; saying what happened never breaks what happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import attrs

from loopfsm.model.step import EnvironmentValue, FromEnvironment, Output

DEEPEST = 100
"""Lists and tables inside one another."""
MOST_VALUES = 1_000_000
"""Values in all; every list, table and key counts as one."""
LONGEST_REPR = 10_000
"""Characters of what a foreign object says of itself."""
LARGEST_BITS = 14_000
"""Of a whole number: about 4,200 digits; Python itself prints and reads at most 4,300."""


def plain(value: Any, most_values: int = MOST_VALUES) -> Any:
    """A noun, or whatever a tool returned, as JSON-like data.

    JSON has no NaN and no infinity: they become the texts "NaN", "Infinity", "-Infinity".
    Also a text, in angle brackets: what lies deeper than `DEEPEST` or comes after
    `most_values`, what contains itself, a whole number of more than `LARGEST_BITS`, and what
    raises when it is looked at.
    """
    return _Walk(most_values).data(value)


class _Walk:
    """One value being turned into data."""

    def __init__(self, most_values: int) -> None:
        self._left = most_values
        self._path: set[int] = set()
        """Where the walk is: the identities of what surrounds it."""

    def data(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            return "<more than can be shown>"
        if id(value) in self._path:
            return "<contains itself>"
        if len(self._path) >= DEEPEST:
            return "<nested too deeply to be shown>"
        self._path.add(id(value))
        try:
            return self._converted(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # a foreign object's own code
            return _cannot_be_shown(value, error)
        finally:
            self._path.discard(id(value))

    def _converted(self, value: Any) -> Any:
        match value:
            case None | bool():
                return value
            case Enum():
                return self.data(value.value)
            case int():
                return _whole(value)
            case float():
                return _number(value)
            case FromEnvironment():
                return value.shown
            case str():
                return str.__str__(value)
            case Output():
                return {"from": str(value)}
            case EnvironmentValue():
                return {"env": value.name}
            case Mapping():
                return self._table(value)
            case list() | tuple() | set() | frozenset():
                return self._list(value)
        if attrs.has(type(value)):
            return self._fields(value)
        return repr(value)[:LONGEST_REPR]

    def _table(self, table: Mapping[Any, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, item in table.items():
            data[_key(key)] = self.data(item)
            if self._left < 0:
                break
        return data

    def _list(self, items: Iterable[Any]) -> list[Any]:
        data: list[Any] = []
        for item in items:
            data.append(self.data(item))
            if self._left < 0:
                break
        return data

    def _fields(self, value: Any) -> dict[str, Any]:
        names = [each.name for each in attrs.fields(type(value)) if not each.name.startswith("_")]
        if hasattr(value, "id") and "id" not in names:
            names.insert(0, "id")
        return {name: self.data(getattr(value, name)) for name in names}


def _whole(value: int) -> int | str:
    bits = int.bit_length(value)
    return value if bits <= LARGEST_BITS else f"<a whole number of {bits} bits>"


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _key(key: Any) -> str:
    if isinstance(key, FromEnvironment):
        return key.shown
    try:
        return str.__str__(key) if isinstance(key, str) else str(key)[:LONGEST_REPR]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a foreign object's own code
        return _cannot_be_shown(key, error)


def _cannot_be_shown(value: object, error: BaseException) -> str:
    told, raised = type(value).__name__[:100], type(error).__name__[:100]
    return f"<{told}: cannot be shown, {raised}>"
