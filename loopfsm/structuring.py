"""Data as values of the types that annotations name: the only module that knows `cattrs`.

The rule, which is the same for the process that goes on and for one that resumes, since it
looks at nothing but the data and the annotation:

- What the annotation names is built from the data. Texts never become numbers, nor lists
  tuples: a list or tuple stays the one that it is, and what is in it is built.
- A union: the member whose class the data has already (so an enum of texts beside `str` is a
  text); else the one that it fits, of several the one that is written as the same data. Two
  classes that are written alike cannot be told apart: it stays plain data.
- An annotation that nothing can be built of counts as plain: its data is handed on as it is.
  That is decided by the annotation alone, at whatever depth it stands: a name that cannot be
  resolved, a protocol, any class that is none of the kinds known here.
- Data that does not fit an annotation that can be built is an error.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import date, datetime, time
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import attrs
import cattrs

from loopfsm.model.step import EnvironmentValue, Output
from loopfsm.plain import plain

Hook = Callable[[Any, Any], Any]
Written = Callable[[Any], str]
"""A value as the text that a journal keeps of it."""

REFERENCES = (EnvironmentValue, Output)
"""They stand for a value of any type."""

_PLAIN = (Any, None, type(None), object, str, int, float, bool, bytes, datetime, date, time)
_UNIONS: tuple[Any, ...] = (Union, types.UnionType)
_BUILT_IN = (list, tuple)
_ABSTRACT = (Sequence, MutableSequence, Collection, Iterable)
_UNKNOWN = (
    *(NameError, AttributeError, TypeError, ValueError, LookupError, SyntaxError, ImportError),
    cattrs.StructureHandlerNotFoundError,
)
"""Raised for an annotation that says nothing: by what it says, not by what the moment has."""


def is_plain(kind: Any) -> bool:
    """Whether data of this type is read back as it was written: there is nothing to structure."""
    try:
        return _is_plain(kind)
    except (TypeError, NameError, RecursionError):  # something may still be made of it
        return False


@cache
def _is_plain(kind: Any) -> bool:
    if kind in _PLAIN or isinstance(kind, (str, TypeVar)):  # a text: a name nobody could resolve
        return True
    origin, inside = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        return all(_is_plain(each) for each in inside)
    if kind in (*_BUILT_IN, *_ABSTRACT, dict, Mapping) or origin in (list, *_ABSTRACT):
        return all(_is_plain(each) for each in inside)
    if origin in (dict, Mapping):
        return all(_is_plain(each) for each in inside)
    if origin is tuple:
        return all(_is_plain(each) for each in inside if each is not ...)
    if is_typeddict(kind):
        return all(_is_plain(each) for each in get_type_hints(kind).values())
    return False


class Structurer:
    """Builds values of types; see the rule above."""

    def __init__(self, written: Written) -> None:
        self._written = written
        self._chosen: ContextVar[dict[Any, Any]] = ContextVar("chosen")
        """What was chosen for the unions of the data at hand: each is looked at once, however
        many members of the unions around it are tried."""
        converter = cattrs.Converter(structure_fallback_factory=lambda _: _as_it_is)
        for scalar in (str, bytes, bool, int):
            converter.register_structure_hook(scalar, self._scalar(scalar))
        converter.register_structure_hook(float, self._scalar(float, (int, float)))
        for moment in (datetime, date, time):
            converter.register_structure_hook(moment, _moment(moment))
        for path in (PurePath, Path):
            converter.register_structure_hook(path, _path)
        for when, factory in (
            (_is_record, self._record),
            (_is_typed_dict, self._typed_dict),
            (_is_named_tuple, self._named_tuple),
            (_is_sequence, self._sequence),
            (lambda kind: get_origin(kind) in _UNIONS, self._union),
            (lambda kind: kind is object or isinstance(kind, TypeVar), lambda _: _as_it_is),
            (lambda kind: kind in REFERENCES, lambda _: _reference),
        ):
            converter.register_structure_hook_factory(when, factory)
        converter.register_structure_hook_func(_is_enum, self._member)
        self._converter = converter

    def structured(self, data: Any, kind: Any) -> Any:
        """JSON-like data, its forms read, as a value of type `kind`.

        Raises:
            TypeError, ValueError: it does not fit.
        """
        try:
            hook = self._converter.get_structure_hook(kind)
        except _UNKNOWN:  # no type at all: it counts as plain
            return data
        before = self._chosen.set({})
        try:
            return hook(data, kind)
        except cattrs.BaseValidationError as error:
            raise ValueError("; ".join(cattrs.transform_error(error))) from error
        finally:
            self._chosen.reset(before)

    # One value

    def _scalar(self, base: type, kinds: type | tuple[type, ...] = ()) -> Hook:
        """Take what is of the type already; never turn a text into a number or the like.

        `cattrs` asks this of subclasses too.
        """

        def take(value: Any, kind: Any) -> Any:
            if isinstance(value, REFERENCES):
                return value
            if _is_enum(kind):
                return self._member(value, kind)
            if not isinstance(value, kinds or base):
                raise _misfit(value, kind)
            return value if kind is base else kind(value)

        return take

    def _member(self, value: Any, kind: Any) -> Any:
        """The member of an enum that is written so."""
        if isinstance(value, REFERENCES):
            return value
        try:
            return kind(value)
        except (ValueError, TypeError):  # its value may be an object that is kept by field
            text = self._written(value)
            for member in kind:
                if self._written(member) == text:
                    return member
            raise

    # Many

    def _record(self, kind: Any) -> Hook:
        """An attrs class or a dataclass."""
        open_types = () if get_origin(kind) else getattr(kind, "__parameters__", ())
        known = kind[(Any,) * len(open_types)] if open_types else kind
        return _unless_unknown(self._converter.gen_structure_attrs_fromdict, known)

    def _typed_dict(self, kind: Any) -> Hook:
        return _unless_unknown(self._converter.gen_structure_typeddict, kind)

    def _named_tuple(self, kind: Any) -> Hook:
        try:
            hints = get_type_hints(kind)
        except _UNKNOWN:
            hints = {}
        inside = [hints.get(name, Any) for name in kind._fields]

        def build(value: Any, _: Any) -> Any:
            if type(value) is not tuple or len(value) != len(inside):
                raise _misfit(value, kind)
            return kind(*map(self._converter.structure, value, inside))

        return build

    def _sequence(self, kind: Any) -> Hook:
        origin, inside = get_origin(kind) or kind, get_args(kind)
        one = inside[0] if inside else Any
        differ = origin is tuple and bool(inside) and ... not in inside

        def build(value: Any, _: Any) -> Any:
            if type(value) not in _BUILT_IN:
                if origin in _BUILT_IN and not isinstance(value, REFERENCES):
                    raise _misfit(value, kind)
                return value
            if differ and len(inside) != len(value):
                raise _misfit(value, kind)
            kinds = inside if differ else (one,) * len(value)
            return type(value)(map(self._converter.structure, value, kinds))

        return build

    # Unions

    def _union(self, kind: Any) -> Hook:
        members = get_args(kind)
        others = [member for member in members if member is not type(None)]

        def only(value: Any, _: Any) -> Any:
            return None if value is None else self._converter.structure(value, others[0])

        def choose(value: Any, _: Any) -> Any:
            if type(value) in members or isinstance(value, REFERENCES):
                return value
            chosen, key = self._chosen.get(), (id(value), kind)
            if key not in chosen:  # the value is kept too: its identity stays its own
                chosen[key] = (value, self._choice(value, members))
            found = chosen[key][1]
            if not found:
                raise _misfit(value, kind)
            return found[0]

        return only if len(others) == 1 else choose

    def _choice(self, value: Any, members: Sequence[Any]) -> tuple[Any, ...]:
        """The value of a member of the union, if there is one."""
        own = [member for member in members if get_origin(member) is type(value)]
        found = self._fits(value, own)
        if found:
            is_clear = all(each == found[0] for each in found)
            return (found[0] if is_clear else value,)
        found = self._fits(value, [member for member in members if member not in own])
        built = [each for each in found if type(each) is not type(value)]
        if len({type(each) for each in built}) > 1:
            return (value,)
        return tuple((built or found)[:1])

    def _fits(self, value: Any, members: Iterable[Any]) -> list[Any]:
        """What members make of a value; of several, what is written as the value is."""
        built = []
        for member in members:
            if _may_be(value, member):
                with suppress(Exception):  # it does not fit; building it runs its author's code
                    built.append(self._converter.structure(value, member))
        if len(built) < 2:
            return built
        text, fits = self._written(value), []
        for each in built:
            with suppress(Exception):
                if self._written(each) == text:
                    fits.append(each)
        return fits


def _may_be(value: Any, member: Any) -> bool:
    """Whether a mapping has no more than the fields of a class: none would be lost."""
    if not _is_record(member):
        return True
    if type(value) is not dict:
        return False
    return {each.name for each in _fields(get_origin(member) or member)}.issuperset(value)


def _fields(record: Any) -> Iterable[Any]:
    return attrs.fields(record) if attrs.has(record) else dataclasses.fields(record)


def _is_record(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    is_class = isinstance(origin, type) and origin not in REFERENCES
    return is_class and (attrs.has(origin) or dataclasses.is_dataclass(origin))


def _is_typed_dict(kind: Any) -> bool:
    return is_typeddict(get_origin(kind) or kind)


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_sequence(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (*_BUILT_IN, *_ABSTRACT)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _unless_unknown(make: Callable[[Any], Hook], kind: Any) -> Hook:
    """The hook of a class; as it is when the types of its fields are unknown."""
    try:
        hook = make(kind)
    except RecursionError:  # it contains itself: `cattrs` asks again later
        raise
    except _UNKNOWN:
        return _as_it_is
    return lambda value, _: value if isinstance(value, REFERENCES) else hook(value, kind)


def _as_it_is(value: Any, _: Any) -> Any:
    return value


def _moment(base: type) -> Hook:
    def take(value: Any, kind: Any) -> Any:
        if not isinstance(value, (base, *REFERENCES)):
            raise _misfit(value, kind)
        return value

    return take


def _path(value: Any, kind: Any) -> Any:
    if isinstance(value, REFERENCES):
        return value
    if not isinstance(value, PurePath):
        raise _misfit(value, kind)
    return kind(value)


def _reference(value: Any, kind: Any) -> Any:
    if not isinstance(value, REFERENCES):
        raise _misfit(value, kind)
    return value


def _misfit(value: Any, kind: Any) -> TypeError:
    expected = kind.__name__ if isinstance(kind, type) else str(kind)
    return TypeError(f"found {plain(value, most_values=5)!r}, expected {expected}")
