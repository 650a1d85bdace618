"""One attempt at a step: resolve its args, call its tool in time, read what came back.

Everything that can go wrong with a tool ends here as a `Result`; nothing is raised.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, frozen

from loopfsm.engine.inputs import CallTool, Input, Result
from loopfsm.engine.values import describe, failure_of, reported_failure, resolve, shorten
from loopfsm.errors import ToolError, ToolFailed
from loopfsm.model.compiled import maker_of
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import Step
from loopfsm.ports import Clock, Evaluator, Timer, ToolContext, Verifier
from loopfsm.tools.registry import ToolRegistry

log = logging.getLogger("loopfsm")

_result = maker_of(Result)
_context = maker_of(ToolContext)

GIVE_UP_S = 5.0
"""Seconds a cancelled tool has to return before its attempt is given up without it."""


@frozen(kw_only=True)
class Equipment:
    """What attempts are made with."""

    tools: ToolRegistry
    clock: Clock
    environment: Mapping[str, str]
    evaluator: Evaluator | None
    verifier: Verifier | None
    feed: Callable[[Input], None]
    """Takes an input that came by itself, such as a late result."""
    abandon: Callable[[asyncio.Task[Any]], None]
    """Told of a task whose tool ignores its cancellation: nobody waits for it any more."""
    output_dir: Path | None
    """Where tools keep long outputs."""
    keepable: Callable[[Any, Any], Any]
    """`keepable(output, annotation)`: what a later process would read of an output."""


@define
class Spending:
    """What an attempt spent and nobody charged yet."""

    tokens: int = 0
    cost: float = 0.0

    def spend(self, tokens: int = 0, cost: float = 0.0) -> None:
        """Charge the run's budgets; whole tokens, and a cost that can be added up."""
        if not (tokens >= 0 and cost >= 0 and math.isfinite(tokens) and math.isfinite(cost)):
            raise ValueError(f"expected numbers of at least 0: tokens={tokens!r}, cost={cost!r}")
        self.tokens += int(tokens)
        self.cost += cost

    def take(self) -> tuple[int, float]:
        """Hand over what is to be charged now; each amount is handed over once."""
        taken = (self.tokens, self.cost)
        self.tokens, self.cost = 0, 0.0
        return taken


@define
class _Attempt:
    """An attempt under way: who is told what became of it, and whether they were told."""

    equipment: Equipment
    step: Step
    command: CallTool
    spending: Spending
    limit: float | None = None
    gone: bool = False
    """It was given up: that its time is over has been fed already."""

    def ended(self, **fields: Any) -> Result:
        """The result of this attempt, with what it spent since it was last asked."""
        tokens, cost = self.spending.take()
        step_id, attempt = self.step.id, self.command.attempt
        return _result(step_id=step_id, attempt=attempt, tokens=tokens, cost=cost, **fields)

    def out_of_time(self) -> Result:
        """Nobody knows what became of it."""
        return self.ended(failure=FailureKind.TIMED_OUT, message=too_long(self.limit))

    def give_up(self) -> None:
        """Go on without it."""
        if not self.gone:
            self.gone = True
            self.equipment.feed(self.out_of_time())

    def too_late(self, value: Any, error: BaseException | None) -> None:
        """It ended after its time: that is said first, then what came of it."""
        self.give_up()
        self.late(value, error)

    def late(self, value: Any, error: BaseException | None) -> None:
        """Put on record what became of it at last."""
        said = f"returned {shorten(value)}" if error is None else f"raised {describe(error)}"
        self.equipment.feed(self.ended(output=value, message=f"late: {said}"))


