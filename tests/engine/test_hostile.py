"""Foreign code and unlucky moments: nothing is lost, nothing is stuck, nothing acts unasked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import pytest

from loopfsm import (
    AnswerRefused,
    Budget,
    Call,
    Loop,
    LoopState,
    Plan,
    PlanError,
    Policy,
    StepSpec,
    WhenExhausted,
    output,
    tool,
)
from loopfsm.journals.memory import MemoryJournal
from loopfsm.model.event import Unit
from loopfsm.model.failure import FailureKind
from loopfsm.model.step import EnvironmentValue, StepState
from loopfsm.ports import ToolContext
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.registry import default_registry
from loopfsm.testing import FakeClock
from loopfsm.tools.shell import ShellTool
from loopfsm.unit import Draft


def step(step_id: str, name: str = "work", **words: Any) -> StepSpec:
    return StepSpec(id=step_id, tool=name, **words)


def plan(*steps: StepSpec, **policy: Any) -> Plan:
    return Plan(goal="g", steps=steps, policy=Policy(**policy))


@tool
def work() -> int:
    return 1


class Rude(BaseException):
    """What is no Exception."""


class Mute(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Odd(dict[str, Any]):
    """A mapping that does not like to be read."""

    def get(self, *args: Any) -> NoReturn:
        raise RuntimeError("do not look")


def test_a_refused_answer_before_the_first_drive_changes_nothing() -> None:
    """The run is driven afterwards as if nobody had asked (law 8)."""
    loop = Loop(plan(step("a")), tools=[work])
    with pytest.raises(AnswerRefused):
        loop.answer("a", "skip")
    assert LoopState.INITIALIZED is loop.state.run.state
    assert LoopState.COMPLETED is loop.run_sync().state


def test_a_run_cancelled_before_the_first_drive_has_ended() -> None:
    """Nothing is ever started."""
    loop = Loop(plan(step("a")), tools=[work])
    loop.cancel()
    assert LoopState.ABSTAINED is loop.run_sync().state
    assert 0 == loop.state.step("a").attempt


class SlowJournal(MemoryJournal):
    """A journal that lets other threads in while it writes."""

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        super().append(run_id, units)
        for _ in range(200):
            time.sleep(0)


def test_answers_from_two_threads_to_a_run_nobody_drives_both_stand() -> None:
    """State and journal do not part."""

    @tool(name="work")
    def fails() -> NoReturn:
        raise ValueError("x")

    loop = Loop(plan(*map(step, "abcdef")), tools=[fails], journal=SlowJournal())
    loop.run_sync()
    threads = [threading.Thread(target=loop.answer, args=(name, "skip")) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert () == loop.outcome.questions
    assert LoopState.PARTIALLY_COMPLETED is loop.run_sync().state


def test_one_token_answers_once_whoever_sends_it() -> None:
    """Of many answers with one token one stands, and each sender hears its own outcome."""

    @tool(name="work")
    def fails() -> NoReturn:
        raise ValueError("x")

    loop = Loop(plan(step("a")), tools=[fails], journal=SlowJournal())
    loop.run_sync()
    heard: list[str] = []

    def answer() -> None:
        try:
            loop.answer("a", "skip", token="T")
            heard.append("accepted")
        except AnswerRefused:
            heard.append("refused")

    threads = [threading.Thread(target=answer) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["accepted", *["refused"] * 5] == sorted(heard)


async def _cancels_inside() -> NoReturn:
    inner = asyncio.ensure_future(asyncio.get_running_loop().create_future())
    inner.cancel()
    await inner
    raise AssertionError("it was cancelled")


def _raise(error: BaseException) -> NoReturn:
    raise error


async def _araise(error: BaseException) -> NoReturn:
    raise error


TOOLS: dict[str, Callable[[], Any]] = {
    "a cancelled task inside": _cancels_inside,
    "no Exception": lambda: _araise(Rude("x")),
    "no Exception, in a thread": lambda: _raise(Rude("x")),
    "an exception without a text": lambda: _raise(Mute()),
    "a mapping that cannot be read": lambda: Odd(status="error"),
    "a mapping with an odd status": lambda: {"status": {"code": 200}},
}


@pytest.mark.parametrize("name", TOOLS)
def test_whatever_a_tool_does_its_attempt_ends(name: str) -> None:
    """The step is completed, or failed with a person asked; never stuck."""

    @tool(name="work")
    async def odd() -> Any:
        found = TOOLS[name]()
        return await found if asyncio.iscoroutine(found) else found

    state = Loop(plan(step("a")), tools=[odd]).run_sync().state
    fine = LoopState.COMPLETED if name.endswith("odd status") else LoopState.WAITING_FOR_HUMAN
    assert fine is state


@pytest.mark.parametrize("error", [Rude("x"), asyncio.CancelledError(), SystemExit(3), Mute()])
@pytest.mark.parametrize("which", ["evaluator", "verifier"])
@pytest.mark.parametrize("awaited", [True, False])
def test_whatever_a_judge_raises_passes_nothing(
    error: BaseException, which: str, awaited: bool
) -> None:
    """The step fails as rejected or not verified, not as reported by its tool (D19)."""

    async def ajudge(step: object, output: object) -> bool:
        raise error

    def judge(step: object, output: object) -> bool:
        raise error

    judges: dict[str, Any] = {which: ajudge if awaited else judge}
    outcome = Loop(plan(step("a", max_retries=3)), tools=[work], **judges).run_sync()
    assert LoopState.WAITING_FOR_HUMAN is outcome.state
    kinds = (FailureKind.REJECTED, FailureKind.NOT_VERIFIED)
    assert 1 == len(outcome.failures)
    assert outcome.failures[0].kind in kinds


def test_a_judge_that_hangs_is_bounded_like_the_attempt() -> None:
    """No verdict in time is no pass, so that a run can always end."""

    async def hangs(step: object, output: object) -> bool:
        await asyncio.get_running_loop().create_future()
        return True

    loop = Loop(
        plan(step("a", timeout_s=5)),
        tools=[work],
        evaluator=hangs,
        clock=FakeClock(auto=True),
    )
    assert FailureKind.REJECTED is loop.run_sync().failures[0].kind


def test_an_attempt_that_died_with_its_driver_is_taken_up() -> None:
    """After a KeyboardInterrupt inside a tool the run can be driven again."""

    @tool(name="work")
    async def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    loop = Loop(plan(step("a")), tools=[interrupted])
    with pytest.raises(KeyboardInterrupt):
        loop.run_sync()
    outcome = loop.run_sync()
    assert (LoopState.WAITING_FOR_HUMAN, FailureKind.INTERRUPTED) == (
        outcome.state,
        outcome.failures[0].kind,
    )


class FailsOnce(MemoryJournal):
    """A journal whose n-th append fails."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError("no space left on device")
        super().append(run_id, units)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_commit_that_failed_once_loses_nothing(at: int) -> None:
    """The error is raised; driven again, the run goes on from what was committed."""

    @tool(name="safe", idempotent=True)
    def safe() -> int:
        return 1

    loop = Loop(
        plan(step("a", "safe"), step("b", "safe", needs=["a"])), tools=[safe], journal=FailsOnce(at)
    )
    with pytest.raises(OSError, match="no space left"):
        loop.run_sync()
    assert LoopState.COMPLETED is loop.run_sync().state


