"""Taking a run up again: is everything there that it was begun with, and unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from loopfsm import codec
from loopfsm.engine.admission import refuse_unknown_strategies
from loopfsm.engine.state import state_from
from loopfsm.engine.values import describe
from loopfsm.errors import PlanError, Problem, RunChanged, ToolError
from loopfsm.lifecycle import Row
from loopfsm.machines import Machines
from loopfsm.model.loop_state import RunState
from loopfsm.model.record import Record
from loopfsm.model.step import Unreadable
from loopfsm.ports import Journal
from loopfsm.recovery.registry import RecoveryRegistry
from loopfsm.tools.registry import ToolRegistry


def fingerprint(row: Row) -> str:
    """What makes a row the row that it is: its states, its trigger, and the names in it.

    The bodies of its functions are not part of it: they may be put right without stopping
    every run under way, and the row keeps its name as long as it means the same.
    """
    parts = (
        row.trigger,
        [state.name for state in row.source],
        row.target.name,
        [guard.__name__ for guard in row.guards],
        row.update.__name__ if row.update else None,
        [ensure.__name__ for ensure in row.ensures],
        [ensure.__name__ for ensure in row.ensures_run],
        row.spends,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def fingerprints(machines: Machines) -> Mapping[str, str]:
    """The fingerprint of every row that a run may use."""
    return {
        row.id: fingerprint(row) for machine in machines.by_name().values() for row in machine.rows
    }


def taken_up(
    journal: Journal,
    run_id: str,
    machines: Machines,
    tools: ToolRegistry,
    recovery: RecoveryRegistry,
) -> tuple[RunState, int]:
    """The state of a run as its journal has it, and the epoch of that state.

    Raises:
        UnknownRun: the journal has no such run.
        RunChanged: a row that it used, a tool or a strategy that it needs has changed or gone.
    """

    def restore(tool: str, data: Any) -> Any:
        try:
            return codec.structured(data, returned_by(tools, tool))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            return Unreadable(f"it does not fit what {tool!r} returns: {describe(error)}")

    record = journal.load(run_id, restore)
    state = state_from(record)
    problems = [
        *_changed_rows(record, fingerprints(machines)),
        *_missing(record, state, tools, recovery),
    ]
    if problems:
        told = "; ".join(map(str, problems))
        problem = f"the run {run_id} cannot be resumed here: {told}"
        instead = "Resume it with the version and the tools it was begun with; nothing was changed"
        raise RunChanged(problem, instead, run_id, tuple(problems))
    return state, record.epoch


def returned_by(tools: ToolRegistry, name: str) -> Any:
    """The type that a tool says it returns; `Any` when it says nothing, or is unknown."""
    return getattr(tools.get(name), "returns", Any) if name in tools else Any


def _changed_rows(record: Record, known: Mapping[str, str]) -> list[Problem]:
    problems = []
    for row, was in record.rows.items():
        if row not in known:
            problems.append(Problem(f"row {row}", "the run has used it, and it is gone"))
        elif known[row] != was:
            problems.append(Problem(f"row {row}", "it has changed since the run used it"))
    return problems


def _missing(
    record: Record, state: RunState, tools: ToolRegistry, recovery: RecoveryRegistry
) -> list[Problem]:
    """What the unfinished steps need and is not here."""
    problems: list[Problem] = []
    if state.ending is not None:
        return problems
    for name, position in record.tools.items():
        try:
            tools.get(name)
        except ToolError as error:
            problems.append(Problem(f"steps[{position}]", str(error)))
    try:
        refuse_unknown_strategies(state.plan, recovery)
    except PlanError as error:
        problems.extend(error.problems)
    return problems
