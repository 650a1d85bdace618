"""What the world and people can do next to a run: the inputs that the explorer feeds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from attrs import frozen

from loopfsm.engine.inputs import (
    Answer,
    Cancel,
    Drive,
    Due,
    Expired,
    Input,
    Judged,
    Prepared,
    Result,
)
from loopfsm.model.event import Unit
from loopfsm.model.failure import RUN, FailureKind
from loopfsm.model.loop_state import ENDED, LoopState, RunState
from loopfsm.model.question import Choice
from loopfsm.model.step import Step, StepState, Verdict
from loopfsm.ports import Judgement
from loopfsm.review.plans import SmallPlan
from loopfsm.review.watch import Memories

PASSED, REJECTED = Judgement(Verdict.PASSED), Judgement(Verdict.FAILED, "refused")
FAILURES = {
    "reported": FailureKind.REPORTED,
    "timed_out": FailureKind.TIMED_OUT,
    "not_executed": FailureKind.NOT_EXECUTED,
}
OUTCOMES = ("ok", "rejected", *FAILURES)
"""How an attempt may end."""


@frozen(eq=False)
class Node:
    """A reached state: the run, what the watch remembers, and what may still befall it."""

    state: RunState
    memories: Memories
    now: float
    crashes: int
    cancels: int
    before: tuple[Node, tuple[Unit, ...]] | None = None
    """The node before it, and the units of the call that led here."""

    def history(self) -> list[Unit]:
        """Every unit since the run was begun, oldest first."""
        calls: list[tuple[Unit, ...]] = []
        before = self.before
        while before is not None:
            node, units = before
            calls.append(units)
            before = node.before
        return [unit for units in reversed(calls) for unit in units]


CRASH = "the process dies"
TAKEN_UP = "another process takes the run up"


def moves(small: SmallPlan, node: Node) -> Iterator[tuple[Input, ...]]:
    """Every input (or pair of inputs) that may come next."""
    state = node.state
    if state.run.state in ENDED:
        return
    words = list(_words(node))
    if state.driven_at is None:
        yield (Drive(resumed=state.run.state is not LoopState.INITIALIZED),)
        for word in words:  # people may speak to a run that nobody drives
            yield (word,)
        return
    results = list(_results(small, state))
    for item in (*results, *_timers(state), *words):
        yield (item,)
    if small.pairs:
        for one, other in combinations(results, 2):
            if _subject(one) != _subject(other):
                yield one, other
                yield other, one


def may_crash(node: Node) -> bool:
    """Whether the process that drives the run may die now."""
    driven = node.state.driven_at is not None
    return node.crashes > 0 and driven and node.state.run.state not in ENDED


def intrusions(node: Node) -> Iterator[Input]:
    """Inputs that may arrive and do not belong: too early, too late, used up, not offered."""
    state = node.state
    if state.run.state in (*ENDED, LoopState.INITIALIZED):
        return
    if node.cancels and state.draining is not None:
        yield Cancel(token="new")
    for spec in state.plan.steps:
        step = state.step(spec.id)
        if step.state is StepState.RETRY_PENDING and (step.not_before or 0.0) > node.now:
            yield Due(step.id)
        for judgement in (PASSED, REJECTED):
            earlier = step.attempt - 1
            yield Judged(step_id=step.id, attempt=earlier, evaluation=judgement)
            yield Judged(step_id=step.id, attempt=earlier, verification=judgement)
    for subject in sorted(state.asked):
        question = state.question_of(subject)
        assert question is not None  # the index names open questions
        if state.draining is not None or node.now < (question.deadline or 0.0):
            yield Expired(question.id)
        choices = question.choices if state.draining is not None else ("nonsense", Choice.RAISE)
        for choice in choices:
            yield Answer(subject=subject, choice=choice, token="new")
        for token in sorted(state.tokens):
            yield Answer(subject=subject, choice=next(iter(question.choices)), token=token)
        if subject != RUN:
            yield Answer(subject=subject, choice=Choice.RAISE, token="new", raised_to=99)
            yield Answer(subject=subject, choice=Choice.RETRY, token="new", raised_to=99)


def _subject(item: Any) -> str:
    return str(item.step_id)


def _results(small: SmallPlan, state: RunState) -> Iterator[Result | Judged]:
    for spec in state.plan.steps:
        step = state.step(spec.id)
        if step.state is StepState.RUNNING:
            for outcome in small.outcomes:
                yield _result(small, step, outcome, step.attempt)
        if step.attempt > 1 and step.state in (StepState.RUNNING, StepState.READY):
            for outcome in ("ok", "reported"):
                yield _result(small, step, outcome, step.attempt - 1)
        if step.state is StepState.EXECUTED:
            for judgement in (PASSED, REJECTED):
                yield Judged(step_id=step.id, attempt=step.attempt, evaluation=judgement)
        if step.state is StepState.EVALUATED:
            for judgement in (PASSED, REJECTED):
                yield Judged(step_id=step.id, attempt=step.attempt, verification=judgement)


def _result(small: SmallPlan, step: Step, outcome: str, attempt: int) -> Result:
    if outcome in FAILURES:
        kind = FAILURES[outcome]
        return Result(step_id=step.id, attempt=attempt, failure=kind, message=outcome)
    evaluation = None if small.evaluated else PASSED
    if outcome == "rejected":
        evaluation = REJECTED
    verification = None if small.verified else PASSED
    return Result(
        step_id=step.id,
        attempt=attempt,
        output=f"output of attempt {attempt}",
        evaluation=evaluation,
        verification=verification,
    )


def _timers(state: RunState) -> Iterator[Input]:
    for spec in state.plan.steps:
        if state.step(spec.id).state is StepState.RETRY_PENDING:
            yield Due(spec.id)
    for failure_id in sorted(state.planned):
        failure = state.failure(failure_id)
        if failure_id not in state.prepared and failure.strategy == "RECONSIDER":
            yield Prepared(failure_id, failure.plans, value="prepared")
            yield Prepared(failure_id, failure.plans, error="it could not be prepared")
    if state.draining is None:
        for subject in sorted(state.asked):
            question = state.question_of(subject)
            if question is not None and question.deadline is not None:
                yield Expired(question.id)


def _words(node: Node) -> Iterator[Input]:
    """What people may say and be heard."""
    state = node.state
    if state.draining is not None:
        return
    for subject in sorted(state.asked):
        question = state.question_of(subject)
        assert question is not None  # the index names open questions
        for choice in question.choices:
            spent = question.context.get("spent", 0)
            yield Answer(
                subject=subject,
                choice=choice,
                token=f"{question.id}/{choice}",
                raised_to=spent + 1 if choice == Choice.RAISE else None,
            )
    if node.cancels:
        yield Cancel()


def earliest(state: RunState, item: Input) -> float:
    """When an input can come at the earliest."""
    if isinstance(item, Due):
        return state.step(item.step_id).not_before or 0.0
    if isinstance(item, Expired):
        return state.questions[item.question_id].deadline or 0.0
    return 0.0


def tell(item: Input) -> str:
    """An input, as a person would tell it."""
    if isinstance(item, Result):
        said = item.failure.value if item.failure else "ok"
        if item.evaluation is REJECTED:
            said = "ok, but the evaluator rejects it"
        return f"attempt {item.attempt} of {item.step_id}: {said}"
    if isinstance(item, Judged):
        who = "verifier" if item.evaluation is None else "evaluator"
        judgement = item.verification if item.evaluation is None else item.evaluation
        assert judgement is not None  # one of the two is given
        return f"the {who} of {item.step_id} says {judgement.verdict.value}"
    if isinstance(item, Answer):
        return f"a person answers {item.choice} for {item.subject}"
    if isinstance(item, Drive):
        return TAKEN_UP if item.resumed else "the run is driven"
    if isinstance(item, Prepared):
        return f"the preparation for {item.failure_id} {'fails' if item.error else 'ends'}"
    if isinstance(item, Cancel):
        return "a person cancels the run"
    return f"time passes: {item}"
