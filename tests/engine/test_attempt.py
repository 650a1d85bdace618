"""One attempt: its args, its time, what its tool says, and who judges it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from loopfsm.engine.attempt import GIVE_UP_S
from loopfsm.engine.loop import Loop
from loopfsm.errors import ToolFailed
from loopfsm.model.event import LATE_RESULT, Event
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Plan, WhenExhausted
from loopfsm.model.step import Call, EnvironmentValue, Step, StepState, output
from loopfsm.ports import ToolContext
from loopfsm.testing import (
    Fails,
    FakeClock,
    Hangs,
    Outcome,
    Raises,
    Returns,
    ScriptedTool,
    Sleeps,
)
from loopfsm.testing.tools import Script
from loopfsm.tools.registry import tool
from loopfsm.tools.shell import ShellTool
from tests.engine.kit import loop_of, plan_of, run, spec, within_reason

S, L, K = StepState, LoopState, FailureKind


def in_loop(work: Callable[[], Awaitable[None]]) -> None:
    """Run an async test body that must not hang."""
    asyncio.run(within_reason(work()))


async def pauses(count: int = 400) -> None:
    """Let the event loop run for a while, without any time."""
    for _ in range(count):
        await asyncio.sleep(0)


def late_results(loop: Loop) -> list[Event]:
    """The late results of a run."""
    return [e for e in loop.journal.events("run") if e.row == LATE_RESULT]


# ------------------------------------------------------------------------------- args


def test_references_are_resolved_to_whole_values() -> None:
    """Outputs, parts of them and environment values arrive as values, nested ones too."""
    made = {"files": ["x", "y"], "size": {"total": 3}}
    first = ScriptedTool("first", [Returns(made)])
    work = ScriptedTool("work")
    args = {
        "all": output("a"),
        "second": output("a", "files", "1"),
        "deep": [{"total": output("a", "size", "total")}],
        "user": EnvironmentValue("WHO"),
        "plain": 1,
    }
    plan = plan_of(spec("a", tool="first"), spec("b", args=args))
    outcome = run(loop_of(plan, first, work, environment={"WHO": "me"}))
    assert L.COMPLETED is outcome.state
    expected = {"all": made, "second": "y", "deep": [{"total": 3}], "user": "me", "plain": 1}
    assert expected == work.calls[0].args


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (("missing",), "has no 'missing'; it has files"),
        (("files", "7"), "a.files"),
        (("files", "first"), "has no 'first'"),
        (("files", "0", "deeper"), "a.files.0"),
    ],
)
def test_what_cannot_be_resolved_was_not_executed(path: tuple[str, ...], says: str) -> None:
    """The attempt fails with its place, and the tool is not called."""
    first, work = ScriptedTool("first", [Returns({"files": ["x"]})]), ScriptedTool("work")
    plan = plan_of(spec("a", tool="first"), spec("b", args={"x": output("a", *path)}))
    outcome = run(loop_of(plan, first, work))
    (failure,) = outcome.failures
    assert ([], K.NOT_EXECUTED) == (work.calls, failure.kind)
    assert says in failure.message


def test_an_unset_environment_variable_was_not_executed() -> None:
    """It is named, and nothing is called."""
    work = ScriptedTool("work")
    plan = plan_of(spec("a", args={"x": EnvironmentValue("NOT_SET")}))
    (failure,) = run(loop_of(plan, work, environment={})).failures
    assert ([], K.NOT_EXECUTED) == (work.calls, failure.kind)
    assert "NOT_SET" in failure.message


def test_environment_values_are_never_journaled() -> None:
    """What the tool was given stands in no event, whether it succeeds or fails (X7)."""
    secret = "sw0rdfish"  # the secret of this test
    received: list[Any] = []

    def script(args: Mapping[str, Any], context: ToolContext) -> Outcome:
        received.append(args["token"])
        return Fails("no entry") if context.attempt == 1 else Returns("entered")

    plan = plan_of(spec("a", args={"token": EnvironmentValue("TOKEN")}, max_retries=1))
    loop = loop_of(plan, ScriptedTool("work", script), environment={"TOKEN": secret})
    assert L.COMPLETED is run(loop).state
    assert [secret, secret] == received
    assert secret not in "".join(map(repr, loop.journal.events("run")))


def test_the_tool_knows_the_attempt_it_works_for() -> None:
    """Run, step, attempt, deadline and idempotency key are handed over (S4, B10)."""
    clock, contexts = FakeClock(100, auto=True), []

    @tool(name="work")
    def work(context: ToolContext) -> None:
        contexts.append(context)
        if context.attempt == 1:
            raise ValueError("once")

    run(loop_of(plan_of(spec("a", max_retries=1, timeout_s=30)), work, clock=clock))
    assert [1, 2] == [context.attempt for context in contexts]
    assert {("run", "a", 130.0)} == {(c.run_id, c.step_id, c.deadline) for c in contexts}
    assert 1 == len({context.idempotency_key for context in contexts})


# --------------------------------------------------------------------- what a tool says


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Raises(ValueError("no")), K.REPORTED),
        (Raises(TimeoutError("its own")), K.REPORTED),
        (Fails("no"), K.REPORTED),
        (Fails("no", executed=False), K.NOT_EXECUTED),
        (Returns({"status": "error", "error": "no"}), K.REPORTED),
        (Returns({"status": "denied"}), K.REPORTED),
        (Returns({"executed": False}), K.NOT_EXECUTED),
        (Returns({"executed": False, "status": "success"}), K.NOT_EXECUTED),
    ],
)
def test_a_failure_is_what_a_tool_reports(outcome: Outcome, kind: FailureKind) -> None:
    """An exception, a failed status and `executed: false` are failures, of two kinds (B17, B34)."""
    (failure,) = run(loop_of(plan_of("a"), ScriptedTool("work", [outcome]))).failures
    assert kind is failure.kind


@pytest.mark.parametrize(
    "value",
    [
        *(None, False, 0, "Error: not really", [], {"error": "in the data"}),
        *({"status": "success"}, {"status": {"code": 200}}, {"status": ["error"]}),
        *({"executed": True}, {"executed": None}),
    ],
)
def test_anything_else_is_a_result(value: object) -> None:
    """Text and odd shapes are data: only a status of failure fails an attempt."""
    outcome = run(loop_of(plan_of("a"), ScriptedTool("work", [Returns(value)])))
    assert (L.COMPLETED, value) == (outcome.state, outcome.outputs["a"])


def test_the_evidence_of_a_failure_is_kept() -> None:
    """What the tool brought along stands in the failure and in the question (S16, S18)."""
    error = ToolFailed("no", evidence={"exit": 3})
    outcome = run(loop_of(plan_of("a"), ScriptedTool("work", [Raises(error)])))
    assert {"exit": 3} == dict(outcome.failures[0].evidence)
    assert {"exit": 3} == outcome.questions[0].context["evidence"]


# ------------------------------------------------------------------------------- time


@pytest.mark.parametrize(("of_step", "of_tool", "ends"), [(None, 30, 30), (5, 30, 5), (60, 30, 60)])
def test_an_attempt_has_its_time(of_step: float | None, of_tool: float, ends: float) -> None:
    """The step's limit, else the tool's, on the injected clock; its outcome is unknown (S8)."""
    clock = FakeClock(auto=True)
    work = ScriptedTool("work", [Hangs()], timeout_s=of_tool)
    (failure,) = run(loop_of(plan_of(spec("a", timeout_s=of_step)), work, clock=clock)).failures
    assert (K.TIMED_OUT, ends) == (failure.kind, failure.occurred_at)
    assert f"no result within {ends:g} s" == failure.message


def test_what_ends_in_time_does_not_time_out() -> None:
    """A result at the last moment is a result, and its timers are gone (S8)."""
    clock = FakeClock(auto=True)
    work = ScriptedTool("work", [Sleeps(29)], timeout_s=30, clock=clock)
    assert L.COMPLETED is run(loop_of(plan_of("a"), work, clock=clock)).state
    assert (29, 0) == (clock.now(), clock.pending)


def test_a_timed_out_step_that_is_idempotent_runs_again() -> None:
    """The others go on meanwhile, and the run completes (B33)."""
    clock = FakeClock(auto=True)
    script: Script = {"a": [Hangs(), Returns()], "b": [Sleeps(20)]}
    work = ScriptedTool("work", script, timeout_s=30, clock=clock, idempotent=True)
    outcome = run(loop_of(plan_of("a", "b"), work, clock=clock))
    assert (L.COMPLETED, 30) == (outcome.state, clock.now())


class Slow:
    """A sync tool whose first call outlives its time, however long a test wants."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began, self.ended = asyncio.Event(), threading.Event()
        self.tool = tool(name="work", timeout_s=30, idempotent=True)(self.work)

    def work(self, context: ToolContext) -> str:
        if context.attempt == 1:
            self.loop.call_soon_threadsafe(self.began.set)
            assert self.ended.wait(20)
        return f"attempt {context.attempt}"


