"""What plan files and tools declare in advance: when a result looks like this, it means that."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from loopfsm.errors import ToolError
from loopfsm.model.situation import Probe, SituationKind
from loopfsm.situations.contract import key_of


@frozen(kw_only=True)
class When:
    """What a failing result has to show: exactly one of the three."""

    exit: int | None = None
    """Its exit code."""
    stderr: str | None = None
    """A literal piece of its error text, upper and lower case alike."""
    http: int | None = None
    """Its HTTP status."""

    def __attrs_post_init__(self) -> None:
        given = [each for each in (self.exit, self.stderr, self.http) if each is not None]
        if len(given) != 1 or given[0] == "":
            raise ToolError("", "`when` takes exactly one of exit, stderr and http")

    @property
    def shown(self) -> str:
        if self.exit is not None:
            return f"exit code {self.exit}"
        return f"HTTP status {self.http}" if self.http is not None else f"{self.stderr!r} in stderr"


@frozen(kw_only=True)
class Declared:
    """One declared situation of a tool: `[[tools.NAME.situations]]` of a plan file."""

    when: When
    kind: SituationKind
    subject: str = field(converter=key_of)
    unblock: str | None = None
    interactive: bool = False
    probe: Probe | None = None
    detail: str = ""
    retry_after_s: float | None = None
    scope: str = ""
    allowed: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        if not self.subject:
            raise ToolError("", "a declared situation needs a subject")


def when_of(value: Any, tool: str) -> When:
    """The `when` of a plan file: a table with one of exit, stderr, http."""
    if not isinstance(value, dict) or len(value) != 1:
        raise ToolError(tool, "`when` of its situation takes exactly one of exit, stderr and http")
    ((key, wanted),) = value.items()
    number = isinstance(wanted, int) and not isinstance(wanted, bool)
    if key == "exit" and number:
        return When(exit=wanted)
    if key == "http" and number:
        return When(http=wanted)
    if key == "stderr" and isinstance(wanted, str):
        return When(stderr=wanted)
    told = f"`when` of its situation: {key} = {wanted!r}; it takes exit, stderr or http"
    raise ToolError(tool, told)
