"""The door: what a plan needs of its tools, refused before anything starts."""

from __future__ import annotations

import attrs

from loopfsm.errors import PlanError, Problem, ToolError
from loopfsm.model.plan import Plan
from loopfsm.recovery.registry import RecoveryRegistry
from loopfsm.tools.registry import ToolRegistry


def with_facts_of_tools(plan: Plan, tools: ToolRegistry) -> Plan:
    """The plan with what its tools say about themselves, where the steps say nothing.

    Raises:
        PlanError: a step names an unknown tool, or verifies with one that changes things.
    """
    problems: list[Problem] = []
    steps = []
    for index, spec in enumerate(plan.steps):
        place = f"steps[{index}]"
        idempotent = spec.idempotent
        try:
            if idempotent is None:
                idempotent = tools.get(spec.tool).idempotent
        except ToolError as error:
            problems.append(Problem(f"{place}.tool", str(error)))
        if spec.verify is not None:
            problem = _problem_of_verifier(spec.verify.tool, tools)
            if problem:
                problems.append(Problem(f"{place}.verify.tool", problem))
        steps.append(attrs.evolve(spec, idempotent=bool(idempotent)))
    if problems:
        raise PlanError(tuple(problems))
    return attrs.evolve(plan, steps=steps)


def refuse_unknown_strategies(plan: Plan, recovery: RecoveryRegistry) -> None:
    """A ladder names strategies that are registered.

    Raises:
        PlanError: it names another one.
    """
    problems = [
        Problem(f"policy.ladder.{kind}[{index}]", _unknown(strategy, recovery))
        for kind, rungs in plan.policy.ladder.items()
        for index, strategy in enumerate(rungs)
        if recovery.get(strategy) is None
    ]
    if problems:
        raise PlanError(tuple(problems))


def _unknown(strategy: str, recovery: RecoveryRegistry) -> str:
    known = ", ".join(recovery.strategies)
    return f"no strategy {str(strategy)!r} is registered; registered: {known}"


def _problem_of_verifier(name: str, tools: ToolRegistry) -> str:
    try:
        tool = tools.get(name)
    except ToolError as error:
        return str(error)
    return "" if tool.read_only else f"tool {name!r} is not read_only, so it cannot verify"
