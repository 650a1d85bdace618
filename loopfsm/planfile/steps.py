"""`[[steps]]`: from tables to `StepSpec`s, as far as they are valid.

A step with a mistake in it still becomes a step, without the part that is wrong, so that
the mistakes of the graph are found in the same pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from loopfsm.errors import Problem
from loopfsm.model.step import Call, StepSpec
from loopfsm.planfile.checks import nearest, shortened
from loopfsm.planfile.keys import STEP_ID, TOOLS_NOT_YET
from loopfsm.planfile.places import join
from loopfsm.planfile.references import Scope, program_value, resolved
from loopfsm.planfile.sections import field_of, read_section


@frozen
class Known:
    """What the plan says of a tool, as far as its steps depend on it."""

    read_only: bool
    args_section: str | None = None
    """The section of `KEYS` that says which args it takes; None: whatever its function takes."""
    interactive: bool = False


def ids_of(tables: Iterable[Any]) -> tuple[str, ...]:
    """The valid ids of the steps, in order."""
    return tuple(
        step["id"]
        for step in tables
        if isinstance(step, Mapping) and "id" in step and not list(STEP_ID(step["id"], ""))
    )


def read_steps(
    tables: Sequence[Mapping[str, Any]],
    tools: Mapping[str, Known | None],
    environment: Mapping[str, str],
    problems: list[Problem],
) -> tuple[StepSpec, ...]:
    """One `StepSpec` per table, in order. A tool that is None is declared, but wrongly."""
    scope = Scope(step_ids=ids_of(tables), environment=environment)
    reader = _Reader(tools, scope, problems)
    return tuple(reader.step(table, f"steps[{index}]") for index, table in enumerate(tables))


def read_probe(
    table: Mapping[str, Any],
    place: str,
    tools: Mapping[str, Known | None],
    environment: Mapping[str, str],
    problems: list[Problem],
) -> None:
    """What is wrong with the call of a probe, apart from its keys."""
    scope = Scope(step_ids=(), environment=environment, of_a_step=False, of_a_probe=True)
    _Reader(tools, scope, problems).probe(table, place)


@frozen
class _Reader:
    tools: Mapping[str, Known | None]
    scope: Scope
    problems: list[Problem]

    def step(self, table: Mapping[str, Any], place: str) -> StepSpec:
        good = read_section("steps", table, place, self.problems)
        step_id = good.get("id", place)
        self._tool(good.get("tool"), join(place, "tool"))
        fields = {field_of("steps", name): value for name, value in good.items()}
        fields |= {
            "id": step_id,
            "tool": good.get("tool", ""),
            "args": self._args(good.get("tool"), good.get("args", {}), join(place, "args")),
            "verify": self._verify(good.get("verify"), join(place, "verify")),
        }
        return StepSpec(**fields)

    def _verify(self, table: Mapping[str, Any] | None, place: str) -> Call | None:
        if table is None:
            return None
        good = read_section("verify", table, place, self.problems)
        if "tool" not in good:
            return None
        tool = self._tool(good["tool"], join(place, "tool"))
        if tool is not None and not tool.read_only:
            says = (
                f"the tool {shortened(good['tool'])} is not read_only, and a verification "
                "only looks; name a tool that is declared with read_only = true"
            )
            self.problems.append(Problem(join(place, "tool"), says))
        return Call(
            good["tool"], self._args(good["tool"], good.get("args", {}), join(place, "args"))
        )

    def probe(self, table: Mapping[str, Any], place: str) -> None:
        name, args = table.get("tool"), table.get("args", {})
        where = join(place, "tool")
        if not isinstance(name, str) or not name.strip():
            return
        tool = self._tool(name, where)
        if tool is not None and not tool.read_only:
            says = (
                f"the tool {shortened(name)} is not read_only, and a probe only looks; "
                "name a tool that is declared with read_only = true"
            )
            self.problems.append(Problem(where, says))
        elif tool is not None and tool.interactive:
            says = f"the tool {shortened(name)} is interactive, and nobody is there for a probe"
            self.problems.append(Problem(where, says))
        if isinstance(args, dict):
            self._args(name, args, join(place, "args"))

    def _tool(self, name: str | None, place: str) -> Known | None:
        if name is None:
            return None
        if name in TOOLS_NOT_YET:
            self.problems.append(Problem(place, f"the tool {name!r} is not available yet"))
        elif name not in self.tools:
            says = f"unknown tool {shortened(name)}; {nearest(name, self.tools)}"
            self.problems.append(Problem(place, says))
        return self.tools.get(name)

    def _args(self, tool: str | None, args: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        known = self.tools.get(tool or "")
        if known is not None and known.args_section is not None:
            return self._program_args(known.args_section, args, place)
        return {
            name: resolved(value, join(place, name), self.scope, self.problems)
            for name, value in args.items()
        }

    def _program_args(self, section: str, args: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        good = read_section(section, args, place, self.problems)
        if section == "args of shell" and len({"argv", "command"} & set(args)) != 1:
            self.problems.append(Problem(place, "expected either argv or command, and only one"))
        return {
            name: program_value(value, join(place, name), self.scope, self.problems)
            for name, value in good.items()
        }