async def call_tool(equipment: Equipment, state: RunState, command: CallTool) -> Result | None:
    """Make one attempt. The result says what became of it, whatever that was.

    Its output is not judged yet. None: the attempt was given up, which has been fed already.
    """
    step = state.step(command.step_id)
    attempt = _Attempt(equipment, step, command, Spending())
    try:
        tool = equipment.tools.get(step.spec.tool)
        args = resolve(step.spec.args, state, equipment.environment)
    except (ToolFailed, ToolError, RecursionError) as error:
        return attempt.ended(failure=FailureKind.NOT_EXECUTED, message=describe_refusal(error))
    attempt.limit = tool.timeout_s if step.spec.timeout_s is None else step.spec.timeout_s
    context = context_for(equipment, state, step, attempt.limit, attempt.spending, attempt.late)
    try:
        output = await in_time(
            equipment,
            attempt.limit,
            lambda: tool.call(args, context),
            attempt.give_up,
            attempt.too_late,
        )
    except TimeoutError as error:
        if error.args != (TIMED_OUT,):
            return attempt.ended(**failure_of(error))
        return None if attempt.gone else attempt.out_of_time()
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        return attempt.ended(**failure_of(error))  # something else that the tool awaited was
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a tool may raise what is no Exception
        return attempt.ended(**failure_of(error))
    try:
        reported = reported_failure(output)
    except Exception as error:  # looking into what it returned runs code of its author's
        says = f"its result cannot be read: {describe(error)}"
        return attempt.ended(failure=FailureKind.REJECTED, message=says)
    if reported:
        return attempt.ended(output=output, evidence={"result": output}, **reported)
    return attempt.ended(output=output)


def describe_refusal(error: Exception) -> str:
    """Why a call was never made."""
    return str(error) if isinstance(error, (ToolFailed, ToolError)) else describe(error)


def is_being_cancelled() -> bool:
    """Whether the current task was asked to stop (and not something it awaits)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def context_for(
    equipment: Equipment,
    state: RunState,
    step: Step,
    limit: float | None,
    spending: Spending,
    late: Callable[[Any, BaseException | None], None],
) -> ToolContext:
    """What the tool may know about the attempt."""
    facts = {"run_id": state.run.id, "step_id": step.id, "attempt": step.attempt}
    return _context(
        run_id=state.run.id,
        step_id=step.id,
        attempt=step.attempt,
        idempotency_key=f"{state.run.id}/{step.lineage}/{step.generation}",
        deadline=None if limit is None else equipment.clock.now() + limit,
        log=logging.LoggerAdapter(log, facts),
        spend=spending.spend,
        output_cap_bytes=state.plan.policy.output_cap_bytes,
        output_dir=equipment.output_dir,
        late=late,
    )


TIMED_OUT = "the time of the attempt is over"


async def in_time(
    equipment: Equipment,
    limit: float | None,
    call: Callable[[], Awaitable[Any]],
    given_up: Callable[[], None],
    late: Callable[[Any, BaseException | None], None],
) -> Any:
    """Await `call()`; after `limit` seconds cancel it and raise TimeoutError.

    Whatever it returns or raises once its time is over is `late`: its outcome is unknown. One
    that ignores its cancellation is given up `GIVE_UP_S` later: `given_up` is called.
    """
    if limit is None:
        return await call()
    task = asyncio.current_task()
    assert task is not None  # a coroutine of ours always runs in a task
    timers: list[Timer] = []

    def time_is_over() -> None:
        task.cancel()
        timers.append(equipment.clock.call_later(GIVE_UP_S, give_up))

    def give_up() -> None:
        equipment.abandon(task)
        given_up()

    timers.append(equipment.clock.call_later(limit, time_is_over))
    try:
        value = await call()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if len(timers) == 1 or task.uncancel() > 0:
            raise
        if not isinstance(error, asyncio.CancelledError):
            late(None, error)
        raise TimeoutError(TIMED_OUT) from None
    else:
        if len(timers) == 1:
            return value
        task.uncancel()
        late(value, None)
        raise TimeoutError(TIMED_OUT)
    finally:
        for timer in timers:
            timer.cancel()


def too_long(limit: float | None) -> str:
    """What is said of a call whose time is over."""
    return f"no result within {limit:g} s" if limit is not None else "no result"
