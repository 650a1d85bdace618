"""Nouns and tool values as JSON, and back.

JSON has no bytes, no tuple, no date and no infinity. What it lacks is written as a mapping
with one key that begins with `$`:

    {"$bytes": SHA}           bytes, kept beside the journal under their SHA-256
    {"$datetime": ISO}        also `$date`, `$time`; ISO 8601
    {"$path": TEXT}           a path of the file system
    {"$tuple": [...]}         a tuple
    {"$float": "nan"}         also "inf", "-inf"
    {"$map": [[k, v], ...]}   a mapping with a key that is no text, or begins with `$`
    {"$from": [STEP, ...]}    a reference to an output
    {"$env": NAME}            a reference to an environment variable: never its value

Everything else is itself. Enums are written by value, attrs classes and dataclasses by
field; they come back as what they were where a type says so (the annotation of a noun's
field, or of what a tool returns; see `loopfsm.structuring`), else as plain data.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import attrs

from loopfsm import structuring
from loopfsm.errors import NotSerialisable
from loopfsm.model.step import EnvironmentValue, FromEnvironment, Output
from loopfsm.plain import LARGEST_BITS, plain

VERSION = 1
"""Of the forms above. A journal says which version wrote it."""

Keep = Callable[[bytes], str]
"""Keeps bytes and returns their SHA-256, in hexadecimal."""
Fetch = Callable[[str], bytes]
"""Returns the bytes of a SHA-256; `KeyError` when they are gone."""

DEEPEST = 100
"""Lists and mappings inside one another: few enough to be read back wherever a reader stands."""


def no_files(content: bytes) -> str:
    """Keep no bytes."""
    raise NotSerialisable("", "bytes", "this place takes text; decode them")


def sha_of(content: bytes) -> str:
    """The SHA-256 of bytes, which are kept already."""
    return hashlib.sha256(content).hexdigest()


def gone(sha: str) -> bytes:
    """Fetch nothing."""
    raise KeyError(sha)


# To JSON


def unstructured(value: Any, place: str, keep: Keep = no_files) -> Any:
    """`value` as JSON-like data.

    Raises:
        NotSerialisable: it holds what no journal can keep; the error says where, and what.
    """
    return value if is_json(value) else _Walk(keep).data(value, place)


def is_json(value: Any, deepest: int = 20) -> bool:
    """Whether a value, which is not nested too deeply, is written to JSON as it stands."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-_EXACT <= value <= _EXACT)
    if kind is float:
        return math.isfinite(value)
    if deepest and kind is dict:
        for key, item in value.items():
            if type(key) is not str or key.startswith("$") or not is_json(item, deepest - 1):
                return False
        return True
    if deepest and kind is list:
        return all(is_json(item, deepest - 1) for item in value)
    return False


_EXACT = 2**63
"""Whole numbers up to here are looked at no further."""


def unstructured_anyhow(value: Any) -> Any:
    """Do as `unstructured` does; what cannot be kept becomes a text that says what it was."""
    try:
        return unstructured(value, "")
    except NotSerialisable:
        return plain(value)