def test_an_error_after_the_time_is_over_is_an_unknown_outcome() -> None:
    """What acted and then broke while it was stopped is not repeated unasked (DESIGN 5)."""
    calls: list[int] = []

    @tool(name="work", timeout_s=5)
    async def pays() -> None:
        calls.append(1)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise RuntimeError("connection reset while closing")

    loop = Loop(plan(step("a", max_retries=2)), tools=[pays], clock=FakeClock(auto=True))
    outcome = loop.run_sync()
    assert ([1], [FailureKind.TIMED_OUT]) == (calls, [f.kind for f in outcome.failures])


def test_what_a_timed_out_attempt_spent_is_charged_once() -> None:
    """Also when it returns something after its time."""

    @tool(name="work", timeout_s=5)
    async def spends(context: ToolContext) -> str:
        context.spend(10, 1.0)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "partial"
        raise AssertionError("the future never ends")

    spent = Loop(plan(step("a")), tools=[spends], clock=FakeClock(auto=True)).run_sync().spent
    assert (10, 1.0) == (spent["tokens"], spent["cost"])


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_a_cost_that_cannot_be_added_up_is_refused(cost: float) -> None:
    """No budget is switched off by a number that is none."""

    @tool(name="work")
    def spends(context: ToolContext) -> None:
        context.spend(0, cost)

    outcome = Loop(plan(step("a"), budget=Budget(cost=5)), tools=[spends]).run_sync()
    assert "expected numbers of at least 0" in outcome.failures[0].message


def test_what_a_verifying_call_spends_is_charged() -> None:
    """Verifiers are charged, never refused (DESIGN 5)."""

    @tool(name="look", read_only=True)
    def look(context: ToolContext) -> bool:
        context.spend(7, 0.5)
        return True

    outcome = Loop(plan(step("a", verify=Call("look"))), tools=[work, look]).run_sync()
    assert (7, 0.5) == (outcome.spent["tokens"], outcome.spent["cost"])


def test_a_run_that_has_ended_does_not_change() -> None:
    """Not even its clock runs on (S31)."""
    clock = FakeClock()
    loop = Loop(plan(step("a"), budget=Budget(seconds=100)), tools=[work], clock=clock)
    loop.run_sync()
    before = loop.outcome
    clock.advance(50)
    assert before == loop.run_sync()
    assert loop.state.step("a").state is StepState.VERIFIED_COMPLETED


