"""What a tool declares of its situations: checked when the tool is made.

Two ways to declare one: `situations=[...]`, "when a result looks like this, it means that",
for whoever runs a program or a function as a tool; and the key `situation` of a result or of
the evidence of a `ToolFailed`, for the code of a tool that knows in the moment.

Most tools declare nothing, and `import loopfsm` is to be quick: what situations need is
loaded when the first one is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from loopfsm.errors import ToolError, ToolFailed

if TYPE_CHECKING:
    from loopfsm.situations.declared import Declared

Declaration: TypeAlias = "Declared | Mapping[str, Any]"
"""A `Declared`, or the same as a plan file writes it: a table of its keys."""


def declarations(tool: str, values: Iterable[Declaration]) -> tuple[Declared, ...]:
    """The situations that `tool` declares.

    Raises:
        ToolError: one of them is malformed; it names the tool.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ToolError(tool, f"its situations are {values!r}, expected a list")
    return tuple(_declaration(tool, value) for value in values)


def as_given(values: Iterable[Declaration]) -> tuple[Declared, ...]:
    """The converter of a tool's attribute `situations`: what it may be given, for checkers.

    A converter does not know the tool's name, so the tool itself calls `declarations` then.
    """
    return values  # type: ignore[return-value]  # it is once the tool has been made


def _declaration(tool: str, value: object) -> Declared:
    from loopfsm.situations.contract import validate_situation  # noqa: PLC0415  # see above
    from loopfsm.situations.declared import Declared, When, when_of  # noqa: PLC0415  # see above

    names = tuple(attrs.fields_dict(Declared))
    if isinstance(value, Declared):
        data = {name: getattr(value, name) for name in names}
        if value.probe is not None:
            data["probe"] = {"tool": value.probe.tool, "args": value.probe.args}
    elif isinstance(value, Mapping):
        data = dict(value)
    else:
        raise ToolError(tool, f"one of its situations is {value!r}, expected a table of its keys")
    unknown = [name for name in data if name not in names]
    if unknown:
        raise ToolError(
            tool, f"unknown key {unknown[0]!r} of its situation; valid: {', '.join(names)}"
        )
    when = data.get("when")
    when = when if isinstance(when, When) else when_of(when, tool)
    if when.exit == 0:
        raise ToolError(tool, "`when` of its situation: exit = 0 is a success, and blocks nothing")
    said = attrs.asdict(validate_situation(tool, data), recurse=False)
    return Declared(when=when, **{name: said[name] for name in names if name != "when"})


def not_started(message: str, kind: str | None, subject: str, **more: Any) -> ToolFailed:
    """The failure of a call before anything was done, with what the tool knows about it.

    `kind` is that of a situation; None: nothing is known. The evidence reads like the result
    of a tool that failed.
    """
    if kind is None:
        return ToolFailed(message, executed=False)
    situation = {"kind": str(kind), "subject": subject, **more}
    evidence = {"status": "error", "error": message, "situation": situation}
    return ToolFailed(message, executed=False, evidence=evidence)
