"""Random runs for the laws of the core: any small plan, any inputs in any order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen
from hypothesis import strategies as st

from loopfsm.engine.core import Advanced, Core
from loopfsm.engine.inputs import (
    Cancel,
    Drive,
    Due,
    Expired,
    Input,
    Judged,
    Park,
    Prepared,
)
from loopfsm.engine.judging import NOT_CHECKED, PASSED
from loopfsm.engine.state import new_run
from loopfsm.model.failure import FailureKind, RecoveryStrategy
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import UNCLASSIFIED, Budget, Plan, WhenExhausted
from loopfsm.model.question import Choice
from loopfsm.model.step import Step, StepState, Verdict
from loopfsm.ports import Judgement
from tests.engine.kit import SlowRetry, answer, done, failed, plan_of, registry_with, spec

CORE = Core.of(registry_with(SlowRetry()))
"""With one strategy that has to be prepared, so that scopes are held for a while."""

REFUSED = Judgement(Verdict.FAILED, "refused")
LADDERS: tuple[tuple[str, ...], ...] = (
    (RecoveryStrategy.RETRY,),
    (RecoveryStrategy.RETRY_WITH_BACKOFF,),
    ("SLOW_RETRY",),
    ("SLOW_RETRY", "NOBODY_REGISTERED_IT", RecoveryStrategy.RETRY),
    (),
)

Calls = list[tuple[list[int], float]]
"""For each call of `advance`: which of the possible inputs, and how much later it is."""


@frozen
class Taken:
    """One call of `advance`: where from, with what, and what it decided."""

    before: RunState
    inputs: tuple[Input, ...]
    now: float
    advanced: Advanced


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of one to five steps under small limits."""
    steps = []
    for number in range(draw(st.integers(1, 5))):
        earlier = [f"s{i}" for i in range(number)]
        needs = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        steps.append(
            spec(
                f"s{number}",
                *needs,
                optional=draw(st.booleans()),
                critical=draw(st.integers(0, 4)) == 0,
                idempotent=draw(st.booleans()),
                max_retries=draw(st.sampled_from((None, 0, 1, 2))),
            )
        )
    limits = st.one_of(st.none(), st.integers(0, 4))
    return plan_of(
        *steps,
        max_parallel=draw(st.integers(1, 4)),
        recoveries=draw(st.integers(0, 3)),
        when_exhausted=draw(st.sampled_from(WhenExhausted)),
        may_abstain=draw(st.booleans()),
        question_deadline_s=draw(st.sampled_from((None, None, 5))),
        ladder={UNCLASSIFIED: draw(st.sampled_from(LADDERS))},
        budget=Budget(
            steps=draw(limits), tool_calls=draw(limits), seconds=draw(limits), tokens=draw(limits)
        ),
    )


def calls() -> st.SearchStrategy[Calls]:
    """What happens, as numbers: see `walk`."""
    picks = st.lists(st.integers(0, 999), min_size=1, max_size=3)
    return st.lists(st.tuples(picks, st.sampled_from((0.0, 0.0, 1.0, 4.0))), max_size=25)


def walk(plan: Plan, numbers: Calls, core: Core = CORE) -> Iterator[Taken]:
    """Drive a run of `plan`; each number picks one of the inputs that are possible then.

    Of the inputs of one call, a new driver comes first.
    """
    state, now = new_run(plan, "run"), 0.0
    taken = Taken(state, (Drive(),), now, core.advance(state, [Drive()], now))
    yield taken
    for count, (picks, later) in enumerate(numbers):
        state, now = taken.advanced.state, now + later
        choices = list(possible(state, f"t{count}"))
        picked = [choices[pick % len(choices)] for pick in picks]
        inputs = tuple(sorted(picked, key=lambda item: not isinstance(item, Drive)))
        taken = Taken(state, inputs, now, core.advance(state, inputs, now))
        yield taken


def possible(state: RunState, token: str) -> Iterator[Input]:
    """What can happen in this state, and some that cannot have happened."""
    for step_id in sorted(state.steps):
        yield from _about_step(state.step(step_id))
    for subject, question_id in sorted(state.asked.items()):
        for choice in state.questions[question_id].choices:
            to = 50.0 if choice == Choice.RAISE else None
            yield answer(subject, choice, token, to)
        yield Expired(question_id)
    for failure in map(state.failure, sorted(state.planned)):
        if failure.strategy != SlowRetry.strategy:
            continue
        failure_id, plan = failure.id, failure.plans
        yield Prepared(failure_id, plan, "prepared")
        yield Prepared(failure_id, plan, error="it broke")
        yield Prepared(failure_id, plan - 1, "of an earlier plan")
    yield from (Park(), Drive(), Drive(resumed=True), Cancel())
    yield answer("s0", Choice.RETRY, "a token that comes again")


def _about_step(step: Step) -> Iterator[Input]:
    facts: dict[str, Any] = {"step_id": step.id, "attempt": step.attempt}
    if step.state is StepState.RUNNING:
        yield done(**facts, output="out", tokens=1)
        yield done(**facts, evaluation=None, verification=None)
        yield done(**facts, evaluation=PASSED, verification=REFUSED)
        yield done(**facts, evaluation=REFUSED)
        for kind in (FailureKind.REPORTED, FailureKind.NOT_EXECUTED, FailureKind.TIMED_OUT):
            yield failed(**facts, kind=kind)
        yield done(step.id, step.attempt - 1)
    elif step.state is StepState.EXECUTED:
        yield Judged(**facts, evaluation=PASSED)
        yield Judged(**facts, evaluation=NOT_CHECKED, verification=NOT_CHECKED)
        yield Judged(**facts, evaluation=REFUSED)
    elif step.state is StepState.EVALUATED:
        yield Judged(**facts, verification=PASSED)
        yield Judged(**facts, verification=REFUSED)
    elif step.state is StepState.RETRY_PENDING:
        yield Due(step.id)
    elif step.attempt:
        yield done(**facts)
