"""Driving a run: order, parallelism, commits, and how a driver comes, leaves and comes back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from loopfsm import PlanError, StepSpec, output
from loopfsm.engine.loop import Loop, Outcome
from loopfsm.errors import DriveRefused
from loopfsm.journals.memory import MemoryJournal
from loopfsm.model.event import Unit
from loopfsm.model.failure import FailureKind, RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import UNCLASSIFIED
from loopfsm.model.step import Call, Step, StepState, Verdict
from loopfsm.ports import Judgement, ToolContext
from loopfsm.testing import Fails, FakeClock, Returns, ScriptedTool, Sleeps
from loopfsm.testing.tools import Script
from loopfsm.tools.registry import tool
from tests.engine.kit import (
    SlowRetry,
    loop_of,
    plan_of,
    registry_with,
    rows_of,
    run,
    spec,
    within_reason,
)

S, L = StepState, LoopState
CHAIN = tuple(spec(f"s{i}", *([f"s{i - 1}"] if i else [])) for i in range(5))


class Gate:
    """A tool whose calls wait until a test lets them end; made inside the event loop."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.most = self.inside = 0
        self.opened = asyncio.Event()
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.tool = tool(name="work", timeout_s=None)(self.work)

    async def work(self, context: ToolContext) -> str:
        self.began.append(context.step_id)
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.arrived.set()
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1
            self.left.set()
        return context.step_id


async def pauses(count: int = 200) -> None:
    """Let the event loop run for a while, without any time."""
    for _ in range(count):
        await asyncio.sleep(0)


def in_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run an async test body that must not hang."""
    return asyncio.run(within_reason(work()))


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a drive and wait until it has left."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ------------------------------------------------------------------ the way of a result


def test_a_plan_runs_in_the_order_of_its_needs() -> None:
    """Each step starts when what it needs is verified, and its output goes on (S2, S25)."""
    work = ScriptedTool("work", lambda args, context: Returns({"of": context.step_id, **args}))
    uses = spec("c", args={"b": output("b", "of")})
    outcome = run(loop_of(plan_of(uses, spec("b", "a"), "a"), work))
    assert ["a", "b", "c"] == [called.step_id for called in work.calls]
    assert {"of": "c", "b": "b"} == outcome.outputs["c"]
    assert (L.COMPLETED, True) == (outcome.state, outcome.final)


def test_run_sync_does_as_run_does() -> None:
    """A host without an event loop gets the same outcome (S25)."""
    plan = plan_of("a", spec("b", "a"))
    assert run(loop_of(plan)) == loop_of(plan).run_sync()


def test_events_come_as_they_were_journaled() -> None:
    """Every subscriber gets each event, in the journal's order, to the end of the run (X7)."""

    async def body() -> None:
        loop = loop_of(plan_of("a", spec("b", "a")))
        first, second = loop.events(), loop.events()
        await loop.run()
        expected = list(loop.journal.events("run"))
        assert expected == [event async for event in first]
        assert expected == [event async for event in second]

    in_loop(body)


def test_an_event_is_in_the_journal_before_anyone_sees_it() -> None:
    """Nobody builds on what is not kept: journal first, then events (X7, R44)."""

    async def body() -> None:
        loop = loop_of(plan_of("a", spec("b", "a")))
        events, seen = loop.events(), 0
        task = asyncio.create_task(loop.run())
        async for event in events:
            assert event == list(loop.journal.events("run"))[seen]
            seen += 1
        await task

    in_loop(body)


class FailingJournal(MemoryJournal):
    """A disk that is full."""

    def append(self, run_id: str, units: Iterable[Unit]) -> None:
        raise OSError("no space left")


def test_nothing_acts_before_its_start_is_kept() -> None:
    """When the journal refuses, no tool is called and the run is as it was (B6)."""
    work = ScriptedTool("work")
    loop = loop_of(plan_of("a"), work, journal=FailingJournal())
    before = loop.state
    with pytest.raises(OSError, match="no space left"):
        run(loop)
    assert ([], before.steps, before.run) == (work.calls, loop.state.steps, loop.state.run)


