"""A process dies; another one takes its run up: nothing is lost, nothing is done twice unasked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopfsm.engine.loop import Loop, Outcome
from loopfsm.errors import RunChanged
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.failure import FailureKind, FailureState, RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import UNCLASSIFIED, Budget, Plan
from loopfsm.model.step import Call, Output, Step, StepState
from loopfsm.recovery.registry import RecoveryRegistry, default_registry
from loopfsm.review.plans import Reconsider
from loopfsm.testing import Fails, FakeClock, Returns, ScriptedTool
from loopfsm.tools.registry import tool
from tests.engine.kit import (
    SlowRetry,
    indexes,
    loop_of,
    plan_of,
    registry_with,
    run,
    spec,
    within_reason,
)
from tests.journals.dying import Died, Dying
from tests.journals.kit import loaded, opened, resumed

S, L = StepState, LoopState
BACKOFF = {UNCLASSIFIED: (RecoveryStrategy.RETRY_WITH_BACKOFF,)}
SAFE: dict[str, Any] = {"idempotent": True}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with opened(tmp_path / "journal.db", durability="process") as made:
        yield made


def dies_at(at: int, loop_on: Callable[[Any], Loop], journal: SqliteJournal, **words: Any) -> Loop:
    """Drive a new run until its process dies at a commit."""
    loop = loop_on(Dying(journal, at, **words))
    with pytest.raises(Died):
        run(loop)
    return loop


# ------------------------------------------------------------------ wherever it dies


@attrs.define
class World:
    """What a run acts on, and how it is driven; it outlives the processes that drive it."""

    plan: Plan
    script: Any = (Returns(1),)
    words: Mapping[str, Any] = attrs.field(factory=dict)
    tool: ScriptedTool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tool = ScriptedTool("work", self.script, idempotent=True, read_only=True)

    def loop(self, journal: Any) -> Loop:
        return loop_of(self.plan, self.tool, journal=journal, **self.words)

    def resumed(self, journal: SqliteJournal) -> Loop:
        return resumed(journal, self.tool, **self.words)

    @property
    def calls(self) -> Counter[str]:
        return Counter(called.step_id for called in self.tool.calls)


async def approves(step: Step, output: Any) -> bool:
    return True


def handed_on(args: Mapping[str, Any], context: Any) -> Returns:
    return Returns({"of": context.step_id, "got": sorted(map(repr, args.values()))})


def chain() -> World:
    uses = (spec("b", args={"x": Output("a", ("of",))}), spec("c", args={"x": Output("b")}))
    return World(plan_of("a", *uses), handed_on)


def diamond() -> World:
    last = spec("d", args={"x": Output("b"), "y": Output("c")})
    return World(plan_of("a", spec("b", "a"), spec("c", "a"), last), handed_on)


def retried() -> World:
    script = {"a": [Fails(), Fails(executed=False), Returns(1)], "b": [Returns(2)]}
    return World(plan_of("a", spec("b", "a"), ladder=BACKOFF), script)


def judged() -> World:
    return World(plan_of("a", spec("b", "a")), words={"evaluator": approves, "verifier": approves})


def verified() -> World:
    return World(plan_of(spec("a", verify=Call("work", {"own": Output("a")})), spec("b", "a")))


def prepared() -> World:
    slow = SlowRetry()
    slow.may_end.set()
    script = {"a": [Fails(), Returns(1)], "b": [Returns(2)]}
    plan = plan_of("a", spec("b", "a"), ladder={UNCLASSIFIED: (SlowRetry.strategy,)})
    return World(plan, script, {"recovery": registry_with(slow)})


def fails() -> World:
    script = {"a": [Fails()], "b": [Returns(2)]}
    return World(plan_of("a", "b", when_exhausted="fail", max_retries=1), script)


WORLDS = (chain, diamond, retried, judged, verified, prepared, fails)


def commits_of(world: World, path: Path) -> tuple[Outcome, int]:
    """How a run ends that nobody kills, and after how many commits."""
    with opened(path, durability="process") as journal:
        dying = Dying(journal, 0)
        return run(world.loop(dying)), dying.commits


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("world_of", WORLDS, ids=lambda each: each.__name__)
def test_wherever_the_process_dies_the_run_ends_the_same(
    world_of: Callable[[], World], committed: bool, tmp_path: Path
) -> None:
    """Around each commit: same end, same outputs, and what was completed is not run again (B32)."""
    expected, commits = commits_of(world_of(), tmp_path / "whole.db")
    assert commits >= 3
    for at in range(1, commits + 1):
        world = world_of()
        with opened(tmp_path / f"{at}.db", durability="process") as journal:
            try:
                run(world.loop(Dying(journal, at, committed)))
            except Died:
                pass
            loop = world.resumed(journal)
            steps = [loop.state.step(each.id) for each in world.plan.steps]
            completed = [step.id for step in steps if step.state is S.VERIFIED_COMPLETED]
            had = [world.calls[step_id] for step_id in completed]
            outcome = run(loop)
            assert (expected.state, expected.outputs) == (outcome.state, outcome.outputs), at
            assert had == [world.calls[step_id] for step_id in completed]
            assert indexes(loop.state) == loaded(journal)
            ended_it = committed and at == commits  # then nobody has driven it since
            assert ended_it == (journal.header("run").hold is not None)


@pytest.mark.parametrize("deaths", [(1, 1, 1), (2, 1, 2), (2, 2, 2)])
def test_a_run_outlives_many_processes(deaths: tuple[int, ...], journal: SqliteJournal) -> None:
    """One after the other dies, and the last one ends it (B32)."""
    world = chain()
    dies_at(deaths[0], world.loop, journal)
    for at in deaths[1:]:
        dies_at(at, world.resumed, journal)
    outcome = run(world.resumed(journal))
    assert (L.COMPLETED, {"a", "b", "c"}) == (outcome.state, set(outcome.outputs))
    assert 4 == journal.load("run").epoch


# ------------------------------------------------------------------ what was under way


def test_what_is_safe_to_repeat_is_repeated_at_the_cost_of_a_recovery(
    journal: SqliteJournal,
) -> None:
    """The same act under the same key; it is no retry that a failure asked for (B31, B32)."""
    world = World(plan_of("a", spec("b", "a")))
    dies_at(2, world.loop, journal)
    loop = world.resumed(journal)
    assert S.RUNNING is loop.state.step("a").state
    assert L.COMPLETED is run(loop).state
    step, calls = loop.state.step("a"), [c for c in world.tool.calls if c.step_id == "a"]
    assert (2, 0, 1.0) == (step.attempt, step.retry_count, loop.state.spent["recoveries/a"])
    assert ([1, 2], 1) == ([c.attempt for c in calls], len({c.idempotency_key for c in calls}))


def test_what_is_not_safe_to_repeat_is_asked_about(journal: SqliteJournal) -> None:
    """What it did is unknown: nobody repeats it unasked (B32)."""
    work = ScriptedTool("work")
    dies_at(2, lambda dying: loop_of(plan_of("a", spec("b", "a")), work, journal=dying), journal)
    loop = resumed(journal, work)
    outcome = run(loop)
    assert (L.WAITING_FOR_HUMAN, [FailureKind.INTERRUPTED]) == (
        outcome.state,
        [failure.kind for failure in outcome.failures],
    )
    assert 1 == len(work.calls)
    loop.answer("a", "retry")
    assert L.COMPLETED is run(loop).state
    assert ["a", "a", "b"] == [called.step_id for called in work.calls]


@pytest.mark.parametrize("at", [3, 4], ids=["EXECUTED", "EVALUATED"])
def test_a_recorded_result_is_judged_and_not_made_again(at: int, journal: SqliteJournal) -> None:
    """The judges see the output that the process before has recorded (B32)."""
    seen: list[tuple[str, Any]] = []

    def judge(name: str) -> Callable[[Step, Any], Any]:
        async def judged(step: Step, output: Any) -> bool:
            seen.append((name, output))
            return True

        return judged

    words = {"evaluator": judge("evaluator"), "verifier": judge("verifier")}
    work = ScriptedTool("work", [Returns({"n": (1, 2)})])
    dies_at(at, lambda dying: loop_of(plan_of("a"), work, journal=dying, **words), journal)
    loop = resumed(journal, work, **words)
    assert ("EXECUTED", "EVALUATED")[at - 3] == loop.state.step("a").state.value
    seen.clear()
    assert L.COMPLETED is run(loop).state
    expected = ["evaluator", "verifier"][at - 3 :]
    assert ([(name, {"n": (1, 2)}) for name in expected], 1) == (seen, len(work.calls))


@pytest.mark.parametrize(("now", "begins"), [(3.0, 10.0), (10.0, 10.0), (50.0, 50.0)])
def test_a_delay_goes_on_where_it_was(now: float, begins: float, journal: SqliteJournal) -> None:
    """A delayed retry waits for its moment, also in another process, and never longer (S8)."""
    world = World(plan_of("a", ladder=BACKOFF, backoff_base_s=10), {"a": [Fails(), Returns(1)]})
    dies_at(2, world.loop, journal, committed=True)
    loop = resumed(journal, world.tool, clock=FakeClock(now, auto=True))
    step = loop.state.step("a")
    assert (S.RETRY_PENDING, 10.0) == (step.state, step.not_before)
    assert L.COMPLETED is run(loop).state
    assert (begins, 2) == (loop.state.step("a").start_time, world.calls["a"])


def test_a_recovery_that_was_being_prepared_is_withdrawn(journal: SqliteJournal) -> None:
    """What its process knew is gone; its attempt stays spent, and the ladder decides anew (B9)."""
    slow, world = SlowRetry(), prepared()
    dying = Dying(journal, 0)

    async def until_it_prepares() -> None:
        loop = loop_of(world.plan, world.tool, journal=dying, recovery=registry_with(slow))
        drive = asyncio.create_task(loop.run())
        await slow.began.wait()
        dying.dies(now=True)
        drive.cancel()
        with pytest.raises((Died, asyncio.CancelledError)):
            await drive

    asyncio.run(within_reason(until_it_prepares()))
    loop = world.resumed(journal)
    assert FailureState.RECOVERY_PLANNED is loop.state.failures["F1"].state
    outcome = run(loop)
    assert (L.COMPLETED, [FailureState.RECOVERED]) == (
        outcome.state,
        [failure.state for failure in outcome.failures],
    )
    assert (2, 2.0) == (outcome.failures[0].plans, outcome.spent["recoveries/a"])


@pytest.mark.parametrize(
    ("choice", "ends", "calls"),
    [
        ("retry", L.COMPLETED, ["a", "a", "b"]),
        ("skip", L.PARTIALLY_COMPLETED, ["a"]),
        ("stop", L.ABSTAINED, ["a"]),
    ],
)
def test_the_order_of_a_person_survives(
    choice: str, ends: LoopState, calls: list[str], journal: SqliteJournal
) -> None:
    """An answer that was committed is carried out, by whoever drives next (S16, B20)."""
    work = ScriptedTool("work", {"a": [Fails(), Returns(1)], "b": [Returns(2)]})
    dying = Dying(journal, 0, committed=True)
    loop = loop_of(plan_of("a", spec("b", "a")), work, journal=dying)
    run(loop)
    dying.at = dying.commits + 1
    with pytest.raises(Died):
        loop.answer("a", choice, token="t")
    outcome = run(resumed(journal, work))
    assert (ends, calls, ()) == (outcome.state, [c.step_id for c in work.calls], outcome.questions)


def test_a_budget_that_was_raised_stays_raised(journal: SqliteJournal) -> None:
    """The person's number is the limit, in every later process."""
    work = ScriptedTool("work", **SAFE)
    loop = loop_of(plan_of("a", spec("b", "a"), budget=Budget(tool_calls=1)), work, journal=journal)
    run(loop)
    loop.answer("run", "raise", to=2)
    again = resumed(journal, work)
    assert 2 == again.state.limit_of("tool_calls")
    assert (L.COMPLETED, 2) == (run(again).state, len(work.calls))