def test_a_thread_that_outlives_its_time_holds_up_nothing() -> None:
    """The run goes on, and what the thread brings at last is a `late_result` event (S8, B33)."""

    async def body() -> None:
        clock, slow, held = FakeClock(), Slow(), asyncio.Event()

        @tool(name="busy", timeout_s=None)
        async def busy() -> None:
            await held.wait()

        loop = loop_of(plan_of("a", spec("b", tool="busy")), slow.tool, busy, clock=clock)
        task = asyncio.create_task(loop.run())
        await slow.began.wait()
        clock.advance(30)
        events = loop.events()
        async for event in events:
            if event.noun == "step" and event.changes.get("state") is S.VERIFIED_COMPLETED:
                slow.ended.set()
            if event.row == LATE_RESULT:
                held.set()
        assert {"a": "attempt 2", "b": None} == (await task).outputs
        ((late),) = late_results(loop)
        assert (1, "late: returned attempt 1") == (late.attempt, late.facts["message"])

    in_loop(body)


def test_a_result_that_comes_after_the_drive_is_still_on_record() -> None:
    """A late result is journaled also when nobody drives the run any more (X7, R44)."""

    async def body() -> None:
        clock, slow = FakeClock(), Slow()
        loop = loop_of(plan_of(spec("a", max_retries=0)), slow.tool, clock=clock)
        task = asyncio.create_task(loop.run())
        await slow.began.wait()
        clock.advance(30)
        assert L.WAITING_FOR_HUMAN is (await task).state
        before = loop.state.steps
        slow.ended.set()
        for _ in range(2000):
            if late_results(loop):
                break
            await asyncio.sleep(0.001)
        assert [1] == [late.attempt for late in late_results(loop)]
        assert before == loop.state.steps

    in_loop(body)