def test_a_late_subscriber_sees_what_comes() -> None:
    """Events begin with the subscription: those of a second drive are the second drive's (X7)."""

    async def body() -> None:
        loop = loop_of(plan_of("a"), ScriptedTool("work", [Fails(), Returns()]))
        await loop.run()
        before = len(list(loop.journal.events("run")))
        loop.answer("a", "retry")
        answered = len(list(loop.journal.events("run")))
        events = loop.events()
        await loop.run()
        assert before < answered
        assert list(loop.journal.events("run"))[answered:] == [event async for event in events]

    in_loop(body)


# ----------------------------------------------------------------------- parallelism


@pytest.mark.parametrize("max_parallel", [1, 3, 20])
def test_at_most_max_parallel_steps_run_at_once(max_parallel: int) -> None:
    """The limit is reached and never passed (B33)."""

    async def body() -> None:
        gate = Gate()
        plan = plan_of(*(f"s{i}" for i in range(12)), max_parallel=max_parallel)
        task = asyncio.create_task(loop_of(plan, gate.tool).run())
        await pauses()
        assert min(max_parallel, 12) == len(gate.began)
        gate.opened.set()
        await task
        assert (12, min(max_parallel, 12)) == (len(gate.began), gate.most)

    in_loop(body)


def test_steps_start_first_come_first_served() -> None:
    """READY steps wait in a queue: a retried one goes to its end (B1, S4)."""
    script: Script = {"a": [Fails(), Returns()], **{name: [Returns()] for name in "bcd"}}
    work = ScriptedTool("work", script)
    run(loop_of(plan_of(spec("a", max_retries=1), "b", "c", "d", max_parallel=1), work))
    assert ["a", "b", "c", "d", "a"] == [called.step_id for called in work.calls]


def test_a_delayed_retry_holds_up_nobody() -> None:
    """Other branches go on while one step waits for its moment (B2, B20)."""
    clock = FakeClock(auto=True)
    script: Script = {"a": [Fails(), Returns()], "b": [Sleeps(1)], "c": [Sleeps(1)]}
    work = ScriptedTool("work", script, clock=clock)
    ladder = {UNCLASSIFIED: (RecoveryStrategy.RETRY_WITH_BACKOFF,)}
    steps = (spec("a", max_retries=1), "b", spec("c", "b"))
    plan = plan_of(*steps, ladder=ladder, backoff_base_s=5, max_parallel=1)
    outcome = run(loop_of(plan, work, clock=clock))
    assert (L.COMPLETED, 5) == (outcome.state, clock.now())
    assert ["a", "b", "c", "a"] == [called.step_id for called in work.calls]


# ---------------------------------------------------------------------------- commits


def commits(loop: Loop) -> int:
    assert isinstance(loop.journal, MemoryJournal)
    return loop.journal.commits("run")


def test_a_hundred_results_at_once_are_one_commit() -> None:
    """Completions that arrive together are kept together (S1)."""

    async def body() -> None:
        gate = Gate()
        plan = plan_of(*(f"s{i}" for i in range(100)), max_parallel=100)
        loop = loop_of(plan, gate.tool)
        task = asyncio.create_task(loop.run())
        await pauses()
        assert (100, 1) == (len(gate.began), commits(loop))
        gate.opened.set()
        await task
        assert 2 == commits(loop)

    in_loop(body)


def test_a_chain_is_one_commit_per_step() -> None:
    """A result, its verdicts and the next start are kept at once (S1, B18)."""
    loop = loop_of(plan_of(*CHAIN))
    run(loop)
    assert 1 + len(CHAIN) == commits(loop)


async def passes_later(step: Step, value: Any) -> Judgement:
    return Judgement(Verdict.PASSED)


def passes(step: Step, value: Any) -> Judgement:
    return Judgement(Verdict.PASSED)


