"""What goes into a tool and what comes out of it: references resolved, outcomes read.

Tools are foreign code: whatever they return or raise is looked at with care here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """The value with every list, tuple and dict in it built anew; other values are shared.

    What came from the environment is kept by name; it is looked up here.
    """
    if type(value) is dict:
        return {key: copied(item, environment) for key, item in value.items()}
    if type(value) is list:
        return [copied(item, environment) for item in value]
    if type(value) is tuple:
        return tuple(copied(item, environment) for item in value)
    if isinstance(value, EnvironmentValue):
        return _from_environment(value, environment)
    return value


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
