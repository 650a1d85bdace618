"""A situation: what one result of a tool says about the world, and how it is known.

A result carries at most one. It is declared by the code of a tool, or inferred from the result.
The kinds are written here and nowhere else, each with its class; the set is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any

from attrs import field, frozen


class SituationClass(Enum):
    """What a kind asks of whoever meets it."""

    BLOCKER = "blocker"
    """Somebody outside has to do something first."""
    SELF_FIXABLE = "self_fixable"
    """The caller can put the call right alone."""
    DEGENERATE = "degenerate"
    """There is an answer, and it is less than it seems."""
    ADVERSARIAL = "adversarial"
    """The text gives orders to whoever reads it."""


class SituationKind(StrEnum):
    """The 14 kinds (R2)."""

    AUTH = "auth"
    NOT_INSTALLED = "not_installed"
    PERMISSION = "permission"
    QUOTA = "quota"
    OFFLINE = "offline"
    LOCKED = "locked"
    BAD_ARGS = "bad_args"
    NOT_FOUND = "not_found"
    WRONG_CWD = "wrong_cwd"
    SYNTAX = "syntax"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    GARBLED = "garbled"
    INJECTED_INSTRUCTION = "injected_instruction"


_KINDS_OF: Mapping[SituationClass, tuple[SituationKind, ...]] = {
    SituationClass.BLOCKER: (
        SituationKind.AUTH,
        SituationKind.NOT_INSTALLED,
        SituationKind.PERMISSION,
        SituationKind.QUOTA,
        SituationKind.OFFLINE,
        SituationKind.LOCKED,
    ),
    SituationClass.SELF_FIXABLE: (
        SituationKind.BAD_ARGS,
        SituationKind.NOT_FOUND,
        SituationKind.WRONG_CWD,
        SituationKind.SYNTAX,
    ),
    SituationClass.DEGENERATE: (
        SituationKind.EMPTY,
        SituationKind.TRUNCATED,
        SituationKind.GARBLED,
    ),
    SituationClass.ADVERSARIAL: (SituationKind.INJECTED_INSTRUCTION,),
}

CLASS_OF: Mapping[SituationKind, SituationClass] = MappingProxyType(
    {kind: each for each, kinds in _KINDS_OF.items() for kind in kinds}
)
"""The class of each kind."""


class Source(StrEnum):
    """How a situation is known."""

    DECLARED = "declared"
    """The code of the tool, or the plan, says so."""
    INFERRED = "inferred"
    """The result looks like it."""


NONE = "none"
"""The class name of a result that asks for nothing."""

UNCLASSIFIED = "unclassified_failure"
"""The class name of a failure of which nothing more is known."""


@frozen(kw_only=True)
class Probe:
    """A call that tells whether a blocker is still there."""

    tool: str
    args: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class Situation:
    """What one result says. `unblock` and `probe` are declared ones, or None (R69)."""

    kind: SituationKind
    subject: str
    """What it is about, without outer spaces and in lower case: the key of everything."""
    interactive: bool = False
    """Whether a person has to be there to put it right."""
    source: Source = Source.INFERRED
    evidence: str = ""
    """What was seen, as one bounded line."""
    detail: str = ""
    """What the declaration says about it."""
    unblock: str | None = None
    """What to do about it. Shown, never run."""
    probe: Probe | None = None
    retry_at: float | None = None
    """Of a quota: when it may be tried again, in seconds since the epoch."""
    retry_after_s: float | None = None
    """Of a quota: how long to wait, where the result says only that."""
    scope: str = ""
    """What exactly is closed, such as `gh@github.com`; empty: the subject."""
    allowed: tuple[str, ...] = ()
    """What stays allowed nevertheless."""

    @property
    def situation_class(self) -> SituationClass:
        return CLASS_OF[self.kind]

    @property
    def is_blocker(self) -> bool:
        return self.situation_class is SituationClass.BLOCKER


@frozen(kw_only=True)
class Classification:
    """Three separate answers about one result."""

    failed: bool
    refused: bool
    """It was turned down before anything ran."""
    situation: Situation | None = None

    @property
    def class_name(self) -> str:
        """The class of the situation, else `none` or `unclassified_failure`.

        A refusal without a situation is the loop speaking, often about an older error: none.
        """
        if self.situation is not None:
            return self.situation.situation_class.value
        return UNCLASSIFIED if self.failed and not self.refused else NONE