@pytest.mark.parametrize(
    ("judges", "per_step"),
    [
        ({"evaluator": passes, "verifier": passes}, 1),
        ({"evaluator": passes_later, "verifier": passes}, 2),
        ({"evaluator": passes, "verifier": passes_later}, 2),
        ({"evaluator": passes_later, "verifier": passes_later}, 3),
    ],
)
def test_an_awaited_judge_costs_a_commit(judges: dict[str, Any], per_step: int) -> None:
    """Before a judge is awaited what it judges is kept; a synchronous one costs none (S1)."""
    loop = loop_of(plan_of(*CHAIN), **judges)
    run(loop)
    assert 1 + per_step * len(CHAIN) == commits(loop)


def test_what_an_awaited_judge_judges_is_kept_first() -> None:
    """`record` commits before the evaluator is asked, its verdict before the verifier (S1)."""
    seen: list[tuple[StepState, list[str]]] = []

    async def judge(step: Step, value: Any) -> bool:
        seen.append((step.state, rows_of(loop.journal.events("run"), "step", "a")[2:]))
        return True

    loop = loop_of(plan_of("a"), evaluator=judge, verifier=judge)
    run(loop)
    assert [S.EXECUTED, S.EVALUATED] == [state for state, _ in seen]
    assert [1, 2] == [len(rows) for _, rows in seen]


# ------------------------------------------------------------------------- at the door


def test_an_unknown_tool_is_refused_at_the_door() -> None:
    """Nothing starts when a step names no tool; every problem is listed, with its place."""
    steps = (
        StepSpec(id="a", tool="wrok"),
        StepSpec(id="b", tool="work", verify=Call("loook")),
        StepSpec(id="c", tool="work", verify=Call("work")),
    )
    tools = (ScriptedTool("work"), ScriptedTool("look", read_only=True))
    with pytest.raises(PlanError) as caught:
        loop_of(plan_of(*steps), *tools)
    places = [problem.place for problem in caught.value.problems]
    assert ["steps[0].tool", "steps[1].verify.tool", "steps[2].verify.tool"] == places
    first, second, third = (problem.message for problem in caught.value.problems)
    assert "did you mean 'work'?" in first
    assert "did you mean 'look'?" in second
    assert "not read_only" in third


def test_a_step_is_as_idempotent_as_its_tool_unless_it_says_so() -> None:
    """The author's word about a step outranks what the tool says of itself."""
    steps = ("a", spec("b", idempotent=False))
    loop = loop_of(plan_of(*steps), ScriptedTool("work", idempotent=True))
    assert [True, False] == [loop.state.step(name).spec.idempotent for name in "ab"]


def test_a_run_is_driven_by_one() -> None:
    """A second `run` at the same time is refused, and the first goes on (B33)."""

    async def body() -> None:
        gate = Gate()
        loop = loop_of(plan_of("a"), gate.tool)
        task = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        with pytest.raises(DriveRefused, match="Await the first `run` instead"):
            await loop.run()
        gate.opened.set()
        assert L.COMPLETED is (await task).state

    in_loop(body)


def test_run_sync_inside_a_running_loop_says_what_to_do() -> None:
    """It is refused with the advice to await, and nothing has started."""
    work = ScriptedTool("work")
    loop = loop_of(plan_of("a"), work)

    async def body() -> None:
        with pytest.raises(DriveRefused, match=r"Await `run\(\)` instead"):
            loop.run_sync()

    in_loop(body)
    assert ([], L.INITIALIZED) == (work.calls, loop.state.run.state)


def test_a_run_that_has_ended_is_not_run_again() -> None:
    """Driving it once more returns the same outcome and calls nothing (S28, S31)."""
    work = ScriptedTool("work")
    loop = loop_of(plan_of("a"), work)
    assert run(loop) == run(loop)
    assert 1 == len(work.calls)


# ---------------------------------------------------------------------------- parking


def test_a_run_parks_when_only_a_person_can_go_on() -> None:
    """The driver returns with the question; a journal in memory is this process's alone (B20)."""
    loop = loop_of(plan_of("a", spec("b", "a"), "c"), ScriptedTool("work", SCRIPT))
    outcome = run(loop)
    assert (L.WAITING_FOR_HUMAN, ["c"]) == (outcome.state, list(outcome.outputs))
    assert (None, False) == (loop.state.driven_at, loop.journal.durable)
    assert outcome == loop.outcome


