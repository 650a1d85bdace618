"""The tools a plan may call, by name; and `@tool`, which makes one from a function."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from loopfsm.errors import ToolError
from loopfsm.ports import Tool
from loopfsm.tools.declaring import Declaration, declarations
from loopfsm.tools.python import SHARED, DaemonThreads, PythonTool

if TYPE_CHECKING:
    from loopfsm.situations.declared import Declared

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
    situations: Iterable[Declaration] = (),
    interactive: bool = False,
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
    situations: Iterable[Declaration] = (),
    interactive: bool = False,
) -> Any:
    """Make a tool of a sync or async function: `@tool`, or `@tool(name=..., ...)`.

    Args:
        function: what to call; its args come by name.
        name: what plans call it; by default the name of the function.
        idempotent: repeating a call leaves the world as one call does.
        read_only: it changes nothing, so that a verifier may use it.
        timeout_s: seconds an attempt may take unless the step says otherwise; None: no limit.
        threads: where a sync function runs.
        situations: what its failing results mean, each as `[[tools.NAME.situations]]` of a
            plan file says it: when, kind, subject, unblock, interactive, probe.
        interactive: it needs a person beside it.

    Raises:
        ToolError: the function has no usable name or cannot be called by argument names, or a
            situation is malformed.
    """

    def declared(function: Callable[..., Any]) -> PythonTool[..., Any]:
        return PythonTool(
            name=_name_of(function) if name is None else name,
            function=function,
            idempotent=idempotent,
            read_only=read_only,
            timeout_s=timeout_s,
            threads=threads,
            situations=situations,
            interactive=interactive,
        )

    return declared if function is None else declared(function)


def _is_interactive(tool: Tool) -> bool:
    return getattr(tool, "interactive", False)


def _check(tool: Any) -> None:
    if not isinstance(tool.name, str) or not tool.name.strip():
        raise ToolError(str(tool.name), "a tool needs a name")
    if not isinstance(_is_interactive(tool), bool):
        found = f"interactive is {_is_interactive(tool)!r}, expected True or False"
        raise ToolError(tool.name, found)
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
        self._situations: dict[str, tuple[Declared, ...]] = {}
        """Of the tools that declare any."""
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
        # a tool of somebody else's making need not know of situations
        situations = declarations(found.name, getattr(found, "situations", ()))
        self._check_probes(found, situations)
        self._tools[found.name] = found
        if situations:
            self._situations[found.name] = situations
        return found

    def _check_probes(self, newcomer: Tool, situations: tuple[Declared, ...]) -> None:
        """A probe only looks, and asks nobody (A28): checked as soon as both tools are known."""
        tools = (
            {**self._tools, newcomer.name: newcomer} if situations else {newcomer.name: newcomer}
        )
        for prober, declared in (*self._situations.items(), (newcomer.name, situations)):
            for each in declared:
                probe = tools.get(each.probe.tool) if each.probe else None
                if probe is None or (probe.read_only and not _is_interactive(probe)):
                    continue
                problem = "is interactive" if probe.read_only else "is not read_only"
                says = f"its probe calls {probe.name!r}, which {problem}; a probe only looks"
                raise ToolError(prober, says)

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

    def situations_of(self, name: str) -> tuple[Declared, ...]:
        """What the tool of that name declares; nothing when there is none."""
        return self._situations.get(name, ())

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
