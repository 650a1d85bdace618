"""Evaluators and verifiers judge: is the result good, does the world show it.

What they raise passes nothing (D19), and one that hangs is bounded like the attempt it judges.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from loopfsm.engine.attempt import (
    TIMED_OUT,
    Equipment,
    Spending,
    call_tool,
    context_for,
    in_time,
    is_being_cancelled,
    too_long,
)
from loopfsm.engine.inputs import CallTool, Command, Evaluate, Judged, Result, Verify
from loopfsm.engine.values import describe, failure_of, reported_failure, resolve, shorten
from loopfsm.errors import NotSerialisable, ToolError
from loopfsm.model.compiled import evolved
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import Step, Verdict
from loopfsm.ports import Evaluator, Judgement, Verifier

NOT_CHECKED = Judgement(Verdict.NOT_CHECKED)
PASSED = Judgement(Verdict.PASSED)


def is_awaited(judge: Evaluator | Verifier) -> bool:
    """Whether an evaluator or verifier has to be awaited: it is declared `async`."""
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what is no Exception: it must not look like the tool's
        return failed_judgement(error)


def as_judgement(value: Any) -> Judgement:
    """What a judge returned, as a judgement: one of ours, or True or False."""
    if isinstance(value, Judgement):
        return value
    if isinstance(value, bool):
        return PASSED if value else Judgement(Verdict.FAILED, "refused")
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("a judge that has to be awaited is declared with `async def`")
    raise TypeError(f"a judge returns a Judgement, True or False, not {shorten(value)}")


def failed_judgement(error: BaseException) -> Judgement:
    """A judge that raises does not pass what it was to judge (D19)."""
    says = f"the check itself failed: {describe(error)}"
    return Judgement(Verdict.FAILED, says, {"error": type(error).__name__})


async def call_and_judge(equipment: Equipment, state: RunState, command: CallTool) -> Result | None:
    """Make an attempt; synchronous judges give their verdict in the same breath."""
    result = await call_tool(equipment, state, command)
    if result is None or result.failure is not None:
        return result
    step = state.step(command.step_id)
    try:
        returns = getattr(equipment.tools.get(step.spec.tool), "returns", Any)
        result = evolved(result, {"output": equipment.keepable(result.output, returns)})
    except (NotSerialisable, OSError) as error:
        return _not_kept(result, f"step {step.id}: {error}")
    evaluation = judged_now(equipment.evaluator, step, result.output)
    verification = None
    if evaluation is not None and step.spec.verify is None:
        verification = judged_now(equipment.verifier, step, result.output)
    return evolved(result, {"evaluation": evaluation, "verification": verification})


def _not_kept(result: Result, why: str) -> Result:
    """The tool has done its work, and its result would be gone with this process."""
    kind = FailureKind.REJECTED
    changes: dict[str, Any] = {"output": None, "failure": kind, "message": why, "evidence": {}}
    return evolved(result, changes)


async def evaluate(equipment: Equipment, state: RunState, command: Evaluate) -> Judged | None:
    """Await the evaluator; a synchronous verifier judges in the same breath.

    None: the evaluator was given up, which has been fed already.
    """
    step = state.step(command.step_id)

    def judged(judgement: Judgement, verification: Judgement | None = None) -> Judged:
        return Judged(
            step_id=step.id,
            attempt=command.attempt,
            evaluation=judgement,
            verification=verification,
        )

    looked = _Look("the evaluator", equipment, judged)
    evaluation = await looked.at(limit_of(equipment, step), _asked(equipment.evaluator, step))
    if evaluation is None:
        return None
    verification = None
    if step.spec.verify is None:
        verification = judged_now(equipment.verifier, step, step.output)
    return judged(evaluation, verification)


async def verify(equipment: Equipment, state: RunState, command: Verify) -> Judged | None:
    """Look at the world: with the step's own verifying call, else with the host's verifier.

    None: the verifier was given up, which has been fed already.
    """
    step = state.step(command.step_id)
    spending = Spending()

    def judged(judgement: Judgement) -> Judged:
        tokens, cost = spending.take()
        return Judged(
            step_id=step.id,
            attempt=command.attempt,
            verification=judgement,
            tokens=tokens,
            cost=cost,
        )

    who = "the verifier" if step.spec.verify is None else step.spec.verify.tool
    looked = _Look(who, equipment, judged)
    if step.spec.verify is None:
        limit, look = limit_of(equipment, step), _asked(equipment.verifier, step)
    else:
        try:
            limit, look = _verifying_call(equipment, state, step, spending)
        except Exception as error:  # a reference that cannot be resolved, an unknown tool
            says = failure_of(error)["message"]
            return judged(Judgement(Verdict.FAILED, says, {"error": type(error).__name__}))
    judgement = await looked.at(limit, look)
    return None if judgement is None else judged(judgement)


Look = Callable[[], Awaitable[Judgement]]


class _Look:
    """One awaited judgement, bounded in time; given up when it ignores its cancellation."""

    def __init__(
        self, who: str, equipment: Equipment, judged: Callable[[Judgement], Judged]
    ) -> None:
        self.who = who
        self.equipment = equipment
        self.judged = judged
        self.gone = False

    async def at(self, limit: float | None, look: Look) -> Judgement | None:
        """Await `look` for at most `limit` seconds; None when it was given up."""
        said = Judgement(Verdict.FAILED, f"{self.who}: {too_long(limit)}")

        def give_up() -> None:
            self.gone = True
            self.equipment.feed(self.judged(said))

        try:
            judgement = await in_time(self.equipment, limit, look, give_up, _forget)
        except TimeoutError as error:
            judgement = said if error.args == (TIMED_OUT,) else failed_judgement(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also what is no Exception passes nothing
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            judgement = failed_judgement(error)
        return None if self.gone else judgement


def limit_of(equipment: Equipment, step: Step) -> float | None:
    """Seconds a judge of this step may take: what an attempt at it may take."""
    if step.spec.timeout_s is not None:
        return step.spec.timeout_s
    try:
        return equipment.tools.get(step.spec.tool).timeout_s
    except ToolError:
        return None


def _asked(judge: Evaluator | Verifier | None, step: Step) -> Look:
    async def ask() -> Judgement:
        if judge is None:
            return NOT_CHECKED
        value = judge(step, step.output)
        return as_judgement(await value if inspect.isawaitable(value) else value)

    return ask


def _verifying_call(
    equipment: Equipment, state: RunState, step: Step, spending: Spending
) -> tuple[float | None, Look]:
    call = step.spec.verify
    assert call is not None  # asked by the caller
    tool = equipment.tools.get(call.tool)
    args = resolve(call.args, state, equipment.environment)
    context = context_for(equipment, state, step, tool.timeout_s, spending, _forget)

    async def look() -> Judgement:
        try:
            seen = await tool.call(args, context)
        except Exception as error:
            facts = failure_of(error)
            return Judgement(Verdict.FAILED, f"{call.tool}: {facts['message']}", facts["evidence"])
        reported = reported_failure(seen)
        if seen is False or reported:
            says = reported["message"] if reported else f"{call.tool} returned False"
            return Judgement(Verdict.FAILED, says, {"result": seen})
        return Judgement(Verdict.PASSED, "", {"result": seen})

    return tool.timeout_s, look


def _forget(value: Any, error: BaseException | None) -> None:
    """A judge that ended late has nothing more to say."""


def lost(command: Command, error: Exception) -> Result | Judged | None:
    """What it means that a command could not be performed."""
    why, evidence = describe(error), {"error": type(error).__name__}
    if isinstance(command, CallTool):
        return Result(
            step_id=command.step_id,
            attempt=command.attempt,
            failure=FailureKind.TIMED_OUT,  # what it has done is unknown
            message=why,
            evidence=evidence,
        )
    judgement = Judgement(Verdict.FAILED, why, evidence)
    if isinstance(command, Evaluate):
        return Judged(step_id=command.step_id, attempt=command.attempt, evaluation=judgement)
    if isinstance(command, Verify):
        return Judged(step_id=command.step_id, attempt=command.attempt, verification=judgement)
    return None
