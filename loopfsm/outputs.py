"""What tools return, as a later process will read it: so it is handed on, crash or no crash."""

from __future__ import annotations

from typing import Any, cast

from loopfsm import codec
from loopfsm.errors import NotSerialisable
from loopfsm.model.step import FromEnvironment


def kept(
    value: Any, annotation: Any, keep: codec.Keep, fetch: codec.Fetch, place: str = "output"
) -> Any:
    """What a later process will read of `value`: the one that goes on sees the same.

    Plain data is itself. What a type is needed for comes back in the type that the annotation
    names, else as plain data; `loopfsm.structuring` has the rule.

    Raises:
        NotSerialisable: no journal can keep it, it does not fit its annotation, or it comes
            back as something else, since building it again alters or loses what it holds.
    """
    if codec.is_plain(annotation) and codec.is_json(value):
        return _built_anew(value)
    data = codec.unstructured(value, place, keep)
    if codec.is_plain(annotation) and is_itself(value):
        return _built_anew(value)
    try:
        built = codec.structured(codec.tagged(data, fetch), annotation)
    except Exception as error:  # building it runs code of its author's
        told = f"it does not fit {annotation_name(annotation)}, which its tool says it returns"
        raise NotSerialisable(place, codec.named(value), f"{told}: {error}") from error
    if not codec.is_plain(annotation):
        _refuse_altered(value, annotation, data, built, place)
    return built


def _refuse_altered(value: Any, annotation: Any, data: Any, built: Any, place: str) -> None:
    back = codec.unstructured(built, place, codec.sha_of)
    if codec.text_of(back) == codec.text_of(data):
        return
    where = _first_difference(data, back, place)
    told = (
        f"built again as {annotation_name(annotation)} it comes back as something else, at "
        f"{where}; look for a converter, a __post_init__, a field with init=False, a subclass"
    )
    raise NotSerialisable(place, codec.named(value), told)


def _first_difference(data: Any, back: Any, place: str) -> str:
    """Where two values that JSON can hold first differ."""
    if type(data) is dict and type(back) is dict:
        keys = [*data, *(key for key in back if key not in data)]
        inside = [(f".{key}", data.get(key, ...), back.get(key, ...)) for key in keys]
    elif type(data) is list and type(back) is list and len(data) == len(back):
        pairs = zip(data, back, strict=True)
        inside = [(f"[{at}]", one, other) for at, (one, other) in enumerate(pairs)]
    else:
        return place
    for name, one, other in inside:
        if ... in (one, other) or codec.text_of(one) != codec.text_of(other):
            return _first_difference(one, other, place if name[1:2] == "$" else f"{place}{name}")
    return place


def _built_anew(value: Any) -> Any:
    """The same data in lists and dicts of our own: what the tool does to its own stays there."""
    kind = type(value)
    if kind is dict:
        return {key: _built_anew(item) for key, item in value.items()}
    if kind in (list, tuple):
        return kind(map(_built_anew, value))
    return value


def is_itself(value: Any) -> bool:
    """Whether a value is made of texts, numbers, lists, tuples and dicts alone."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None), bytes, FromEnvironment):
        return True
    if kind in (list, tuple):
        return all(map(is_itself, value))
    if kind is dict:
        return all(is_itself(key) and is_itself(item) for key, item in value.items())
    return False


def annotation_name(annotation: Any) -> str:
    """A type as its author would write it."""
    return cast(str, getattr(annotation, "__name__", str(annotation)))
