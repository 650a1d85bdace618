"""Two loops on one run: who drives, who only speaks, who finds that it has been driven."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopfsm.engine.loop import Loop
from loopfsm.errors import AnswerRefused, DriveRefused, LeaseHeld, LeaseLost
from loopfsm.journals.memory import MemoryJournal
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import LoopState
from loopfsm.model.step import StepState
from loopfsm.ports import Journal, ToolContext
from loopfsm.testing import Fails, FakeClock, Returns, ScriptedTool
from loopfsm.tools.registry import tool
from tests.engine.kit import indexes, loop_of, plan_of, run, spec, within_reason
from tests.journals.dying import Died, Dying, buried
from tests.journals.kit import ROWS, loaded, opened, resumed

S, L = StepState, LoopState
ONE_SECOND = 1.0
"""Of its clock: within it a driver notices what was sent."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    with opened(path, durability="process") as made:
        yield made


@pytest.fixture
def beside(journal: SqliteJournal) -> Iterator[SqliteJournal]:
    """Another connection to the same file, as another process has it."""
    with opened(journal.path, durability="process") as made:
        yield made


class Gate:
    """A tool whose calls wait until a test lets them end."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.opened, self.arrived = asyncio.Event(), asyncio.Event()
        self.tool = tool(name="gate", idempotent=True, timeout_s=None)(self.work)

    async def work(self, context: ToolContext) -> str:
        self.began.append(context.step_id)
        self.arrived.set()
        await self.opened.wait()
        return context.step_id


async def settled() -> None:
    """Let the event loop run for a while, without any time."""
    for _ in range(200):
        await asyncio.sleep(0)


def in_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run an async test body that must not hang."""
    return asyncio.run(within_reason(work()))


# ------------------------------------------------------------------ an orderly stop


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_stop_lets_what_is_under_way_end(kind: str, journal: SqliteJournal) -> None:
    """It is recorded, nothing new starts, and the run is free for whoever comes next (B32)."""
    kept: Journal = MemoryJournal() if kind == "memory" else journal

    async def body() -> None:
        gate = Gate()
        plan = plan_of(spec("a", tool="gate"), spec("b", "a", tool="gate"))
        loop = loop_of(plan, gate.tool, journal=kept)
        loop.stop()  # nobody drives: nothing happens
        drive = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        loop.stop()
        loop.stop()
        await settled()
        assert not drive.done()
        gate.opened.set()
        outcome = await drive
        assert (False, ["a"], {"a": "a"}) == (outcome.final, gate.began, dict(outcome.outputs))
        assert S.READY is loop.state.step("b").state
        assert kept.header("run").hold is None
        assert indexes(loop.state) == loaded(kept)
        outcome = await loop.run()
        assert (L.COMPLETED, ["a", "b"]) == (outcome.state, gate.began)

    in_loop(body)


def test_a_stopped_run_is_taken_up_elsewhere(journal: SqliteJournal, beside: SqliteJournal) -> None:
    """Nothing was interrupted: it costs no recovery (B32)."""

    async def body() -> None:
        gate = Gate()
        plan = plan_of(spec("a", tool="gate"), spec("b", "a", tool="gate"))
        loop = loop_of(plan, gate.tool, journal=journal)
        drive = asyncio.create_task(loop.run())
        await gate.arrived.wait()
        loop.stop()
        gate.opened.set()
        await drive
        outcome = await resumed(beside, gate.tool).run()
        assert (L.COMPLETED, ["a", "b"]) == (outcome.state, gate.began)
        assert not [name for name in outcome.spent if name.startswith("recoveries/")]

    in_loop(body)


def test_a_stop_waits_for_no_delay(journal: SqliteJournal) -> None:
    """A step that waits for its retry is taken up later, at its moment (B2)."""

    async def body() -> None:
        clock = FakeClock()
        work = ScriptedTool("work", [Fails(), Returns(1)], idempotent=True)
        ladder = {"unclassified": ("RETRY_WITH_BACKOFF",)}
        plan = plan_of("a", ladder=ladder, backoff_base_s=10)
        loop = loop_of(plan, work, journal=journal, clock=clock)
        drive = asyncio.create_task(loop.run())
        await settled()
        loop.stop()
        assert not (await drive).final
        assert S.RETRY_PENDING is loop.state.step("a").state
        outcome = await resumed(journal, work, clock=FakeClock(2.0, auto=True)).run()
        assert L.COMPLETED is outcome.state

    in_loop(body)


