"""One table of a plan file against its keys: what is valid comes back, the rest is a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.errors import Problem
from loopfsm.planfile.checks import nearest, shortened
from loopfsm.planfile.keys import KEYS, NOT_YET, REQUIRED
from loopfsm.planfile.places import join

_SECTION_NAMES: Mapping[str, str] = {
    "": "the top of the file",
    "policy": "[policy]",
    "policy.budget": "[policy.budget]",
    "tools.NAME": "[tools.NAME]",
    "tools.NAME.situations": "[[tools.NAME.situations]]",
    "steps": "[[steps]]",
    "verify": "verify",
}

_ARGS_OF_PROGRAMS = {
    key.name for section, keys in KEYS.items() if section.startswith("args of") for key in keys
}

_MEANT: Mapping[str, str] = {"cmd": "command"}
"""What people write for a key, where another key is spelt more like it."""


def read_section(
    section: str, values: Mapping[str, Any], place: str, problems: list[Problem]
) -> dict[str, Any]:
    """The valid values of a table, absent keys left out; every other thing is a problem."""
    keys = {key.name: key for key in KEYS[section]}
    good: dict[str, Any] = {}
    for name, value in values.items():
        where = join(place, name)
        key = keys.get(name)
        if key is None:
            problems.append(Problem(where, _unknown(section, name)))
            continue
        found = list(key.check(value, where))
        problems.extend(found)
        if not found:
            good[name] = value
    problems.extend(
        Problem(join(place, key.name), "is missing, and has no default")
        for key in keys.values()
        if key.default is REQUIRED and key.name not in values
    )
    return good


def field_of(section: str, name: str) -> str:
    """The field of a noun that a key goes to."""
    goes = next(key.goes for key in KEYS[section] if key.name == name)
    return goes.partition(".")[2]


def _unknown(section: str, name: str) -> str:
    if name in NOT_YET.get(section, ()):
        return "is not available yet"
    meant = _MEANT.get(name, name)
    asks = "" if meant == name else f"did you mean {meant!r}? "
    sentence = f"unknown key {shortened(name)}; {asks}"
    here = [key.name for key in KEYS[section]]
    if meant in here:
        return sentence.rstrip()
    elsewhere = [
        called
        for other, called in _SECTION_NAMES.items()
        if other != section and any(key.name == meant for key in KEYS[other])
    ]
    if section == "steps" and meant in _ARGS_OF_PROGRAMS:
        elsewhere.insert(0, "this step's args")
    if elsewhere and not section.startswith("args of"):
        return f"{sentence}it belongs in {' or '.join(elsewhere)}"
    return f"unknown key {shortened(name)}; {nearest(meant, here)}"
