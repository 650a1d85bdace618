"""References: a one-key table `{ from = "STEP.PATH" }` or `{ env = "NAME" }` is another value.

They are whole values. `from` is the output of a step or a part of it, `env` a variable of
the environment; its value is looked up when the step runs and never kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from attrs import field, frozen

from loopfsm.errors import Problem
from loopfsm.model.step import EnvironmentValue, Output
from loopfsm.planfile.checks import nearest, shortened, wrong
from loopfsm.planfile.places import join

_ENVIRONMENT_NAME = re.compile(r"[^=\0]+")
_NOT_IN_A_PROBE = "a probe is kept for later runs and takes no references; write the value"


@frozen(kw_only=True)
class Scope:
    """What a reference may name here."""

    step_ids: Collection[str]
    environment: Mapping[str, str] = field(repr=False)
    of_a_step: bool = True
    """False in a tool's declaration: it serves every step, so no step's output is near."""
    of_a_probe: bool = False
    """A probe is kept and shown, and repeated in another run: it refers to nothing."""


def resolved(value: object, place: str, scope: Scope, problems: list[Problem]) -> Any:
    """`value` with its references as nouns; a reference that cannot be becomes None."""
    if isinstance(value, Mapping):
        if set(value) == {"from"}:
            return _output(value["from"], join(place, "from"), scope, problems)
        if set(value) == {"env"} and not isinstance(value["env"], Mapping):
            return _environment_value(value["env"], join(place, "env"), scope, problems)
        return {
            key: resolved(item, join(place, key), scope, problems) for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            resolved(item, f"{place}[{index}]", scope, problems) for index, item in enumerate(value)
        ]
    return value


def program_value(value: object, place: str, scope: Scope, problems: list[Problem]) -> Any:
    """The value of argv, env, cwd or stdin: texts, and references instead of texts."""
    if isinstance(value, list):
        return [
            _text_or_reference(item, f"{place}[{index}]", scope, problems)
            for index, item in enumerate(value)
        ]
    if isinstance(value, Mapping) and place.endswith(".env"):
        return {
            key: _text_or_reference(item, join(place, key), scope, problems)
            for key, item in value.items()
        }
    return _text_or_reference(value, place, scope, problems)


def _text_or_reference(value: object, place: str, scope: Scope, problems: list[Problem]) -> Any:
    if isinstance(value, Mapping) and set(value) not in ({"from"}, {"env"}):
        expected = 'a text, { from = "STEP.PATH" } or { env = "NAME" }'
        problems.append(wrong(place, value, expected))
        return None
    return resolved(value, place, scope, problems)


def _output(target: object, place: str, scope: Scope, problems: list[Problem]) -> Output | None:
    if scope.of_a_probe:
        problems.append(Problem(place, _NOT_IN_A_PROBE))
        return None
    if not scope.of_a_step:
        problem = "a tool serves every step and takes no output; give it in the args of a step"
        problems.append(Problem(place, problem))
        return None
    if not isinstance(target, str):
        problems.append(wrong(place, target, 'a text of the form "STEP" or "STEP.PATH"'))
        return None
    step_id, *path = target.split(".")
    if not step_id or not all(path):
        expected = 'a text of the form "STEP" or "STEP.PATH", without empty parts'
        problems.append(wrong(place, target, expected))
        return None
    if step_id not in scope.step_ids:
        says = f"unknown step {shortened(step_id)}; {nearest(step_id, scope.step_ids)}"
        problems.append(Problem(place, says))
        return None
    return Output(step_id, tuple(path))


def _environment_value(
    name: object, place: str, scope: Scope, problems: list[Problem]
) -> EnvironmentValue | None:
    if scope.of_a_probe:
        problems.append(Problem(place, _NOT_IN_A_PROBE))
        return None
    if not isinstance(name, str) or not _ENVIRONMENT_NAME.fullmatch(name):
        problems.append(wrong(place, name, "the name of an environment variable"))
        return None
    if name not in scope.environment:
        problems.append(Problem(place, f"the environment has no variable {shortened(name)}"))
        return None
    return EnvironmentValue(name)
