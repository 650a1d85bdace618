"""Making and copying frozen values at the price of ordinary ones.

attrs stores every field of a frozen instance through a call of `object.__setattr__`, which
for a noun of sixteen fields is most of what a transition costs. Here the fields are stored
into an instance of a subclass that is not frozen, which is then given the class itself; the
functions that do it are compiled once for each class, as attrs compiles its `__init__`.

That is done only where making an instance is storing its arguments and nothing else. Where a
class has validators, converters or hooks, attrs does what it always does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ParamSpec, TypeVar

import attrs

P = ParamSpec("P")
T = TypeVar("T")
Copier = Callable[[Any, Mapping[str, Any]], Any]


def compiled(lines: Iterable[str], known: Mapping[str, Any]) -> Any:
    """The function `made` that the lines define; `known` are the other names in them."""
    names = dict(known)
    exec("\n".join(lines), names)
    return names["made"]


def evolved(value: T, changes: Mapping[str, Any]) -> T:
    """Do as `attrs.evolve(value, **changes)` does."""
    value_class: type = type(value)
    copy = _copier_of(value_class)
    if copy is not None:
        try:
            made: T = copy(value, changes)
        except AttributeError:  # it names a field that is none, which attrs refuses
            pass
        else:
            return made
    return attrs.evolve(value, **changes)  # type: ignore[misc]  # every noun is of attrs


def maker_of(value_class: Callable[P, T]) -> Callable[P, T]:
    """What makes instances as the class itself does; the class, where it does more than store."""
    made_class: Any = value_class
    fields = attrs.fields(made_class)
    factories = {f.name: f.default for f in fields if _is_factory(f.default)}
    if not only_stores(made_class) or any(each.takes_self for each in factories.values()):
        return value_class
    in_place = [_parameter(f) for f in fields if not f.kw_only]
    by_name = [_parameter(f) for f in fields if f.kw_only]
    known: dict[str, Any] = {**_classes(made_class), "not_given": attrs.NOTHING}
    for field in fields:
        factory = factories.get(field.name)
        known[f"default_{field.name}"] = attrs.NOTHING if factory else field.default
        known[f"make_{field.name}"] = factory.factory if factory else None
    maker: Callable[P, T] = compiled(
        (
            f"def made({', '.join((*in_place, *(['*'] if by_name else []), *by_name))}):",
            *(f"    if {name} is not_given: {name} = make_{name}()" for name in factories),
            "    new = make(thawed)",
            *(f"    new.{field.name} = {field.name}" for field in fields),
            "    new.__class__ = frozen",
            "    return new",
        ),
        known,
    )
    return maker


def _parameter(field: attrs.Attribute[Any]) -> str:
    required = field.default is attrs.NOTHING
    return field.name if required else f"{field.name}=default_{field.name}"


def _is_factory(default: Any) -> bool:
    return isinstance(default, attrs.Factory)  # type: ignore[arg-type]  # a class at run time


@cache
def _copier_of(value_class: type) -> Copier | None:
    if not only_stores(value_class):
        return None
    copier: Copier = compiled(
        (
            "def made(old, changes):",
            "    new = make(thawed)",
            *(f"    new.{f.name} = old.{f.name}" for f in attrs.fields(value_class)),
            "    for name in changes:",
            "        setattr(new, name, changes[name])",
            "    new.__class__ = frozen",
            "    return new",
        ),
        _classes(value_class),
    )
    return copier


@cache
def only_stores(value_class: type) -> bool:
    """Whether making an instance is storing each argument in the slot of its name, no more."""
    made_class: Any = value_class
    fields = attrs.fields(made_class)
    code = getattr(made_class.__init__, "__code__", None)
    slots = {name for each in made_class.__mro__ for name in getattr(each, "__slots__", ())}
    return (
        code is not None
        and code.co_filename.startswith("<attrs generated")
        and made_class.__new__ is object.__new__
        and not any(hasattr(made_class, f"__attrs_{when}_init__") for when in ("pre", "post"))
        and slots - {"__weakref__"} == {f.name for f in fields}
        and all(f.init and f.alias == f.name for f in fields)
        and not any(f.validator or f.converter for f in fields)
    )


@cache
def _classes(value_class: type) -> Mapping[str, Any]:
    access = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    thawed = type(value_class.__name__, (value_class,), {"__slots__": (), **access})
    return {"make": object.__new__, "thawed": thawed, "frozen": value_class}