SCRIPT: Script = {"a": [Fails()], "c": [Returns("done")]}


def test_a_parked_run_waits_without_a_driver() -> None:
    """Nothing starts while nobody drives, whatever is answered (B20, B32)."""
    work = ScriptedTool("work", {"a": [Fails(), Returns()]})
    loop = loop_of(plan_of("a"), work)
    run(loop)
    loop.answer("a", "retry")
    assert (S.READY, 1) == (loop.state.step("a").state, len(work.calls))
    assert L.COMPLETED is run(loop).state


# ---------------------------------------------------------------------------- stopping


def test_cancel_lets_what_runs_end_and_starts_nothing() -> None:
    """`cancel` drains: ABSTAINED, with what was under way recorded (S17, X5, D18)."""

    async def body() -> None:
        gate = Gate()
        loop = loop_of(plan_of("a", "b", spec("c", "a"), max_parallel=2), gate.tool)
        task = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        loop.cancel("enough")
        await pauses()
        assert (L.RECOVERING, False) == (loop.state.run.state, task.done())
        gate.opened.set()
        outcome = await task
        assert (L.ABSTAINED, "abstained: enough") == (outcome.state, outcome.reason)
        assert (["a", "b"], S.CANCELLED) == (list(outcome.outputs), loop.state.step("c").state)

    in_loop(body)


def test_cancel_works_from_another_thread() -> None:
    """A signal handler or a web request may stop a run (B32)."""

    async def body() -> Outcome:
        gate = Gate()
        loop = loop_of(plan_of("a", spec("b", "a")), gate.tool)
        task = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        await asyncio.to_thread(loop.cancel)
        gate.opened.set()
        return await task

    assert L.ABSTAINED is in_loop(body).state


def test_cancelling_an_idle_run_ends_it_at_once() -> None:
    """Before it was ever driven, or parked, there is nothing to wait for (S17)."""
    fresh = loop_of(plan_of("a"))
    fresh.cancel()
    parked = loop_of(plan_of("a"), ScriptedTool("work", [Fails()]))
    run(parked)
    parked.cancel()
    for loop in (fresh, parked):
        assert (L.ABSTAINED, ()) == (loop.outcome.state, loop.outcome.questions)
        with pytest.raises(DriveRefused, match="the run has ended as ABSTAINED"):
            loop.cancel()


# ------------------------------------------------------------------- dying, coming back


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_cancelled_drive_can_be_taken_up_again(idempotent: bool) -> None:
    """What was under way starts over where that is safe; else a person is asked (B32, S6)."""

    async def body() -> None:
        gate = Gate()
        loop = loop_of(plan_of(spec("a", idempotent=idempotent), spec("b", "a")), gate.tool)
        task = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        await cancelled(task)
        assert (0, S.RUNNING) == (gate.inside, loop.state.step("a").state)
        gate.opened.set()
        outcome = await loop.run()
        if idempotent:
            assert (L.COMPLETED, ["a", "a", "b"]) == (outcome.state, gate.began)
        else:
            assert (L.WAITING_FOR_HUMAN, ["a"]) == (outcome.state, gate.began)
            assert FailureKind.INTERRUPTED is outcome.failures[0].kind

    in_loop(body)


def test_a_drive_that_was_cancelled_twice_can_be_taken_up_again() -> None:
    """Who does not wait for a tool that still cleans up does not lose the run (B32)."""

    async def body() -> None:
        began, cleaned_up = asyncio.Event(), asyncio.Event()

        @tool(name="work", timeout_s=None, idempotent=True)
        async def work(context: ToolContext) -> None:
            if context.attempt == 1:
                began.set()
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    await cleaned_up.wait()

        loop = loop_of(plan_of("a"), work)
        task = asyncio.create_task(loop.run())
        await began.wait()
        task.cancel()
        await pauses()
        await cancelled(task)
        cleaned_up.set()
        assert L.COMPLETED is (await loop.run()).state

    in_loop(body)


