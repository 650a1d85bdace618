"""Carrying out a command: call a tool, ask a judge, prepare a recovery; what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from loopfsm.engine import attempt, judging
from loopfsm.engine.attempt import Equipment
from loopfsm.engine.inputs import (
    CallTool,
    Command,
    Evaluate,
    Input,
    Prepare,
    Prepared,
    Verify,
)
from loopfsm.engine.settle import describe_error
from loopfsm.engine.turn import case_of
from loopfsm.errors import CoreBroken
from loopfsm.model.loop_state import RunState
from loopfsm.recovery.registry import RecoveryRegistry


def performed(
    equipment: Equipment, registry: RecoveryRegistry, state: RunState, command: Command
) -> Awaitable[Input | None]:
    """The input that comes of a command; None: it has been fed already."""
    if isinstance(command, CallTool):
        return judging.call_and_judge(equipment, state, command)
    if isinstance(command, Evaluate):
        return judging.evaluate(equipment, state, command)
    if isinstance(command, Verify):
        return judging.verify(equipment, state, command)
    if isinstance(command, Prepare):
        return prepared(equipment, registry, state, command)
    raise CoreBroken(f"nobody performs {command!r}")


async def prepared(
    equipment: Equipment, registry: RecoveryRegistry, state: RunState, command: Prepare
) -> Prepared:
    """What the preparation of a planned recovery brings; whatever it raises is its failure."""
    failure = state.failure(command.failure_id)
    handler = registry.get(failure.strategy or "")
    assert handler is not None  # the command names a registered strategy
    case = case_of(failure, state, state, equipment.clock.now())
    try:
        value = await handler.prepare(case)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and attempt.is_being_cancelled():
            raise
        why, evidence = describe_error(error)
        return Prepared(failure.id, command.plan, error=why, evidence=evidence)
    return Prepared(failure.id, command.plan, value)