SLEEPER = """
    import time
    from loopfsm import Loop, Plan, StepSpec, tool

    @tool(timeout_s=0.05)
    def sleeper():
        time.sleep(60)

    plan = Plan(goal="sleep", steps=[StepSpec(id="a", tool="sleeper")])
    print(Loop(plan, tools=[sleeper]).run_sync().state.name, flush=True)
"""


@pytest.mark.slow  # a process of its own
def test_a_thread_that_sleeps_on_does_not_hold_the_process() -> None:
    """A process whose tool still sleeps exits as soon as the run has its outcome (B33)."""
    began = time.monotonic()
    script = [sys.executable, "-c", textwrap.dedent(SLEEPER)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=50, check=False)
    assert ("WAITING_FOR_HUMAN\n", 0, "") == (done.stdout, done.returncode, done.stderr)
    assert time.monotonic() - began < 30


STUBBORN = """
trap '' TERM
/bin/sh -c 'trap "" TERM; while :; do sleep 1; done' &
first=$!
/bin/sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo $$ $first $! > {ready}
wait; wait
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    ps = ["ps", "-o", "stat=", "-p", str(pid)]
    stat = subprocess.run(ps, capture_output=True, text=True, check=False).stdout
    return bool(stat.strip()) and not stat.startswith("Z")


@pytest.mark.slow  # real processes, which are given a moment to end before they are killed
def test_a_stubborn_program_leaves_no_process_behind(tmp_path: Path) -> None:
    """A program and its children that ignore SIGTERM are gone when their time is over (B33)."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)

    async def body() -> None:
        clock = FakeClock()
        shell = ShellTool(name="work", timeout_s=30, grace_s=0.05, inherit_env=True)
        args = {"command": STUBBORN.format(ready=ready)}
        loop = loop_of(plan_of(spec("a", args=args)), shell, clock=clock)
        task = asyncio.create_task(loop.run())
        pids = [int(pid) for pid in (await asyncio.to_thread(ready.read_text)).split()]
        assert [True] * 3 == [alive(pid) for pid in pids]
        clock.advance(30)
        (failure,) = (await task).failures
        assert K.TIMED_OUT is failure.kind
        assert [False] * 3 == [alive(pid) for pid in pids]

    in_loop(body)


async def time_passes(clock: FakeClock) -> None:
    """The time of the attempt passes, and that of a tool that does not listen."""
    for seconds in (0, 30, GIVE_UP_S):
        clock.advance(seconds)
        await pauses()