def test_a_run_that_has_ended_is_over(journal: SqliteJournal) -> None:
    """Taken up, it says how it ended, and nothing runs."""
    world = chain()
    expected = run(world.loop(journal))
    calls, events = world.calls, journal.header("run").events
    assert expected == run(resumed(journal, world.tool)) == resumed(journal).outcome
    assert (calls, events) == (world.calls, journal.header("run").events)


# ------------------------------------------------------------------ is everything still there


class Altered(Reconsider):
    """`RECONSIDER` with a row that has lost its guard."""

    rows = (attrs.evolve(Reconsider.rows[0], guards=()),)


def with_reconsider(journal: Any) -> Loop:
    """A run that has used the row STEP-90."""
    work = ScriptedTool("work", [Fails(), Fails(), Returns(1)])
    plan = plan_of(spec("a", **SAFE), recoveries=1, ladder={UNCLASSIFIED: ("RECONSIDER",)})
    return loop_of(plan, work, journal=journal, recovery=registry_with(Reconsider()))


@pytest.mark.parametrize(
    ("recovery", "says"),
    [
        (registry_with(Altered()), ["row STEP-90: it has changed since the run used it"]),
        (default_registry(), ["row STEP-90: the run has used it, and it is gone", "RECONSIDER"]),
    ],
    ids=["changed", "gone"],
)
def test_a_row_that_is_not_what_it_was_is_refused_by_name(
    recovery: RecoveryRegistry, says: list[str], journal: SqliteJournal
) -> None:
    """A run goes on by the rows it was begun with, or not at all; it stays as it was."""
    assert L.WAITING_FOR_HUMAN is run(with_reconsider(journal)).state
    before = loaded(journal), journal.header("run")
    with pytest.raises(RunChanged, match="cannot be resumed here") as refused:
        resumed(journal, ScriptedTool("work"), recovery=recovery)
    problems = list(map(str, refused.value.problems))
    assert [True] * len(says) == [
        said in problem for said, problem in zip(says, problems, strict=True)
    ]
    assert before == (loaded(journal), journal.header("run"))