def test_when_exhausted_may_be_given_as_text() -> None:
    """As in a plan file; any other text is refused with what is known."""
    assert WhenExhausted.ABSTAIN is Policy(when_exhausted="abstain").when_exhausted
    with pytest.raises(PlanError, match="'ask', 'abstain', 'fail'"):
        Policy(when_exhausted="never")


@pytest.mark.parametrize("ladder", [{"unclasified": ("RETRY",)}, {"unclassified": "RETRY"}])
def test_a_ladder_that_cannot_be_meant_is_refused(ladder: Any) -> None:
    """A misspelled class and a bare string are mistakes, not empty ladders."""
    with pytest.raises(PlanError, match=r"policy\.ladder"):
        Policy(ladder=ladder)


def test_a_ladder_names_registered_strategies() -> None:
    """A misspelled strategy is refused at the door."""
    misspelled = plan(step("a"), ladder={"unclassified": ("RETYR",)})
    with pytest.raises(PlanError, match=r"policy\.ladder\.unclassified\[0\].*'RETYR'"):
        Loop(misspelled, tools=[work])


def test_what_a_tool_does_to_its_args_touches_nothing_else() -> None:
    """A verified output is what it was, and a retry gets the same parameters."""
    seen: list[int] = []

    @tool
    def make() -> dict[str, list[int]]:
        return {"items": [1, 2, 3]}

    @tool(idempotent=True)
    def eat(items: list[int]) -> int:
        seen.append(len(items))
        items.pop()
        if len(seen) < 3:
            raise ValueError("hungry")
        return len(items)

    steps = (step("m", "make"), step("e", "eat", args={"items": output("m", "items")}))
    outcome = Loop(plan(*steps), tools=[make, eat]).run_sync()
    assert ([3, 3, 3], {"items": [1, 2, 3]}) == (seen, outcome.outputs["m"])


@pytest.mark.parametrize(
    "args",
    [
        {"argv": [EnvironmentValue("X")]},
        {"argv": ["/bin/true"], "cwd": EnvironmentValue("X")},
        {"command": EnvironmentValue("X")},
        {"argv": ["/bin/true", [EnvironmentValue("X")]]},
        {"argv": ["/bin/true"], "env": EnvironmentValue("X")},
    ],
)
def test_a_value_of_the_environment_reaches_no_event(args: Any) -> None:
    """Neither a result nor a message names it; the variable stands in its place."""
    loop = Loop(
        plan(step("a", "sh", args=args)),
        tools=[ShellTool(name="sh")],
        environment={"X": "true s3cr3t-value"},
    )
    loop.run_sync()
    assert "s3cr3t-value" not in repr(list(loop.journal.events(loop.state.run.id)))


def test_a_repeat_does_not_wait_behind_a_first_start_that_is_refused() -> None:
    """A retry uses no step, so that a spent `steps` budget does not hold it back."""
    calls: list[int] = []

    @tool(name="again", idempotent=True)
    def again() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")

    steps = (step("a", "again"), step("b"))
    loop = Loop(plan(*steps, budget=Budget(steps=1), max_parallel=1), tools=[again, work])
    outcome = loop.run_sync()
    assert (2, ["a"]) == (len(calls), list(outcome.outputs))


class Confused(RecoveryHandler):
    """A strategy that cannot even be asked."""

    strategy = "CONFUSED"
    trigger = "request_human"

    def scope(self, case: RecoveryCase) -> tuple[str, ...]:
        raise ValueError("which?")

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        raise AssertionError("it is never taken")


def test_a_strategy_that_raises_when_it_is_asked_is_passed_over() -> None:
    """The next rung is taken; the run goes on (D8, B34)."""
    registry = default_registry()
    registry.register(Confused())
    calls: list[int] = []

    @tool(name="again", idempotent=True)
    def again() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")

    ladder = {"unclassified": ("CONFUSED", "RETRY")}
    loop = Loop(plan(step("a", "again"), ladder=ladder), tools=[again], recovery=registry)
    outcome = loop.run_sync()
    assert LoopState.COMPLETED is outcome.state
    planned = [e for e in loop.journal.events(outcome.run_id) if "plans" in e.changes]
    assert "CONFUSED: it raised ValueError" in planned[-1].changes["reason"]


def test_events_of_a_run_that_has_ended_end() -> None:
    """Who comes too late waits for nothing."""

    async def body() -> list[Any]:
        loop = Loop(plan(step("a")), tools=[work])
        await loop.run()
        return [event async for event in loop.events()]

    assert [] == asyncio.run(asyncio.wait_for(body(), 5))
