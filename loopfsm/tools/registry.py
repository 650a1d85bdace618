"""The tools a plan may call, by name; and `@tool`, which makes one from a function."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar, overload

from loopfsm.errors import ToolError
from loopfsm.ports import Tool
from loopfsm.tools.python import SHARED, DaemonThreads, PythonTool

P = ParamSpec("P")
R = TypeVar("R")


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    if not isinstance(name, str) or not name.isidentifier():
        raise ToolError(name or repr(function), "it has no name of its own; give it tool(name=...)")
    return name


@overload
def tool(function: Callable[P, R], /) -> PythonTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    timeout_s: float | None = 300.0,
    threads: DaemonThreads = SHARED,
) -> Callable[[Callable[P, R]], PythonTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    timeout_s: float | None = 300.0,
    threads: DaemonThreads = SHARED,
) -> Any:
    """Make a tool of a sync or async function: `@tool`, or `@tool(name=..., ...)`.

    Args:
        function: what to call; its args come by name.
        name: what plans call it; by default the name of the function.
        idempotent: repeating a call leaves the world as one call does.
        read_only: it changes nothing, so that a verifier may use it.
        timeout_s: seconds an attempt may take unless the step says otherwise; None: no limit.
        threads: where a sync function runs.

    Raises:
        ToolError: the function has no usable name or cannot be called by argument names.
    """

    def declared(function: Callable[..., Any]) -> PythonTool[..., Any]:
        return PythonTool(
            name=_name_of(function) if name is None else name,
            function=function,
            idempotent=idempotent,
            read_only=read_only,
            timeout_s=timeout_s,
            threads=threads,
        )

    return declared if function is None else declared(function)


def _check(tool: Any) -> None:
    if not isinstance(tool.name, str) or not tool.name.strip():
        raise ToolError(str(tool.name), "a tool needs a name")
    limit = tool.timeout_s
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise ToolError(tool.name, f"timeout_s is {limit!r}, expected seconds or None")
    if not math.isfinite(limit) or limit <= 0:
        raise ToolError(tool.name, f"timeout_s is {limit!r}, expected more than 0, or None")


class ToolRegistry:
    """Tools by name, in the order in which they were registered."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.register(each)

    def register(self, tool_or_function: Tool | Callable[..., Any]) -> Tool:
        """Add a tool (a bare function becomes one, under its own name) and return it.

        Raises `ToolError` when the name is taken, or the tool is declared wrongly.
        """
        found = self._as_tool(tool_or_function)
        _check(found)
        if found.name in self._tools:
            raise ToolError(found.name, "the name is taken by another tool; give it another one")
        self._tools[found.name] = found
        return found

    @staticmethod
    def _as_tool(candidate: object) -> Tool:
        if isinstance(candidate, Tool) and not isinstance(candidate, type):
            return candidate
        if callable(candidate):
            return tool(candidate)
        problem = "expected a function, or an object with name, timeout_s, read_only, idempotent"
        raise ToolError(repr(candidate), f"{problem} and call")

    def get(self, name: str) -> Tool:
        """The tool of that name; `ToolError` with the nearest names when there is none."""
        try:
            return self._tools[name]
        except KeyError:
            raise ToolError(name, self._unknown(name)) from None

    def _unknown(self, name: str) -> str:
        nearest = difflib.get_close_matches(name, self._tools, n=1)
        if nearest:
            return f"there is no such tool; did you mean {nearest[0]!r}?"
        known = ", ".join(repr(each) for each in self._tools) or "none is registered"
        return f"there is no such tool; known: {known}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in the order of registration."""
        return tuple(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)