def test_an_interrupt_from_the_keyboard_leaves_a_run_that_goes_on() -> None:
    """Ctrl-C stops the tools and passes through; the run is taken up by the next drive (B32)."""
    calls: list[int] = []

    @tool(name="work", timeout_s=None, idempotent=True)
    async def work(context: ToolContext) -> str:
        calls.append(context.attempt)
        if context.attempt == 1:
            signal.raise_signal(signal.SIGINT)
            await asyncio.get_running_loop().create_future()
        return "done"

    loop = loop_of(plan_of("a"), work)
    with pytest.raises(KeyboardInterrupt):
        loop.run_sync()
    assert L.COMPLETED is loop.run_sync().state
    assert [1, 2] == calls


def test_timers_outlive_their_driver() -> None:
    """A delayed retry is due in the next drive as it was in the first (B2, B32)."""

    async def body() -> None:
        clock = FakeClock()
        loop = delayed(clock)
        task = asyncio.create_task(loop.run())
        await pauses()
        assert S.RETRY_PENDING is loop.state.step("a").state
        await cancelled(task)
        task = asyncio.create_task(loop.run())
        await pauses()
        clock.advance(1)
        assert L.COMPLETED is (await task).state

    in_loop(body)


def delayed(clock: FakeClock) -> Loop:
    ladder = {UNCLASSIFIED: (RecoveryStrategy.RETRY_WITH_BACKOFF,)}
    work = ScriptedTool("work", [Fails(), Returns()])
    return loop_of(plan_of(spec("a", max_retries=1), ladder=ladder), work, clock=clock)


def test_a_timer_that_was_due_when_the_driver_died_is_due_again() -> None:
    """No moment is lost between two drives (B2, B32)."""

    async def body() -> None:
        clock = FakeClock()
        loop = delayed(clock)
        task = asyncio.create_task(loop.run())
        await pauses()
        clock.advance(1)
        await cancelled(task)
        assert L.COMPLETED is (await loop.run()).state

    in_loop(body)


def test_a_result_that_had_come_when_the_driver_died_is_kept() -> None:
    """An attempt whose result arrived is not one that was interrupted (B32)."""

    async def body() -> None:
        gate = Gate()
        loop = loop_of(plan_of("a"), gate.tool)
        task = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        gate.opened.set()
        await gate.left.wait()
        await cancelled(task)
        assert L.COMPLETED is (await loop.run()).state

    in_loop(body)


def test_a_preparation_that_died_with_its_driver_is_planned_again() -> None:
    """The recovery is withdrawn, its attempt spent, and decided anew (B9, B32)."""

    async def body() -> None:
        slow = SlowRetry()
        ladder = {UNCLASSIFIED: (slow.strategy,)}
        work = ScriptedTool("work", [Fails(), Returns()])
        plan = plan_of(spec("a", max_retries=1), ladder=ladder)
        loop = loop_of(plan, work, recovery=registry_with(slow))
        task = asyncio.create_task(loop.run())
        await slow.began.wait()
        await cancelled(task)
        slow.may_end.set()
        assert L.COMPLETED is (await loop.run()).state
        assert 2 == loop.state.spent["recoveries/a"]

    in_loop(body)


def test_a_recovery_is_prepared_beside_the_steps_that_go_on() -> None:
    """Preparing holds its scope, not the run; applied, the step runs again (B33, S19)."""

    async def body() -> None:
        slow = SlowRetry()
        ladder = {UNCLASSIFIED: (slow.strategy,)}
        script: Script = {"a": [Fails(), Returns()], "b": [Returns()], "c": [Returns()]}
        plan = plan_of(spec("a", max_retries=1), "b", spec("c", "b"), ladder=ladder)
        loop = loop_of(plan, ScriptedTool("work", script), recovery=registry_with(slow))
        task = asyncio.create_task(loop.run())
        await slow.began.wait()
        await pauses()
        assert [S.VERIFIED_COMPLETED, S.READY] == [loop.state.step(n).state for n in "bc"]
        assert (L.RECOVERING, False) == (loop.state.run.state, task.done())
        slow.may_end.set()
        assert L.COMPLETED is (await task).state

    in_loop(body)
