"""Runs that every journal must keep: one for each way that a run can go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopfsm.engine.loop import Loop
from loopfsm.model.failure import RecoveryStrategy
from loopfsm.model.plan import UNCLASSIFIED, Budget
from loopfsm.model.step import Call, EnvironmentValue, Output, Step, Verdict
from loopfsm.ports import Journal, Judgement
from loopfsm.testing import Fails, FakeClock, Returns, ScriptedTool, Sleeps
from tests.engine.kit import SlowRetry, loop_of, plan_of, registry_with, run, spec

BACKOFF = {UNCLASSIFIED: (RecoveryStrategy.RETRY_WITH_BACKOFF,)}
SAFE = {"idempotent": True}
FAILS_TWICE = (Fails("no \ud800", executed=False), Fails("again"), Returns("at last"))


def _succeeds(journal: Journal) -> Loop:
    """Outputs of many kinds, used by later steps."""
    work = ScriptedTool(
        "work",
        {
            "a": [Returns({"n": 1, "t": (1, (2,)), "text": "x\0\ud800", "f": 0.5, 3: None})],
            "b": [Returns([True, None, {"$path": "no path"}])],
            "c": [Returns("y" * 70_000)],
            "d": [Returns(None)],
            "e": [Returns(b"bytes")],
        },
        read_only=True,
    )
    plan = plan_of(
        "a",
        spec("b", args={"n": Output("a", ("n",)), "deep": [{"env": EnvironmentValue("TOKEN")}]}),
        spec("c", "b", description="long", timeout_s=5),
        spec("d", args={"all": Output("c")}, verify=Call("work", {"own": Output("d")})),
        spec("e", "d"),
    )
    return loop_of(plan, work, journal=journal, environment={"TOKEN": "s3cr3t-value"})


def _retries(journal: Journal) -> Loop:
    """Two failures, each with its delay, and a success."""
    work = ScriptedTool("work", {"a": FAILS_TWICE, "b": [Returns(1)]})
    return loop_of(
        plan_of(spec("a", **SAFE), spec("b", "a"), ladder=BACKOFF), work, journal=journal
    )


def _prepares(journal: Journal) -> Loop:
    """A strategy of our own, whose preparation is awaited."""
    slow = SlowRetry()
    slow.may_end.set()
    work = ScriptedTool("work", {"a": [Fails(), Returns(1)], "b": [Returns(2)]})
    plan = plan_of(spec("a", **SAFE), "b", ladder={UNCLASSIFIED: (SlowRetry.strategy,)})
    return loop_of(plan, work, journal=journal, recovery=registry_with(slow))


def _judged(journal: Journal) -> Loop:
    """An evaluator that refuses at first, with evidence; an awaited verifier."""

    def evaluator(step: Step, output: Any) -> Judgement:
        evidence = {"seen": (output, {"at": [1.5]}), "odd": {1: None}}
        return Judgement(Verdict.FAILED if step.attempt == 1 else Verdict.PASSED, "hm", evidence)

    async def verifier(step: Step, output: Any) -> bool:
        return step.attempt > 2

    work = ScriptedTool("work", [Returns([1])])
    plan = plan_of(spec("a", **SAFE))
    return loop_of(plan, work, journal=journal, evaluator=evaluator, verifier=verifier)


def _times_out(journal: Journal) -> Loop:
    """An attempt whose time is over, and its late result; the run then fails."""
    clock = FakeClock(auto=True)
    work = ScriptedTool("work", [Sleeps(9.0, Returns(1))], clock=clock)
    plan = plan_of(spec("a", timeout_s=2), when_exhausted="fail")
    return loop_of(plan, work, journal=journal, clock=clock)


def _abstains(journal: Journal) -> Loop:
    """Nothing is left to try, and nobody is asked."""
    work = ScriptedTool("work", [Fails("no", executed=False)])
    return loop_of(plan_of("a", spec("b", "a"), when_exhausted="abstain"), work, journal=journal)


def _asks(journal: Journal) -> Loop:
    """It waits for an answer, with a deadline far away."""
    work = ScriptedTool("work", {"a": [Fails("no")], "c": [Returns(1)]})
    plan = plan_of("a", spec("b", "a"), "c", question_deadline_s=1e9)
    return loop_of(plan, work, journal=journal)


def _answered(choice: str, **words: Any) -> Callable[[Journal], Loop]:
    def go(journal: Journal) -> Loop:
        work = ScriptedTool("work", {"a": [Fails("no"), Returns(1)], "b": [Returns(2)]})
        loop = loop_of(plan_of("a", spec("b", "a")), work, journal=journal)
        run(loop)
        loop.answer("a", choice, said="as I say \u00e4\ud800", token="t", **words)
        return loop

    return go


def _raises_a_budget(journal: Journal) -> Loop:
    """A spent budget is a question about the run; the answer is a new limit."""
    plan = plan_of("a", spec("b", "a"), budget=Budget(tool_calls=1, seconds=100))
    loop = loop_of(plan, journal=journal)
    run(loop)
    loop.answer("run", "raise", to=5, token="t")
    return loop


def _cancelled(journal: Journal) -> Loop:
    """A person's word ends a run that waits."""
    loop = _asks(journal)
    run(loop)
    loop.cancel("enough \U0001f600")
    return loop


def _leaves_out(journal: Journal) -> Loop:
    """An optional step is skipped, what uses its output falls, what only follows it runs."""
    work = ScriptedTool("work", {"a": [Fails("no")], "c": [Returns(1)]})
    plan = plan_of(
        spec("a", optional=True), spec("b", optional=True, args={"x": Output("a")}), spec("c", "a")
    )
    loop = loop_of(plan, work, journal=journal)
    run(loop)
    loop.answer("a", "skip", token="t")
    return loop


WAYS: Mapping[str, Callable[[Journal], Loop]] = {
    "succeeds": _succeeds,
    "retries": _retries,
    "prepares": _prepares,
    "judged": _judged,
    "times out": _times_out,
    "abstains": _abstains,
    "asks": _asks,
    "answered retry": _answered("retry"),
    "answered skip": _answered("skip"),
    "answered stop": _answered("stop"),
    "raises a budget": _raises_a_budget,
    "cancelled": _cancelled,
    "leaves out": _leaves_out,
}
"""How a run can go. Each is a loop that is to be run once more."""
