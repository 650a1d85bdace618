"""From the bytes of a plan file to a plan and its tools, or to every mistake in it at once."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from loopfsm.dag import Dag
from loopfsm.errors import PlanError, Problem
from loopfsm.model.failure import LAST_RUNGS
from loopfsm.model.plan import DEFAULT_LADDER, Budget, Plan, Policy, WhenExhausted
from loopfsm.planfile.checks import list_of, nearest, shortened, text
from loopfsm.planfile.keys import FAILURE_CLASSES, STRATEGIES, STRATEGIES_NOT_YET
from loopfsm.planfile.places import join, line_of, lines_of
from loopfsm.planfile.sections import field_of, read_section
from loopfsm.planfile.steps import read_steps
from loopfsm.planfile.tools import Place, read_tools
from loopfsm.tools.registry import ToolRegistry

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

LARGEST_FILE = 16 << 20
"""Bytes that a plan file may have."""


@frozen(kw_only=True)
class PlanFile:
    """What a plan file says: the plan, the tools it may call, the directory it works in."""

    plan: Plan
    tools: ToolRegistry
    workspace: Path
    """Absolute; it need not exist yet."""
    journal: Path | None = None
    """Where the plan wants its runs kept; absolute. None: it does not say."""
    text: str = ""
    """The file itself, as it was read."""


def load(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> PlanFile:
    """Read the plan file at `path`.

    Python tools are imported from the plan's directory; nothing else is started.

    Args:
        path: a regular file of at most 16 MiB; a relative workspace starts from its directory.
        environment: where `{ env = "NAME" }` is looked up; None: that of this process.

    Raises:
        PlanError: the plan cannot run. It carries every problem, in the order of the file.
    """
    try:
        directory = Path(path).absolute().parent
        content = _content(Path(path))
    except (OSError, ValueError) as error:
        says = getattr(error, "strerror", None) or str(error)
        raise PlanError((Problem("", f"the plan cannot be read: {says}"),)) from error
    return loads(content, directory, environment)


def loads(
    content: bytes, directory: Path, environment: Mapping[str, str] | None = None
) -> PlanFile:
    """Read a plan from the bytes of a file that stands in `directory`; see `load`."""
    written = _decoded(content)
    known = os.environ if environment is None else environment
    try:
        return _read(_parsed(written), written, directory, known)
    except RecursionError as error:
        problem = Problem("", "lists and tables are nested too deeply")
        raise PlanError((problem,)) from error


def _content(path: Path) -> bytes:
    """What the file holds; it is not opened when reading it might never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MiB")
    return content


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        says = f"the byte 0x{content[error.start]:02x} is no UTF-8; save the plan as UTF-8"
        raise PlanError((Problem(f"line {line}, column {column}", says),)) from error


def _parsed(written: str) -> dict[str, Any]:
    try:
        return tomllib.loads(written)
    except ValueError as error:  # a TOMLDecodeError, or a number of too many digits
        message = str(error)
        at = _AT.search(message)
        place = ""
        if at and at[1]:
            place = f"line {at[1]}, column {at[2]}"
        elif at:
            lines = written.split("\n")
            place = f"line {len(lines)}, column {len(lines[-1]) + 1}"
        says = f"this is no TOML: {_AT.sub('', message)}"
        raise PlanError((Problem(place, says),)) from error


def _read(
    document: dict[str, Any], written: str, directory: Path, environment: Mapping[str, str]
) -> PlanFile:
    problems: list[Problem] = []
    top = read_section("", document, "", problems)
    workspace = directory / top.get("workspace", ".")
    if workspace.exists() and not workspace.is_dir():
        problems.append(Problem("workspace", f"{str(workspace)!r} is not a directory"))
    where = Place(directory=directory, workspace=workspace, environment=environment)
    policy = _policy(top.get("policy", {}), problems)
    tools, known = read_tools(top.get("tools", {}), where, problems)
    steps = read_steps(top.get("steps", ()), known, environment, problems)
    plan = Plan(goal=top.get("goal", ""), steps=steps, policy=policy)
    if "steps" in top:
        problems.extend(_problems_of_graph(plan))
    if problems:
        raise PlanError(_in_order(problems, written))
    journal = directory / os.path.expanduser(top["journal"]) if "journal" in top else None
    return PlanFile(plan=plan, tools=tools, workspace=workspace, journal=journal, text=written)


def _policy(table: Mapping[str, Any], problems: list[Problem]) -> Policy:
    good = read_section("policy", table, "policy", problems)
    values = {field_of("policy", name): value for name, value in good.items()}
    budget = read_section("policy.budget", good.get("budget", {}), "policy.budget", problems)
    values["budget"] = Budget(
        **{field_of("policy.budget", name): value for name, value in budget.items()}
    )
    if "when_exhausted" in good:
        values["when_exhausted"] = WhenExhausted(good["when_exhausted"])
    values["ladder"] = {**DEFAULT_LADDER, **_ladder(good.get("ladder", {}), problems)}
    return Policy(**values)


def _ladder(table: Mapping[str, Any], problems: list[Problem]) -> dict[str, tuple[str, ...]]:
    ladder: dict[str, tuple[str, ...]] = {}
    is_list_of_texts = list_of(text, "names of strategies")
    for failure_class, rungs in table.items():
        place = join("policy.ladder", failure_class)
        if failure_class not in FAILURE_CLASSES:
            valid = nearest(failure_class, FAILURE_CLASSES)
            says = f"unknown class of failure {shortened(failure_class)}; {valid}"
            problems.append(Problem(place, says))
        found = list(is_list_of_texts(rungs, place))
        if not found:
            found = [
                Problem(f"{place}[{index}]", says)
                for index, rung in enumerate(rungs)
                if (says := _wrong_with_rung(rung))
            ]
        problems.extend(found)
        if not found and failure_class in FAILURE_CLASSES:
            ladder[failure_class] = tuple(rungs)
    return ladder


def _wrong_with_rung(rung: str) -> str:
    if rung in STRATEGIES:
        return ""
    if rung in LAST_RUNGS:
        return f"{rung} is no rung: when_exhausted says what comes after the last one"
    if rung in STRATEGIES_NOT_YET:
        return f"the strategy {rung} is not available yet"
    return f"unknown strategy {shortened(rung)}; {nearest(rung, STRATEGIES)}"


def _problems_of_graph(plan: Plan) -> tuple[Problem, ...]:
    try:
        Dag.of(plan)
    except PlanError as error:
        return error.problems
    return ()


def _in_order(problems: list[Problem], written: str) -> tuple[Problem, ...]:
    """In the order of the file, each with its line."""
    lines = lines_of(written)
    placed = [(line_of(problem.place, lines), problem) for problem in problems]
    placed.sort(key=lambda each: each[0] or 0)
    return tuple(
        Problem(f"{problem.place} (line {line})", problem.message) if line else problem
        for line, problem in placed
    )