def test_rows_that_were_added_change_nothing(journal: SqliteJournal) -> None:
    """A newer version may know more; also a row that the run has never used may change."""
    world = retried()
    dies_at(3, world.loop, journal)
    for handler in (Reconsider(), Altered()):
        loop = resumed(journal, world.tool, recovery=registry_with(handler))
        assert 3 == len(loop.state.plan.steps) + 1
    assert L.COMPLETED is run(loop).state


def test_a_missing_tool_is_named(journal: SqliteJournal) -> None:
    """With the step that needs it; nothing has changed, and with the tool it goes on."""
    work, other = ScriptedTool("work", **SAFE), ScriptedTool("other", **SAFE)
    plan = plan_of("a", spec("b", "a", tool="other"), spec("c", "b", tool="other"))
    dies_at(2, lambda dying: loop_of(plan, work, other, journal=dying), journal)
    before = loaded(journal), journal.header("run")
    with pytest.raises(RunChanged, match=r"steps\[1\].*'other'.*no such tool.*was begun with"):
        resumed(journal, work)
    assert before == (loaded(journal), journal.header("run"))
    assert L.COMPLETED is run(resumed(journal, work, other)).state


def test_a_tool_that_nobody_will_call_is_not_missed(journal: SqliteJournal) -> None:
    """The steps that used it are done."""
    work, other = ScriptedTool("work", **SAFE), ScriptedTool("other", **SAFE)
    plan = plan_of("a", spec("b", "a", tool="other"))
    dies_at(3, lambda dying: loop_of(plan, work, other, journal=dying), journal)
    assert L.COMPLETED is run(resumed(journal, other)).state


