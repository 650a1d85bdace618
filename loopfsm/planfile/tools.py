"""`[tools.NAME]` and the built-in tools: from tables to a registry."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from loopfsm.errors import Problem, ToolError
from loopfsm.model.step import EnvironmentValue
from loopfsm.planfile.checks import nearest, shortened
from loopfsm.planfile.keys import COMMAND_KEYS, TOOLS_NOT_YET
from loopfsm.planfile.places import join
from loopfsm.planfile.references import Scope, program_value
from loopfsm.planfile.sections import read_section
from loopfsm.planfile.situations import check_probes, read_situations
from loopfsm.planfile.steps import Known
from loopfsm.ports import Tool, ToolContext
from loopfsm.tools.python import PythonTool
from loopfsm.tools.registry import ToolRegistry
from loopfsm.tools.shell import ShellTool

FUNCTION_KEYS = ("timeout_s", "idempotent", "read_only", "interactive", "situations")
"""The keys that say something of a Python function."""

KINDS = ("command", "argv", "python")
"""A declared tool is one of these."""

BUILT_IN: Mapping[str, Known] = {
    "shell": Known(read_only=False, args_section="args of shell"),
    "python": Known(read_only=False, args_section="args of python"),
}


@frozen(kw_only=True)
class PythonProgram:
    """Run a Python file of the workspace with this interpreter, as a program of its own.

    Args of the step: `script` (a path, relative to the workspace), `argv`, and what a shell
    tool takes: `env`, `cwd`, `stdin`. The result is that of a shell tool.
    """

    shell: ShellTool
    name: str = "python"
    timeout_s: float | None = 300.0
    idempotent: bool = False
    read_only: bool = False

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Awaitable[dict[str, Any]]:
        """Run the file to its end; cancelled, end its whole process group first."""
        script = str(self.shell.workspace / str(args["script"]))
        argv = [sys.executable, script, *args.get("argv", ())]
        rest = {key: value for key, value in args.items() if key not in ("script", "argv")}
        return self.shell.call({"argv": argv, **rest}, context)


@frozen(kw_only=True)
class Place:
    """Where a plan lives: its own directory, the workspace, the environment."""

    directory: Path
    workspace: Path
    environment: Mapping[str, str]


def read_tools(
    tables: Mapping[str, Mapping[str, Any]], where: Place, problems: list[Problem]
) -> tuple[ToolRegistry, Mapping[str, Known | None]]:
    """The registry, and what is known of each tool; None: declared, but wrongly."""
    shell = ShellTool(workspace=where.workspace)
    registry = ToolRegistry((shell, PythonProgram(shell=shell)))
    made: list[Tool] = []
    known: dict[str, Known | None] = dict(BUILT_IN)
    for name, table in tables.items():
        place = join("tools", name)
        if name in BUILT_IN or name in TOOLS_NOT_YET:
            says = f"{name!r} is the name of a built-in tool; give this one another name"
            problems.append(Problem(place, says))
            continue
        before = len(problems)
        tool = _declared(name, table, place, where, problems)
        known[name] = None
        if tool is not None and len(problems) == before:
            made.append(tool)
            known[name] = _known(tool)
    check_probes(tables, known, where.environment, problems)
    for each in () if problems else made:
        try:
            registry.register(each)
        except ToolError as error:  # what a decorator says, against the other tools of the plan
            problems.append(Problem(join("tools", error.tool), error.problem))
    return registry, known


def _known(tool: ShellTool | PythonTool[..., Any]) -> Known:
    section = "args of a declared program" if isinstance(tool, ShellTool) else None
    return Known(tool.read_only, section, tool.interactive)


def _declared(
    name: str, table: Mapping[str, Any], place: str, where: Place, problems: list[Problem]
) -> ShellTool | PythonTool[..., Any] | None:
    good = read_section("tools.NAME", table, place, problems)
    if good.get("read_only"):
        good.setdefault("idempotent", True)  # what changes nothing can be asked again
    if "situations" in good:
        where_they_are = join(place, "situations")
        good["situations"] = read_situations(good["situations"], where_they_are, problems)
    kinds = [kind for kind in KINDS if kind in table]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        says = f"found {found}, expected one of {', '.join(KINDS)}"
        # a kind that is not there yet has been refused already
        if kinds or "http" not in table:
            problems.append(Problem(place, says))
        return None
    if kinds[0] not in good:
        return None
    try:
        if kinds == ["python"]:
            return _function_tool(name, good, place, where, problems)
        return _program_tool(name, good, place, where, problems)
    except ToolError as error:
        problems.append(Problem(join(place, kinds[0]), error.problem))
        return None


def _program_tool(
    name: str, good: Mapping[str, Any], place: str, where: Place, problems: list[Problem]
) -> ShellTool | PythonTool[..., Any] | None:
    scope = Scope(step_ids=(), environment=where.environment, of_a_step=False)
    before = len(problems)
    values = {
        key: program_value(value, join(place, key), scope, problems)
        if key in COMMAND_KEYS
        else value
        for key, value in good.items()
    }
    if len(problems) > before:
        return None
    return ShellTool(name=name, workspace=where.workspace, **_looked_up(values, where.environment))


def _looked_up(value: Any, environment: Mapping[str, str]) -> Any:
    """A tool is made anew by whoever loads the plan, so its variables are looked up at once."""
    if isinstance(value, EnvironmentValue):
        return value.looked_up(environment)
    if isinstance(value, Mapping):
        return {key: _looked_up(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [_looked_up(item, environment) for item in value]
    return value


def _function_tool(
    name: str, good: Mapping[str, Any], place: str, where: Place, problems: list[Problem]
) -> ShellTool | PythonTool[..., Any] | None:
    for key in COMMAND_KEYS:
        if key in good:
            says = "belongs to a tool that runs a program; a Python function has args only"
            problems.append(Problem(join(place, key), says))
    found = _imported(good["python"], where.directory, join(place, "python"), problems)
    if found is None:
        return None
    settings = {key: good[key] for key in FUNCTION_KEYS if key in good}
    if isinstance(found, PythonTool):  # what the decorator says holds where the plan is silent
        settings = {
            "timeout_s": found.timeout_s,
            "idempotent": found.idempotent,
            "read_only": found.read_only,
            "interactive": found.interactive,
            "situations": found.situations,
            "threads": found.threads,
        } | settings
        found = found.function
    return PythonTool(name=name, function=found, **settings)


def _imported(
    reference: str, directory: Path, place: str, problems: list[Problem]
) -> Callable[..., Any] | None:
    """The function that `module:function` names, the module found from the plan's directory."""
    module_name, _, path = reference.partition(":")
    try:
        with _importing_from(directory):
            importlib.invalidate_caches()
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the author's module may raise anything
        says = f"the module {shortened(module_name)} cannot be imported from {str(directory)!r}"
        problems.append(Problem(place, f"{says}: {type(error).__name__}: {error}"))
        return None
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = [name for name in dir(found) if not name.startswith("_")]
            close = nearest(part, names) if len(names) < 50 else "it has many other names"
            says = f"{module_name!r} has no {shortened(part)}; {close}"
            problems.append(Problem(place, says))
            return None
    if not callable(found):
        problems.append(Problem(place, f"{reference!r} is {shortened(found)}, expected a function"))
        return None
    return found  # type: ignore[no-any-return]  # callable, as just asked


@contextmanager
def _importing_from(directory: Path) -> Iterator[None]:
    """The directory comes first during an import; afterwards last, so that it hides nothing."""
    entry = os.fspath(directory)
    before = [path for path in sys.path if path != entry]
    sys.path[:] = [entry, *before]
    try:
        yield
    finally:
        sys.path[:] = [*(path for path in sys.path if path != entry), entry]