class _Walk:
    """One value on its way to JSON."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._around: set[int] = set()
        """The identities of what surrounds the value at hand."""

    def data(self, value: Any, place: str) -> Any:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is int:
            return _whole(value, place)
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if id(value) in self._around:
            raise NotSerialisable(place, "it contains itself")
        if len(self._around) >= DEEPEST:
            raise NotSerialisable(place, f"nested more than {DEEPEST} deep")
        self._around.add(id(value))
        try:
            return self._composed(kind, value, place)
        except (NotSerialisable, OSError):
            raise
        except Exception as error:  # looking into it runs code of its author's
            says = f"{named(value)} that cannot be read ({type(error).__name__})"
            raise NotSerialisable(place, says) from error
        finally:
            self._around.discard(id(value))

    def _composed(self, kind: type, value: Any, place: str) -> Any:
        if kind is list:
            return [self.data(item, f"{place}[{at}]") for at, item in enumerate(value)]
        if kind is dict:
            return self._mapping(value, place)
        if kind is tuple:
            items = [self.data(item, f"{place}[{at}]") for at, item in enumerate(value)]
            return {"$tuple": items}
        for base, write in _SCALARS:
            if isinstance(value, base):
                return write(value)
        if isinstance(value, (Enum, str)):
            return self.data(value.value if isinstance(value, Enum) else str.__str__(value), place)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"$bytes": self._kept(bytes(value), place)}
        if isinstance(value, (int, float)):
            return self.data(int(value) if isinstance(value, int) else float(value), place)
        return self._object(value, place)

    def _object(self, value: Any, place: str) -> Any:
        if isinstance(value, type):
            raise NotSerialisable(place, f"the class {value.__name__}")
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        if isinstance(value, tuple):  # a named one, say
            return self._composed(tuple, tuple(value), place)
        if isinstance(value, list):
            return self._composed(list, list(value), place)
        if attrs.has(type(value)):
            names = [field.name for field in attrs.fields(type(value))]
        elif dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
        else:
            raise NotSerialisable(place, named(value), _advice(value))
        return {name: self.data(getattr(value, name), f"{place}.{name}") for name in names}

    def _mapping(self, value: Mapping[Any, Any], place: str) -> Any:
        if all(map(_is_name, value)):
            return {
                str.__str__(key): self.data(item, f"{place}.{key}") for key, item in value.items()
            }
        pairs = []
        for key, item in value.items():
            written = self.data(key, f"{place}[key {_shown(key)}]")
            pairs.append([written, self.data(item, f"{place}[{_shown(key)}]")])
        return {"$map": pairs}

    def _kept(self, content: bytes, place: str) -> str:
        try:
            return self._keep(content)
        except NotSerialisable as error:
            raise attrs.evolve(error, place=place) from None


def _is_name(key: object) -> bool:
    """Whether a key of a mapping is one in JSON too; what came from the environment is none."""
    return isinstance(key, str) and not key.startswith("$") and not isinstance(key, FromEnvironment)


def _whole(value: int, place: str) -> int:
    if value.bit_length() > LARGEST_BITS:
        raise NotSerialisable(place, f"a whole number of {value.bit_length()} bits")
    return value


def named(value: object) -> str:
    """The type of a value, as a sentence has it."""
    kind = type(value)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {home}{kind.__qualname__}"


def _shown(key: object) -> str:
    return str(plain(key, most_values=20))[:40]


def _advice(value: object) -> str:
    if isinstance(value, (set, frozenset)):
        return "return a list"
    return "return texts, numbers, lists, dicts, or an attrs class or dataclass of them"


_SCALARS: Sequence[tuple[type, Callable[[Any], Any]]] = (
    (FromEnvironment, lambda value: {"$env": value.name}),
    (EnvironmentValue, lambda value: {"$env": value.name}),
    (Output, lambda value: {"$from": [value.step_id, *value.path]}),
    (datetime, lambda value: {"$datetime": value.isoformat()}),
    (date, lambda value: {"$date": value.isoformat()}),
    (time, lambda value: {"$time": value.isoformat()}),
    (PurePath, lambda value: {"$path": str(value)}),
)
"""What is written as one value, the most special first."""


# From JSON


def tagged(data: Any, fetch: Fetch = gone) -> Any:
    """JSON-like data with every `$` form turned into what it stands for.

    Raises:
        KeyError: bytes that it refers to are gone.
        ValueError: a `$` form that this version does not know.
    """
    if type(data) is list:
        return [tagged(item, fetch) for item in data]
    if type(data) is not dict:
        return data
    if len(data) == 1:
        ((key, item),) = data.items()
        if key.startswith("$"):
            return _untagged(key, item, fetch)
    return {key: tagged(item, fetch) for key, item in data.items()}


def _untagged(key: str, item: Any, fetch: Fetch) -> Any:
    if key == "$bytes":
        return fetch(item)
    if key == "$tuple":
        return tuple(tagged(each, fetch) for each in item)
    if key == "$map":
        return {tagged(name, fetch): tagged(value, fetch) for name, value in item}
    read = _READ.get(key)
    if read is None:
        raise ValueError(f"the form {key!r} is unknown to this version")
    return read(item)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$path": Path,
    "$float": float,
    "$env": EnvironmentValue,
    "$from": lambda item: Output(item[0], tuple(item[1:])),
}


def structured(data: Any, kind: Any) -> Any:
    """What `tagged` returned, as a value of type `kind`; see `loopfsm.structuring` for the rule.

    Raises:
        TypeError, ValueError: it does not fit.
    """
    return data if is_plain(kind) else _STRUCTURER.structured(data, kind)


def is_plain(kind: Any) -> bool:
    """Whether data of this type is read back as it was written: there is nothing to structure."""
    return structuring.is_plain(kind)


def field_types(noun: type) -> Mapping[str, Any]:
    """The type of each field of an attrs class."""
    return {field.name: field.type for field in attrs.fields(attrs.resolve_types(noun))}


# Texts


def text_of(data: Any) -> str:
    """JSON-like data as one line of ASCII."""
    return _COMPACT.encode(data)


_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def data_of(text: str) -> Any:
    """What `text_of` wrote; `ValueError` when it is no JSON."""
    return json.loads(text)


def _written(value: Any) -> str:
    return text_of(unstructured(value, "", sha_of))


_STRUCTURER = structuring.Structurer(_written)
