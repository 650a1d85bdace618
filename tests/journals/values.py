"""What a tool may return, as Hypothesis strategies; and when two such values are alike."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import attrs
from hypothesis import strategies as st

from loopfsm.model.step import EnvironmentValue, FromEnvironment, Output


def alike(value: Any) -> Any:
    """A value as nested tuples that are equal exactly when two values are the same data.

    `1`, `1.0` and `True` are told apart, not-a-number is itself, and the order of a mapping
    counts. What came from the environment is its name.
    """
    if isinstance(value, (FromEnvironment, EnvironmentValue)):
        return "environment", value.name
    if isinstance(value, Enum):
        return type(value), value.name
    if isinstance(value, (datetime, date, time)):
        return type(value), value.isoformat()
    if isinstance(value, float):
        return float, repr(value)
    if isinstance(value, PurePath):
        return "path", str(value)
    if isinstance(value, Mapping):
        return "mapping", tuple((alike(key), alike(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(alike, value))
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return type(value), tuple(alike(getattr(value, field.name)) for field in fields)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return type(value), tuple(alike(getattr(value, name)) for name in names)
    return type(value), value


class Kept:
    """Bytes by their SHA-256, as files beside a journal keep them."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def keep(self, content: bytes) -> str:
        sha = hashlib.sha256(content).hexdigest()
        self.contents[sha] = content
        return sha

    def fetch(self, sha: str) -> bytes:
        return self.contents[sha]


# Strategies

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two halves that JSON takes for one character."""

ANY_CHARACTER: st.SearchStrategy[str] = st.characters(exclude_categories=())
TEXTS = st.text(ANY_CHARACTER, max_size=8).filter(
    lambda text: not PAIR.search(text)
) | st.sampled_from(("$bytes", "$", "\0", "\ud800", "$x"))
"""Also halves of surrogate pairs, NUL, and what looks like one of our forms."""

WHOLE = st.integers() | st.integers(-(2**13_999), 2**13_999)
NUMBERS = WHOLE | st.floats() | st.booleans()
ZONES = st.none() | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
MOMENTS = (
    st.datetimes(timezones=ZONES) | st.dates() | st.builds(lambda t: t, st.times(timezones=ZONES))
)
SCALARS = st.none() | NUMBERS | TEXTS | MOMENTS | st.binary(max_size=8) | st.builds(Path, TEXTS)
KEYS = SCALARS | st.tuples(SCALARS, SCALARS)

DATA: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=12,
)
"""What is read back as it was written, without any annotation."""

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)

REFERENCES: st.SearchStrategy[Any] = st.builds(
    Output, TEXTS, st.lists(TEXTS, max_size=3).map(tuple)
) | st.builds(EnvironmentValue, TEXTS)
ARGS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    TEXTS,
    st.recursive(
        JSON | REFERENCES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(TEXTS, inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
        ),
        max_leaves=6,
    ),
    max_size=3,
)
"""Arguments of a step, with references at any depth."""
