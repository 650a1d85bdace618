"""One attempt at a step: resolve its args, call its tool in time, judge what came back.

Everything that can go wrong with a tool ends here as a `Result`; nothing is raised.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from attrs import field, frozen

from loopfsm.engine.inputs import CallTool, Evaluate, Input, Judged, Result, Verify
from loopfsm.errors import ToolError, ToolFailed
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import EnvironmentValue, Output, Step, Verdict
from loopfsm.ports import Clock, Evaluator, Judgement, Timer, ToolContext, Verifier
from loopfsm.tools.registry import ToolRegistry

log = logging.getLogger("loopfsm")

NOT_CHECKED = Judgement(Verdict.NOT_CHECKED)
PASSED = Judgement(Verdict.PASSED)

FAILED_STATUSES = ("error", "failed", "denied")
"""Values of `status` with which a returned mapping reports that the tool failed."""

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


@frozen
class Spending:
    """What an attempt spent so far."""

    amounts: dict[str, float] = field(factory=lambda: {"tokens": 0, "cost": 0.0})

    def spend(self, tokens: int = 0, cost: float = 0.0) -> None:
        """Charge the run's budgets."""
        if tokens < 0 or cost < 0:
            raise ValueError(f"cannot spend less than nothing: tokens={tokens}, cost={cost}")
        self.amounts["tokens"] += tokens
        self.amounts["cost"] += cost


