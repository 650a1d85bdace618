"""What a type checker sees of the public face. Checked by mypy strict, never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

import attrs

import loopfsm
from loopfsm import (
    AnswerRefused,
    Budget,
    Call,
    Lifecycle,
    LoopfsmError,
    LoopState,
    Plan,
    PlanError,
    Policy,
    PostconditionViolated,
    Problem,
    RecoveryHandler,
    RecoveryStrategy,
    Row,
    StepSpec,
    StepState,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    TransitionRefused,
    WhenExhausted,
    output,
    tool,
)

# A plan, as its author writes it

step = StepSpec(
    id="report",
    tool="render",
    args={"files": output("inventory", "files")},
    needs=["inventory"],
    verify=Call("count", {"path": "report.md"}),
    max_retries=2,
)
assert_type(step.needs, tuple[str, ...])
assert_type(step.args, Mapping[str, Any])
assert_type(step.verify, Call | None)

plan = Plan(goal="report on the files", steps=[step], policy=Policy(budget=Budget(steps=10)))
assert_type(plan.steps, Sequence[StepSpec])
assert_type(plan.policy.when_exhausted, WhenExhausted)
assert_type(plan.policy.budget.seconds, float | None)

Plan(goal="a step is not text", steps=["report"])  # type: ignore[list-item]  # the point
StepSpec("report", "render")  # type: ignore[call-arg]  # keyword-only beyond two fields
plan.version = 2  # type: ignore[misc]  # nouns are frozen

# Where things stand

assert_type(StepState("READY"), StepState)
assert_type(LoopState("EXECUTING"), LoopState)
assert_type(RecoveryStrategy("RETRY").upper(), str)


# Tools keep the signature of their function


@tool
def word_count(text: str) -> int:
    return len(text.split())


@tool(name="fetch", read_only=True, timeout_s=5)
async def fetch_page(url: str, context: ToolContext) -> str:
    context.log.info("fetching")
    return url


assert_type(word_count("a sentence"), int)
word_count(3)  # type: ignore[arg-type]  # the wrapped function's own types
tools = ToolRegistry([word_count, fetch_page, len])
ToolRegistry(["word_count"])  # type: ignore[list-item]  # a tool or a function, not a name


def tool_that_fails(context: ToolContext) -> None:
    assert_type(context.idempotency_key, str)
    assert_type(context.deadline, float | None)
    context.spend(120, 0.002)
    raise ToolFailed("the disk is full", executed=False, evidence={"errno": 28})


# A machine of one's own


@attrs.frozen
class Door:
    id: str
    state: StepState


def door_is_open(door: Door, *, wanted_at: float) -> bool:
    return wanted_at > 0


doors = Lifecycle[Door](
    "door",
    states=StepState,
    initial=StepState.PENDING,
    rows=[
        Row(
            id="DOOR-01",
            trigger="open",
            source=(StepState.PENDING,),
            target=StepState.READY,
            guards=(door_is_open,),
        )
    ],
)
assert_type(doors.fire(Door("front", StepState.PENDING), "open", wanted_at=1.0), Door)
assert_type(doors.may(Door("front", StepState.PENDING), "open", wanted_at=1.0), bool)
assert_type(doors.extended([]), Lifecycle[Door])
doors.fire("front", "open")  # type: ignore[arg-type]  # fires nouns of this machine only

# A strategy is one class


class AskTheNeighbour(RecoveryHandler):
    strategy = "ASK_THE_NEIGHBOUR"


# Errors carry facts


def facts_of(error: LoopfsmError) -> object:
    match error:
        case PlanError():
            assert_type(error.problems, tuple[Problem, ...])
            return error.problems
        case TransitionRefused():
            assert_type(error.allowed, tuple[str, ...])
            return error.attempted
        case AnswerRefused():
            assert_type(error.choice, str)
            return error.choice
        case PostconditionViolated():
            assert_type(error.row, str)
            return error.function
    return None


try:
    doors.fire(Door("front", StepState.READY), "open")
except RuntimeError as refused:  # a refusal is also the builtin that callers already catch
    assert_type(refused, RuntimeError)

# A misspelled name is an error, although some names are resolved on first use

loopfsm.Lop  # type: ignore[attr-defined]  # noqa: B018  # the access is the test
assert_type(loopfsm.__version__, str)
