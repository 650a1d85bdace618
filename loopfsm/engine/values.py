"""What goes into a tool and what comes out of it: references resolved, outcomes read.

Tools are foreign code: whatever they return or raise is looked at with care here.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import attrs

from loopfsm.errors import ToolFailed
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import EnvironmentValue, FromEnvironment, Output, Unreadable

PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types whose values refer to nothing; most of what a plan holds is of one of them."""

FAILED_STATUSES = ("error", "failed", "denied")
"""Values of `status` with which a returned mapping reports that the tool failed."""


def resolve(value: Any, state: RunState, environment: Mapping[str, str]) -> Any:
    """The value with every reference replaced by what it refers to.

    Lists and mappings are built anew, so that a tool that changes its args changes nothing
    else.

    Raises:
        ToolFailed: there is no such output, part of one, or environment variable.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, Output):
        return copied(_output(value, state), environment)
    if isinstance(value, EnvironmentValue):
        return _from_environment(value, environment)
    if isinstance(value, Mapping):
        return {key: resolve(item, state, environment) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolve(item, state, environment) for item in value]
    return value


def _from_environment(value: EnvironmentValue, environment: Mapping[str, str]) -> str:
    if value.name not in environment:
        raise ToolFailed(f"the environment variable {value.name} is not set", False)
    return value.looked_up(environment)


def _output(reference: Output, state: RunState) -> Any:
    value = state.step(reference.step_id).output
    if isinstance(value, Unreadable):
        raise ToolFailed(f"{reference} cannot be resolved: {value.why}", False)
    for depth, key in enumerate(reference.path):
        try:
            value = value[int(key)] if isinstance(value, (list, tuple)) else value[key]
        except Exception:  # whatever a value of a tool's says to being looked into
            place = ".".join((reference.step_id, *reference.path[:depth]))
            has = f"; it has {', '.join(map(str, value))}" if isinstance(value, dict) else ""
            says = f"the output at {place} is {shorten(value)} and has no {key!r}{has}"
            raise ToolFailed(f"{reference} cannot be resolved: {says}", False) from None
    return value


def copied(value: Any, environment: Mapping[str, str]) -> Any:
    """The value with every list, tuple, dict, attrs class and dataclass in it built anew.

    Other values, and what cannot be copied, are shared. What came from the environment is kept
    by name; it is looked up here, in keys and fields too.
    """
    try:
        return _Copy(environment).of(value)
    except RecursionError:  # nested too deeply for any journal but the one in memory
        return value


class _Copy:
    """One value being built anew; what is in it twice, or contains itself, is so in the copy."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._made: dict[int, Any] = {}
        """The copy of each object, by its identity."""

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if isinstance(value, EnvironmentValue):
            return _from_environment(value, self._environment)
        if id(value) not in self._made:
            self._made[id(value)] = self._anew(kind, value)
        return self._made[id(value)]

    def _anew(self, kind: type, value: Any) -> Any:
        if kind is list:
            items = self._made[id(value)] = []
            items.extend(map(self.of, value))
            return items
        if kind is tuple:
            return tuple(map(self.of, value))
        if isinstance(value, dict):
            return self._dict(kind, value)
        if isinstance(value, tuple) and hasattr(kind, "_make"):
            return tuple.__new__(kind, map(self.of, value))
        if not isinstance(value, type) and (attrs.has(kind) or dataclasses.is_dataclass(value)):
            return self._instance(value)
        return value

    def _dict(self, kind: type, value: dict[Any, Any]) -> Any:
        try:
            anew = {} if kind is dict else copy.copy(value)
            anew.clear()
        except Exception:  # code of its author's
            return value
        self._made[id(value)] = anew
        for key, item in value.items():
            anew[key if _is_by_identity(key) else self.of(key)] = self.of(item)
        return anew

    def _instance(self, value: Any) -> Any:
        try:
            anew = copy.copy(value)
        except Exception:  # code of its author's
            return value
        self._made[id(value)] = anew
        for name in _attributes(anew):
            with suppress(AttributeError):  # it has no value yet
                object.__setattr__(anew, name, self.of(object.__getattribute__(value, name)))
        return anew


def _is_by_identity(key: Any) -> bool:
    """Whether a key is found by its identity, so that a copy of it would not be."""
    found_by: Any = type(key).__hash__
    return found_by is object.__hash__


def _attributes(value: Any) -> set[str]:
    """The names under which an instance of an attrs class or a dataclass holds something."""
    kind = type(value)
    fields = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(value)
    return {*getattr(value, "__dict__", ()), *(field.name for field in fields)}


def failure_of(error: BaseException) -> dict[str, Any]:
    """What an exception of a tool means for its attempt."""
    if isinstance(error, ToolFailed):
        kind = FailureKind.REPORTED if error.executed else FailureKind.NOT_EXECUTED
        return {"failure": kind, "message": shown(error.message), "evidence": dict(error.evidence)}
    evidence = {"error": type(error).__name__}
    return {"failure": FailureKind.REPORTED, "message": describe(error), "evidence": evidence}


def reported_failure(output: Any) -> dict[str, Any] | None:
    """What a returned value says of its own failure; None when it reports none."""
    if not isinstance(output, Mapping):
        return None
    refused = output.get("executed") is False
    status = output.get("status")
    if not refused and not (isinstance(status, str) and status in FAILED_STATUSES):
        return None
    kind = FailureKind.NOT_EXECUTED if refused else FailureKind.REPORTED
    says = next((output[key] for key in ("error", "message") if output.get(key)), output)
    return {"failure": kind, "message": shorten(says)}


def describe(error: BaseException) -> str:
    """An exception in one line."""
    try:
        only = error.args[0] if len(error.args) == 1 else None
        text = only.shown if isinstance(only, FromEnvironment) else str(error)
    except Exception:  # its text is code of its author's
        text = "its text cannot be shown"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(text: str) -> str:
    """A text as it may be kept: in place of what came from the environment, its name."""
    return text.shown if isinstance(text, FromEnvironment) else text


def shorten(value: Any, length: int = 200) -> str:
    """A value as text of at most `length` characters."""
    try:
        text = shown(value) if isinstance(value, str) else repr(value)
    except Exception:  # its text is code of its author's
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= length else f"{text[: length - 1]}\u2026"