# ------------------------------------------------------------------ a word from elsewhere


class Both:
    """A loop that drives, held up by a gate in step `c`, with an open question about `a`."""

    def __init__(self, journal: SqliteJournal, beside: SqliteJournal) -> None:
        self.gate, self.clock = Gate(), FakeClock()
        self.work = ScriptedTool("work", {"a": [Fails(), Returns(1)], "b": [Returns(2)]})
        plan = plan_of("a", spec("b", "a"), spec("c", tool="gate"))
        tools = (self.work, self.gate.tool)
        self.driver = loop_of(plan, *tools, journal=journal, clock=self.clock)
        self.drive = asyncio.create_task(self.driver.run())
        self.beside = beside

    async def ready(self) -> Loop:
        """Wait until it asks, and take the run up beside it."""
        await self.gate.arrived.wait()
        await settled()
        assert self.driver.state.is_asking
        return resumed(self.beside, self.work, self.gate.tool, clock=self.clock)

    async def noticed(self) -> None:
        self.clock.advance(ONE_SECOND)
        await settled()

    async def ended(self) -> Any:
        self.gate.opened.set()
        return await self.drive


def test_an_answer_reaches_the_driver_within_a_second(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """It is left in the journal; the driver takes it in a commit of its own, and replies (S16)."""

    async def body() -> None:
        both = Both(journal, beside)
        other = await both.ready()
        other.answer("a", "retry", said="from elsewhere", token="t")
        await settled()
        sent = beside.message("run", "t")
        assert sent is not None
        assert (None, "from elsewhere") == (sent.reply, sent.said)
        await both.noticed()
        sent = beside.message("run", "t")
        assert sent is not None
        assert sent.accepted
        assert S.VERIFIED_COMPLETED is both.driver.state.step("b").state
        assert "from elsewhere" == both.driver.state.questions["Q1"].said
        assert L.COMPLETED is (await both.ended()).state
        assert indexes(both.driver.state) == loaded(beside)

    in_loop(body)


def test_an_answer_that_does_not_fit_is_refused_in_the_reply(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """Whoever sent it can read why; nothing has changed, and the question is still open."""

    async def body() -> None:
        both = Both(journal, beside)
        other = await both.ready()
        other.answer("b", "retry", token="t")
        with pytest.raises(AnswerRefused, match="the token 't' was used before"):
            other.answer("a", "retry", token="t")
        await both.noticed()
        sent = beside.message("run", "t")
        assert sent is not None
        assert (False, True) == (sent.accepted, "nothing is asked about 'b'" in (sent.reply or ""))
        assert both.driver.state.is_asking
        await both.ended()

    in_loop(body)


def test_a_cancel_reaches_the_driver_within_a_second(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """What is under way ends and is recorded; then the run is over."""

    async def body() -> None:
        both = Both(journal, beside)
        (await both.ready()).cancel("from elsewhere")
        await both.noticed()
        outcome = await both.ended()
        assert (L.ABSTAINED, True) == (outcome.state, "from elsewhere" in outcome.reason)
        assert {"c": "c"} == dict(outcome.outputs)
        assert indexes(both.driver.state) == loaded(beside)

    in_loop(body)


def test_who_does_not_drive_cannot_drive_either(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """A second `run` is refused with the name of the first (B33)."""

    async def body() -> None:
        both = Both(journal, beside)
        other = await both.ready()
        with pytest.raises(LeaseHeld, match="is being driven by process"):
            await other.run()
        await both.ended()

    in_loop(body)


def test_an_answer_before_anyone_drives_is_found_by_the_driver(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """A word that was sent to a run nobody drove any more is read first of all."""

    async def body() -> None:
        both = Both(journal, beside)
        other = await both.ready()
        other.answer("a", "retry", token="t")
        await both.ended()  # it has looked once more, or its successor will
        outcome = await resumed(beside, both.work, both.gate.tool).run()
        sent = beside.message("run", "t")
        assert sent is not None
        assert (True, L.COMPLETED) == (sent.accepted, outcome.state)

    in_loop(body)


# ------------------------------------------------------------------ driven elsewhere meanwhile


def asking(journal: SqliteJournal) -> tuple[Loop, ScriptedTool]:
    """A loop that rests with a question about `a`."""
    work = ScriptedTool("work", {"a": [Fails(), Returns(1)], "b": [Returns(2)]})
    loop = loop_of(plan_of("a", spec("b", "a")), work, journal=journal)
    run(loop)
    return loop, work


def test_a_loop_at_rest_reads_what_another_has_done(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """Before it acts: an answer to what is no longer asked is refused, a drive finds the end."""
    loop, work = asking(journal)
    other = resumed(beside, work)
    other.answer("a", "retry")
    assert L.COMPLETED is run(other).state
    assert L.WAITING_FOR_HUMAN is loop.state.run.state
    with pytest.raises(AnswerRefused, match="the run has ended as COMPLETED"):
        loop.answer("a", "skip")
    assert (L.COMPLETED, 3) == (run(loop).state, len(work.calls))
    assert indexes(other.state) == indexes(loop.state)
    with pytest.raises(DriveRefused, match="the run has ended as COMPLETED"):
        loop.cancel()


def test_a_loop_at_rest_goes_on_from_what_another_has_left(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """An answer that one took is carried out by the other."""
    loop, work = asking(journal)
    resumed(beside, work).answer("a", "retry")
    assert (L.COMPLETED, 3) == (run(loop).state, len(work.calls))
    assert indexes(loop.state) == loaded(beside)


def test_a_loop_at_rest_takes_up_what_another_died_in(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """It had nothing under way itself: what the other left is interrupted all the same (B32)."""
    loop, work = asking(journal)
    other = resumed(Dying(beside, 3), work)
    other.answer("a", "retry")
    with pytest.raises(Died):
        run(other)
    assert S.WAITING_FOR_HUMAN is loop.state.step("a").state
    outcome = run(loop)
    assert (FailureKind.INTERRUPTED, L.WAITING_FOR_HUMAN) == (
        outcome.failures[-1].kind,
        outcome.state,
    )
    assert indexes(loop.state) == loaded(beside)


def test_a_loop_that_lost_its_run_writes_nothing_more(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """Another driver has taken it over: `run` raises, and later finds what that one did."""

    async def body() -> None:
        both = Both(journal, beside)
        await both.ready()
        buried(journal)
        lease = beside.acquire("run", both.clock.now(), 30, ROWS)
        before = loaded(beside), list(beside.events("run"))
        both.clock.advance(20.0)  # more than a third of its lease: it says that it is there
        with pytest.raises(LeaseLost) as lost:
            await both.ended()
        assert ("run", 1) == (lost.value.run_id, lost.value.epoch)
        assert before == (loaded(beside), list(beside.events("run")))
        with pytest.raises(LeaseHeld):
            await both.driver.run()
        lease.release(both.clock.now())
        outcome = await both.driver.run()
        assert (L.WAITING_FOR_HUMAN, ["c", "c"]) == (outcome.state, both.gate.began)
        assert indexes(both.driver.state) == loaded(beside)

    in_loop(body)


def test_a_silent_driver_elsewhere_keeps_its_run_by_renewing(
    journal: SqliteJournal, beside: SqliteJournal
) -> None:
    """A step may take longer than the lease lasts."""

    async def body() -> None:
        both = Both(journal, beside)
        await both.ready()
        with sqlite3.connect(journal.path) as connection:
            connection.execute("UPDATE heads SET host = 'elsewhere'")
        connection.close()
        for _ in range(200):
            both.clock.advance(ONE_SECOND)
            with pytest.raises(LeaseHeld):
                beside.acquire("run", both.clock.now(), 30, ROWS)
        assert L.WAITING_FOR_HUMAN is (await both.ended()).state

    in_loop(body)