def test_the_plan_is_that_of_the_journal(journal: SqliteJournal) -> None:
    """Whatever became of the file it was read from."""
    world = verified()
    loop = dies_at(2, world.loop, journal)
    world.plan = plan_of("something else")
    again = world.resumed(journal)
    assert loop.state.plan.policy == again.state.plan.policy
    assert list(loop.state.plan.steps) == list(again.state.plan.steps)


# ------------------------------------------------------------------ what cannot be kept


@attrs.frozen
class Size:
    """What a tool returns."""

    bytes: int


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"x": [1, {2}]}, "step a: output.x[1] cannot be kept in a journal: a set; return a list"),
        (object(), "step a: output cannot be kept in a journal: a object"),
        ([10**5000], "step a: output[0] cannot be kept in a journal: a whole number of"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_its_attempt(
    value: Any, says: str, journal: SqliteJournal
) -> None:
    """The failure names step, place and type; the tool has acted, and is not repeated unasked."""
    work = ScriptedTool("work", [Returns(value)])
    loop = loop_of(plan_of("a"), work, journal=journal)
    outcome = run(loop)
    (failure,) = outcome.failures
    assert (FailureKind.REJECTED, says) == (failure.kind, failure.message[: len(says)])
    assert (L.WAITING_FOR_HUMAN, 1) == (outcome.state, len(work.calls))
    assert indexes(loop.state) == loaded(journal)


def test_a_class_is_handed_on_as_a_later_process_reads_it(journal: SqliteJournal) -> None:
    """Its fields where the tool names no type, the class where it does; before and after."""

    @tool(name="typed", idempotent=True)
    async def typed() -> Size:
        return Size(3)

    @tool(name="untyped", idempotent=True)
    async def untyped() -> Any:
        return Size(3)

    plan = plan_of(spec("a", tool="typed"), spec("b", tool="untyped"))
    expected = {"a": Size(3), "b": {"bytes": 3}}
    assert expected == run(loop_of(plan, typed, untyped, journal=journal)).outputs
    assert expected == resumed(journal, typed, untyped).outcome.outputs
