"""What a tool may declare, and what is refused: nothing malformed is guessed around (R4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from loopfsm.errors import ToolError
from loopfsm.model.situation import Probe, Situation, SituationKind, Source

MOST_LINE = 300
"""Characters of a text that is shown as one line; a longer one is cut visibly."""

KEY = "situation"
"""The key of a result under which a tool declares one."""


def one_line(text: str, most: int = MOST_LINE) -> str:
    """The text without control characters, as one line, cut visibly at `most` (A15)."""
    if len(text) <= most and text.isprintable():
        return " ".join(text.split())
    # four times as much may shrink to the limit; more is not looked at
    head = text[: 4 * most]
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    if len(line) <= most and len(head) == len(text):
        return line
    return f"{line[: most - 1]}…"


def key_of(subject: str) -> str:
    """How subjects are compared: two spellings are one subject."""
    return " ".join(subject.split()).casefold()


def validate_situation(tool: str, declared: Mapping[str, Any] | Situation) -> Situation:
    """The situation that `tool` declares.

    Keys: `kind` and `subject` (required), `unblock`, `interactive`, `probe` (`tool`, `args`),
    `detail`, `retry_at`, `retry_after_s`, `scope`, `allowed`. Others are tolerated.

    Raises ToolError, a ValueError that names the tool, when the declaration is malformed.
    """
    if isinstance(declared, Situation):
        declared = _as_mapping(declared)
    if not isinstance(declared, Mapping):
        raise ToolError(tool, f"its situation is {_shown(declared)}, expected a mapping")
    return Situation(
        kind=_kind(tool, declared.get("kind")),
        subject=key_of(_text(tool, declared, "subject", required=True)),
        unblock=one_line(_text(tool, declared, "unblock")) or None,
        interactive=_flag(tool, declared, "interactive"),
        probe=_probe(tool, declared.get("probe")),
        detail=one_line(_text(tool, declared, "detail")),
        retry_at=_number(tool, declared, "retry_at"),
        retry_after_s=_number(tool, declared, "retry_after_s"),
        scope=one_line(_text(tool, declared, "scope")),
        allowed=_texts(tool, declared, "allowed"),
        evidence="declared",
        source=Source.DECLARED,
    )


def _as_mapping(situation: Situation) -> Mapping[str, Any]:
    """The keys of a situation that somebody built by hand: they are checked like any other."""
    probe = situation.probe
    names = ("kind", "subject", "unblock", "interactive", "detail", "retry_at", "retry_after_s")
    return {name: getattr(situation, name) for name in (*names, "scope", "allowed")} | {
        "probe": {"tool": probe.tool, "args": probe.args} if isinstance(probe, Probe) else probe
    }


def _shown(value: object) -> str:
    return f"a {type(value).__name__}: {one_line(repr(value), 60)}"


def _kind(tool: str, value: object) -> SituationKind:
    if isinstance(value, str):
        for kind in SituationKind:
            if kind.value == value:
                return kind
    kinds = ", ".join(SituationKind)
    raise ToolError(tool, f"the kind of its situation is {_shown(value)}, expected one of {kinds}")


def _text(tool: str, declared: Mapping[str, Any], key: str, *, required: bool = False) -> str:
    value = declared.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise ToolError(tool, f"{key!r} of its situation is {_shown(value)}, expected text")
    if required and not value.strip():
        raise ToolError(tool, f"its situation has no {key}: {value!r} is blank")
    return value


def _texts(tool: str, declared: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = declared.get(key)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise ToolError(tool, f"{key!r} of its situation is {_shown(value)}, expected texts")
    return tuple(map(one_line, value))


def _flag(tool: str, declared: Mapping[str, Any], key: str) -> bool:
    value = declared.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ToolError(tool, f"{key!r} of its situation is {_shown(value)}, expected a bool")
    return value


def _number(tool: str, declared: Mapping[str, Any], key: str) -> float | None:
    value = declared.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ToolError(tool, f"{key!r} of its situation is {_shown(value)}, expected seconds")
    return float(value)


def _probe(tool: str, value: object) -> Probe | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ToolError(tool, f"the probe of its situation is {_shown(value)}, expected a mapping")
    name, args = value.get("tool"), value.get("args")
    if not isinstance(name, str) or not name.strip():
        raise ToolError(tool, f"the probe of its situation names no tool: {_shown(name)}")
    if args is None:
        args = {}
    if not isinstance(args, Mapping):
        raise ToolError(tool, f"'args' of its probe is {_shown(args)}, expected a mapping")
    return Probe(tool=name, args=dict(args))
