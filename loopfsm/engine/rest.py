"""Where the loop comes to rest: the first row of its machine that holds, until none does.

The facts say what the call did and what stands after it; the table in `lifecycles/loop.py`
says what follows. What was only passed inside the call stands in the trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from loopfsm.engine.turn import Turn
from loopfsm.errors import CoreBroken
from loopfsm.model.failure import RUN, Failure, FailureKind
from loopfsm.model.loop_state import ENDED, LoopState
from loopfsm.unit import Draft

LEADS_ON = (LoopState.ITERATION_COMPLETE, LoopState.REPLANNING)
"""Where a recovery leads after which the loop goes on."""


def come_to_rest(turn: Turn) -> None:
    """Fire the path from where the loop stood to where it rests, as one unit."""
    run = turn.state.run.state
    never_driven = run is LoopState.INITIALIZED and turn.state.driven_at is None
    if run in ENDED or (never_driven and turn.end is None):
        return
    facts = _facts(turn)
    if turn.end is not None or turn.machines.loop.next_row(turn.state.run, facts):
        turn.unit("rest", partial(_walk, turn, facts))


def _facts(turn: Turn) -> dict[str, Any]:
    end, why = turn.end or (None, "")
    planned, asking = len(turn.state.planned) > 0, turn.state.is_asking
    return {
        "applied": bool(turn.applied),
        # A question that was withdrawn in the same call leaves nothing to wait for, too.
        "leads_on": any(s in LEADS_ON for s in turn.applied) or not (planned or asking),
        "replanned": LoopState.REPLANNING in turn.applied,
        "planned": planned,
        "asking": asking,
        "asking_for_budget": list(turn.state.asked) == [RUN],
        "unfinished": turn.state.unfinished,
        "end": end,
        "why": why,
    }


def _walk(turn: Turn, facts: dict[str, Any], draft: Draft) -> None:
    if turn.end is not None:
        draft.end(*turn.end)
    machine = turn.machines.loop
    for _ in range(2 * len(machine.rows)):
        row = machine.next_row(draft.run, facts)
        if row is None:
            return
        draft.fire(draft.run, row.trigger, **facts)
        if row.trigger == "recover":
            facts["applied"] = False  # it is on record now
        elif row.trigger == "apply":
            facts["applied"] = facts["leads_on"] = False
    raise CoreBroken("the loop does not come to rest")


def force_failure(turn: Turn, why: str, evidence: Mapping[str, Any]) -> None:
    """End the run although its steps could not be settled: the last resort."""

    def fail(draft: Draft) -> None:
        draft.end(LoopState.FAILED, why)
        draft.fire(draft.run, "fail", end=LoopState.FAILED, why=why)

    def fail_with_evidence(draft: Draft) -> None:
        fail(draft)
        broken = Failure(
            number=draft.count_failures() + 1,
            subject=RUN,
            kind=FailureKind.BROKEN,
            message=why,
            occurred_at=draft.now,
            evidence=evidence,
        )
        draft.create(broken)
        draft.fire(broken, "close", why=why)

    try:
        turn.unit("broken", fail_with_evidence)
    except Exception:  # not even that could be recorded: the reason alone has to do
        turn.unit("broken", fail)
