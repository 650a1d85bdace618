"""`[[tools.NAME.situations]]`: from tables to what a tool declares.

A probe may call a tool that is declared further down, so the probes are looked at when all
tools are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopfsm.errors import Problem
from loopfsm.model.situation import Probe, SituationKind
from loopfsm.planfile.checks import shortened
from loopfsm.planfile.places import join
from loopfsm.planfile.sections import field_of, read_section
from loopfsm.planfile.steps import Known, read_probe
from loopfsm.situations.declared import Declared, When

SECTION = "tools.NAME.situations"


def read_situations(
    tables: Sequence[Mapping[str, Any]], place: str, problems: list[Problem]
) -> tuple[Declared, ...]:
    """One `Declared` per valid table, in order; what is wrong is a problem."""
    found = (_declared(table, f"{place}[{index}]", problems) for index, table in enumerate(tables))
    return tuple(each for each in found if each is not None)


def _declared(table: Mapping[str, Any], place: str, problems: list[Problem]) -> Declared | None:
    before = len(problems)
    good = read_section(SECTION, table, place, problems)
    fields = {field_of(SECTION, name): value for name, value in good.items()}
    if "when" in good:
        fields["when"] = _when(good["when"], join(place, "when"), problems)
    if "probe" in good:
        where = join(place, "probe")
        probe = read_section(f"{SECTION}.probe", good["probe"], where, problems)
        fields["probe"] = Probe(tool=probe.get("tool", ""), args=probe.get("args", {}))
    if len(problems) > before:
        return None
    return Declared(**{**fields, "kind": SituationKind(good["kind"])})


def _when(table: Mapping[str, Any], place: str, problems: list[Problem]) -> When | None:
    before = len(problems)
    good = read_section(f"{SECTION}.when", table, place, problems)
    if len(table) != 1:
        found = " and ".join(map(shortened, table)) or "nothing"
        says = f"found {found}, expected one of exit, stderr, http, and only one"
        problems.append(Problem(place, says))
    return When(**good) if len(problems) == before else None


def check_probes(
    tables: Mapping[str, Mapping[str, Any]],
    tools: Mapping[str, Known | None],
    environment: Mapping[str, str],
    problems: list[Problem],
) -> None:
    """What is wrong with the probes of all tools, now that each of them is known."""
    for name, table in tables.items():
        situations = table.get("situations")
        if not isinstance(situations, list):
            continue
        for index, each in enumerate(situations):
            if isinstance(each, dict) and isinstance(each.get("probe"), dict):
                place = f"{join('tools', name)}.situations[{index}].probe"
                read_probe(each["probe"], place, tools, environment, problems)