async def call_tool(equipment: Equipment, state: RunState, command: CallTool) -> Result | None:
    """Make one attempt. The result says what became of it, whatever that was.

    None: the attempt was given up, which has been fed already.
    """
    step = state.step(command.step_id)
    spending = Spending()
    gone = False

    def ended(**fields: Any) -> Result:
        used = spending.amounts
        return Result(
            step_id=step.id,
            attempt=command.attempt,
            tokens=int(used["tokens"]),
            cost=used["cost"],
            **fields,
        )

    def late(value: Any, error: BaseException | None) -> None:
        said = f"returned {shorten(value)}" if error is None else f"raised {describe(error)}"
        equipment.feed(ended(output=value, message=f"late: {said}"))

    try:
        tool = equipment.tools.get(step.spec.tool)
        args = resolve(step.spec.args, state, equipment.environment)
    except (ToolFailed, ToolError) as error:
        return ended(failure=FailureKind.NOT_EXECUTED, message=str(error))
    limit = step.spec.timeout_s if step.spec.timeout_s is not None else tool.timeout_s
    context = context_for(equipment, state, step, limit, spending, late)
    no_result = {"failure": FailureKind.TIMED_OUT, "message": _too_long(limit)}

    def give_up() -> None:
        nonlocal gone
        gone = True
        equipment.feed(ended(**no_result))

    def too_late(value: Any, error: BaseException | None) -> None:
        if not gone:
            give_up()
        late(value, error)

    try:
        output = await in_time(
            equipment, limit, lambda: tool.call(args, context), give_up, too_late
        )
    except TimeoutError as error:
        if error.args != (TIMED_OUT,):
            return ended(**failure_of(error))
        return None if gone else ended(**no_result)
    except Exception as error:
        return ended(**failure_of(error))
    reported = reported_failure(output)
    if reported:
        return ended(output=output, evidence={"result": output}, **reported)
    evaluation = judged_now(equipment.evaluator, step, output)
    verification = None
    if evaluation is not None and step.spec.verify is None:
        verification = judged_now(equipment.verifier, step, output)
    return ended(output=output, evaluation=evaluation, verification=verification)


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
    return ToolContext(
        run_id=state.run.id,
        step_id=step.id,
        attempt=step.attempt,
        idempotency_key=f"{state.run.id}/{step.lineage}/{step.generation}",
        deadline=None if limit is None else equipment.clock.now() + limit,
        log=logging.LoggerAdapter(log, facts),
        spend=spending.spend,
        output_cap_bytes=state.plan.policy.output_cap_bytes,
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

    A tool that ignores its cancellation is given up `GIVE_UP_S` later: `given_up` is called.
    Whatever the tool returns once its time is over is `late`.
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
    except asyncio.CancelledError:
        if len(timers) == 1 or task.uncancel() > 0:
            raise
        raise TimeoutError(TIMED_OUT) from None
    else:
        if len(timers) == 1:
            return value
        task.uncancel()
        late(value, None)  # it ended because its time was over, not in time
        raise TimeoutError(TIMED_OUT)
    finally:
        for timer in timers:
            timer.cancel()


def _too_long(limit: float | None) -> str:
    return f"no result within {limit:g} s" if limit is not None else "no result"


# Args


def resolve(value: Any, state: RunState, environment: Mapping[str, str]) -> Any:
    """The value with every reference replaced by what it refers to.

    Raises:
        ToolFailed: there is no such output, part of one, or environment variable.
    """
    if isinstance(value, Output):
        return _output(value, state)
    if isinstance(value, EnvironmentValue):
        if value.name not in environment:
            raise ToolFailed(f"the environment variable {value.name} is not set", False)
        return value.looked_up(environment)
    if isinstance(value, Mapping):
        return {key: resolve(item, state, environment) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [resolve(item, state, environment) for item in value]
    return value


def _output(reference: Output, state: RunState) -> Any:
    value = state.step(reference.step_id).output
    for depth, key in enumerate(reference.path):
        try:
            value = value[int(key)] if isinstance(value, (list, tuple)) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            place = ".".join((reference.step_id, *reference.path[:depth]))
            has = f"; it has {', '.join(map(str, value))}" if isinstance(value, Mapping) else ""
            says = f"the output at {place} is {shorten(value)} and has no {key!r}{has}"
            raise ToolFailed(f"{reference} cannot be resolved: {says}", False) from None
    return value


# Outcomes


def failure_of(error: BaseException) -> dict[str, Any]:
    """What an exception of a tool means for its attempt."""
    if isinstance(error, ToolFailed):
        kind = FailureKind.REPORTED if error.executed else FailureKind.NOT_EXECUTED
        return {"failure": kind, "message": error.message, "evidence": dict(error.evidence)}
    evidence = {"error": type(error).__name__}
    return {"failure": FailureKind.REPORTED, "message": describe(error), "evidence": evidence}


def reported_failure(output: Any) -> dict[str, Any] | None:
    """What a returned value says of its own failure; None when it reports none."""
    if not isinstance(output, Mapping):
        return None
    refused = output.get("executed") is False
    if not refused and output.get("status") not in FAILED_STATUSES:
        return None
    kind = FailureKind.NOT_EXECUTED if refused else FailureKind.REPORTED
    says = next((output[key] for key in ("error", "message") if output.get(key)), output)
    return {"failure": kind, "message": shorten(says)}


def describe(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def shorten(value: Any, length: int = 200) -> str:
    """A value as text of at most `length` characters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


# Judgements


def is_awaited(judge: Evaluator | Verifier) -> bool:
    """Whether an evaluator or verifier has to be awaited."""
    call = getattr(judge, "__call__", None)  # noqa: B004  # looking for an async __call__
    return inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(call)


def judged_now(judge: Evaluator | Verifier | None, step: Step, output: Any) -> Judgement | None:
    """The verdict of a synchronous judge; None: it has to be awaited."""
    if judge is None:
        return NOT_CHECKED
    if is_awaited(judge):
        return None
    try:
        return as_judgement(judge(step, output))
    except Exception as error:
        return failed_judgement(error)


def as_judgement(value: Any) -> Judgement:
    """What a judge returned, as a judgement: one of ours, or True or False."""
    if isinstance(value, Judgement):
        return value
    if isinstance(value, bool):
        return PASSED if value else Judgement(Verdict.FAILED, "refused")
    if inspect.iscoroutine(value):
        value.close()
    raise TypeError(f"a judge returns a Judgement, True or False, not {shorten(value)}")


def failed_judgement(error: BaseException) -> Judgement:
    """A judge that raises does not pass what it was to judge (D19)."""
    says = f"the check itself failed: {describe(error)}"
    return Judgement(Verdict.FAILED, says, {"error": type(error).__name__})


async def evaluate(equipment: Equipment, state: RunState, command: Evaluate) -> Judged:
    """Await the evaluator; a synchronous verifier judges in the same breath."""
    step = state.step(command.step_id)
    evaluation = await _await(equipment.evaluator, step)
    verification = None
    if step.spec.verify is None:
        verification = judged_now(equipment.verifier, step, step.output)
    return Judged(
        step_id=step.id,
        attempt=command.attempt,
        evaluation=evaluation,
        verification=verification,
    )


async def verify(equipment: Equipment, state: RunState, command: Verify) -> Judged | None:
    """Look at the world: with the step's own verifying call, else with the host's verifier.

    None: the look was given up, which has been fed already.
    """
    step = state.step(command.step_id)
    gone = False

    def judged(judgement: Judgement) -> Judged:
        return Judged(step_id=step.id, attempt=command.attempt, verification=judgement)

    def give_up(says: str) -> None:
        nonlocal gone
        gone = True
        equipment.feed(judged(Judgement(Verdict.FAILED, says)))

    if step.spec.verify is None:
        return judged(await _await(equipment.verifier, step))
    judgement = await _verify_with_tool(equipment, state, step, give_up)
    return None if gone else judged(judgement)


async def _await(judge: Evaluator | Verifier | None, step: Step) -> Judgement:
    if judge is None:
        return NOT_CHECKED
    try:
        value = judge(step, step.output)
        return as_judgement(await value if inspect.isawaitable(value) else value)
    except Exception as error:
        return failed_judgement(error)


async def _verify_with_tool(
    equipment: Equipment, state: RunState, step: Step, give_up: Callable[[str], None]
) -> Judgement:
    call = step.spec.verify
    assert call is not None  # asked by the caller
    spending = Spending()
    try:
        tool = equipment.tools.get(call.tool)
        args = resolve(call.args, state, equipment.environment)
        context = context_for(equipment, state, step, tool.timeout_s, spending, _forget)
        call_it = partial(tool.call, args, context)
        given_up = partial(give_up, f"{call.tool}: {_too_long(tool.timeout_s)}")
        seen = await in_time(equipment, tool.timeout_s, call_it, given_up, _forget)
    except Exception as error:
        facts = failure_of(error)
        says = _too_long(tool.timeout_s) if error.args == (TIMED_OUT,) else facts["message"]
        return Judgement(Verdict.FAILED, f"{call.tool}: {says}", facts["evidence"])
    reported = reported_failure(seen)
    if seen is False or reported:
        says = reported["message"] if reported else f"{call.tool} returned False"
        return Judgement(Verdict.FAILED, says, {"result": seen})
    return Judgement(Verdict.PASSED, "", {"result": seen})


def _forget(value: Any, error: BaseException | None) -> None:
    """A verifier that ended late has nothing more to say."""