class Deaf:
    """An async tool that does not listen when it is cancelled."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.freed = asyncio.Event()
        self.tool = tool(name="deaf", timeout_s=30, read_only=read_only)(self.work)

    async def work(self) -> str:
        while not self.freed.is_set():
            try:
                await self.freed.wait()
            except asyncio.CancelledError:
                continue
        return "at last"


def test_a_tool_that_ignores_its_cancellation_is_given_up() -> None:
    """Some seconds after its time its attempt is over; what it returns then is late (S8, B33)."""

    async def body() -> None:
        clock, deaf = FakeClock(), Deaf()
        loop = loop_of(plan_of(spec("a", tool="deaf")), deaf.tool, clock=clock)
        task = asyncio.create_task(loop.run())
        await time_passes(clock)
        deaf.freed.set()
        assert S.WAITING_FOR_HUMAN is loop.state.step("a").state
        assert 30 + GIVE_UP_S == loop.state.failure("F1").occurred_at
        assert [K.TIMED_OUT] == [failure.kind for failure in (await task).failures]
        await pauses()
        assert 1 == len(late_results(loop))

    in_loop(body)


@pytest.mark.parametrize("when_exhausted", [WhenExhausted.ASK, WhenExhausted.FAIL])
def test_a_given_up_call_does_not_hold_the_driver(when_exhausted: WhenExhausted) -> None:
    """A run that is parked or final returns, whatever a given-up tool still does (B33)."""

    async def body() -> None:
        clock, deaf = FakeClock(), Deaf()
        plan = plan_of(spec("a", tool="deaf"), when_exhausted=when_exhausted)
        loop = loop_of(plan, deaf.tool, clock=clock)
        task = asyncio.create_task(loop.run())
        try:
            await time_passes(clock)
            assert task.done()
        finally:
            deaf.freed.set()
            await task

    in_loop(body)


def test_what_comes_after_the_time_is_late() -> None:
    """A tool that returns because its time is over has not returned in time (S8)."""
    clock = FakeClock(auto=True)

    @tool(name="work", timeout_s=30)
    async def work() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "too late"
        raise AssertionError("the future never ends")

    outcome = run(loop_of(plan_of("a"), work, clock=clock))
    assert (L.WAITING_FOR_HUMAN, {}) == (outcome.state, dict(outcome.outputs))


# ------------------------------------------------------------------------------ judges


def verified(**fields: Any) -> Plan:
    """A plan of one step that is verified with the tool `look`, and one that needs it."""
    return plan_of(spec("a", verify=Call("look", {"seen": output("a")}), **fields), spec("b", "a"))


def test_a_verifying_call_looks_at_the_world() -> None:
    """It gets its args, its own step's output among them, and passes the step (B18)."""
    look = ScriptedTool("look", [Returns({"status": "success"})], read_only=True)
    work = ScriptedTool("work", [Returns("made")])
    assert L.COMPLETED is run(loop_of(verified(), work, look)).state
    assert [{"seen": "made"}] == [called.args for called in look.calls]


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (Returns(False), "look returned False"),
        (Returns({"status": "error", "error": "not there"}), "not there"),
        (Fails("no such file"), "look: no such file"),
        (Raises(ValueError("broken")), "look: ValueError: broken"),
        (Hangs(), "look: no result within 30 s"),
    ],
)
def test_a_verifying_call_that_does_not_find_it_fails_the_step(seen: Outcome, says: str) -> None:
    """False, a failed status, an exception and silence are no confirmation (D19)."""
    look = ScriptedTool("look", [seen], read_only=True, timeout_s=30)
    outcome = run(loop_of(verified(), ScriptedTool("work", [Returns("made")]), look))
    (failure,) = outcome.failures
    assert (K.NOT_VERIFIED, L.WAITING_FOR_HUMAN) == (failure.kind, outcome.state)
    assert says in failure.message
    assert {} == dict(outcome.outputs)


def test_a_steps_own_verification_takes_the_place_of_the_hosts() -> None:
    """The host's verifier is asked about the other steps only (B18)."""
    asked: list[str] = []

    def verifier(step: Step, value: Any) -> bool:
        asked.append(step.id)
        return True

    look = ScriptedTool("look", read_only=True)
    assert (
        L.COMPLETED is run(loop_of(verified(), ScriptedTool("work"), look, verifier=verifier)).state
    )
    assert (["b"], 1) == (asked, len(look.calls))


def test_a_step_that_is_not_verified_is_retried_when_that_is_safe() -> None:
    """VERIFICATION_FAILED is a failed state like the other (S3, S25)."""
    look = ScriptedTool("look", [Returns(False), Returns(True)], read_only=True)
    work = ScriptedTool("work", idempotent=True)
    assert L.COMPLETED is run(loop_of(verified(), work, look)).state
    assert [("a", 1), ("a", 2), ("b", 1)] == [(c.step_id, c.attempt) for c in work.calls]


def test_a_verifying_call_that_ignores_its_cancellation_is_given_up() -> None:
    """Its verdict is that nothing was confirmed (D19)."""

    async def body() -> None:
        clock, deaf = FakeClock(), Deaf(read_only=True)
        plan = plan_of(spec("a", verify=Call("deaf")))
        loop = loop_of(plan, ScriptedTool("work"), deaf.tool, clock=clock)
        task = asyncio.create_task(loop.run())
        try:
            await time_passes(clock)
            assert S.WAITING_FOR_HUMAN is loop.state.step("a").state
        finally:
            deaf.freed.set()
            await task

    in_loop(body)
