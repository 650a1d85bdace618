"""For every run contract of every row: a unit in which it alone is false, and the unit mended.

`wrong` fires the row without what has to come with it; `right` does the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.unit import Draft
from tests.machines.cases import (
    CASES,
    ROWS,
    F,
    L,
    Q,
    S,
    failure_in,
    question_in,
    run_in,
    spec,
    step_in,
    world,
)

Action = Callable[[Draft], object]


@frozen
class Situation:
    """Where the unit starts, and what it does: one contract short, and in full."""

    state: RunState
    wrong: tuple[Action, ...]
    right: tuple[Action, ...]


def noun_of(draft: Draft, id: str) -> Any:
    """The noun of that id as the draft sees it: F1, Q1, run, or a step."""
    if id == "run":
        return draft.run
    if id.startswith("F"):
        return draft.failure(id)
    return draft.question(id) if id.startswith("Q") else draft.step(id)


def take(row_id: str, id: str, **facts: Any) -> Action:
    """Fire the trigger of a row on a noun of the draft, with the facts of the row's example."""
    _, row = ROWS[row_id]
    given = {**CASES[row_id].facts, **facts}
    return lambda draft: draft.fire(noun_of(draft, id), row.trigger, **given)


def create(noun: Any) -> Action:
    return lambda draft: draft.create(noun)


def leave_out(step_id: str) -> Action:
    return lambda draft: draft.leave_out(step_id)


def end(draft: Draft) -> None:
    draft.end(L.ABSTAINED, "because")


F1 = failure_in(F.UNHANDLED)
PLANNED_TO_ASK = failure_in(F.RECOVERY_PLANNED, strategy="REQUEST_HUMAN")
IN_PROGRESS = failure_in(F.RECOVERY_IN_PROGRESS)
ESCALATED = failure_in(F.ESCALATED)
F2_OF_B = failure_in(F.UNHANDLED, number=2, subject="b")
Q1 = question_in(Q.OPEN)
BUDGET_F1 = failure_in(F.ESCALATED, subject="run", kind=FailureKind.BUDGET_SPENT)
BUDGET_Q1 = question_in(Q.OPEN, subject="run")

FAILED_A = step_in(S.EVALUATION_FAILED)
WAITING_A = step_in(S.WAITING_FOR_HUMAN)


def _one_failure(row_id: str, source: Any) -> Situation:
    """Firing alone leaves the step failed with no failure; `right` creates it too."""
    fire = take(row_id, "a")
    return Situation(world(step_in(source)), (fire,), (create(F1), fire))


def _answer(row_id: str, failed_in: Any) -> Situation:
    """Only the step hears the answer; the failure does not, or the question stays open."""
    waiting = step_in(S.WAITING_FOR_HUMAN, failed_in=failed_in)
    step = take(row_id, "a")
    answer, plan = take("QUES-01", "Q1"), take("FAIL-09", "F1")
    return Situation(world(waiting, ESCALATED, Q1), (answer, step), (answer, step, plan))


def _overlap(row_id: str, first: Any) -> Situation:
    """An earlier unit's plan holds a step of the scope; `right` makes it give way (B33)."""
    failed_b = step_in(S.EVALUATION_FAILED, spec=spec("b", "a"))
    holder = failure_in(F.RECOVERY_PLANNED, number=2, subject="b", scope=("b", "a"))
    plan = take(row_id, "F1")
    return Situation(
        world(FAILED_A, failed_b, first, holder), (plan,), (take("FAIL-07", "F2"), plan)
    )


def _ending(row_id: str) -> dict[tuple[str, str], Situation]:
    """The step ends; its failure is left, or the run goes on."""
    state = world(FAILED_A, IN_PROGRESS)
    fire, close, confirm = take(row_id, "a"), take("FAIL-11", "F1"), take("FAIL-04", "F1")
    right = (end, fire, close)
    return {
        (row_id, "no_failure_is_left"): Situation(state, (end, fire), right),
        (row_id, "run_is_ending"): Situation(state, (fire, confirm), right),
    }


def _ask(row_id: str, failure: Any, question: Any) -> Situation:
    """The loop waits for a person whom nobody asked."""
    run = run_in(L.EXECUTING)
    fire = take(row_id, "run")
    step = (FAILED_A,) if failure.subject == "a" else ()
    return Situation(world(run, *step, failure), (fire,), (create(question), fire))


def _finish(row_id: str) -> Situation:
    """The loop ends while something is unsettled."""
    run = run_in(L.EXECUTING, **CASES[row_id].fields)
    done = [
        step_in(S.VERIFIED_COMPLETED, spec=spec(*need)) for need in (("a",), ("b", "a"), ("c",))
    ]
    state = world(run, *done, IN_PROGRESS)
    fire = take(row_id, "run")
    return Situation(state, (fire,), (take("FAIL-04", "F1"), fire))


def _settle(row_id: str) -> Situation:
    """A question that is settled and asked again in one breath."""
    fire = take(row_id, "Q1")
    return Situation(world(WAITING_A, ESCALATED, Q1), (fire, create(Q1)), (fire,))


def _skip() -> dict[tuple[str, str], Situation]:
    state = world(FAILED_A, IN_PROGRESS)
    out, skip, confirm = leave_out("a"), take("STEP-11", "a"), take("FAIL-04", "F1")
    out_b, skip_b = leave_out("b"), take("STEP-11", "b")
    right = (out, skip, out_b, skip_b, confirm)
    return {
        ("STEP-11", "skip_is_recorded_in_the_goal"): Situation(
            state, (skip, out_b, skip_b, confirm), right
        ),
        ("STEP-11", "dependents_follow_the_skip"): Situation(state, (out, skip, confirm), right),
        ("STEP-11", "no_failure_is_left"): Situation(state, (out, skip, out_b, skip_b), right),
    }


def _verify() -> dict[tuple[str, str], Situation]:
    evaluated = step_in(S.EVALUATED)
    verify = take("STEP-05", "a")
    supersede = take("FAIL-10", "F1")
    return {
        ("STEP-05", "failure_is_recovered"): Situation(
            world(evaluated, IN_PROGRESS), (supersede, verify), (verify, take("FAIL-04", "F1"))
        ),
        ("STEP-05", "no_failure_is_left"): Situation(
            world(evaluated), (verify, create(F1)), (verify,)
        ),
    }


SITUATIONS: Mapping[tuple[str, str], Situation] = {
    **_verify(),
    ("STEP-06", "one_failure_is_open"): _one_failure("STEP-06", S.RUNNING),
    ("STEP-07", "one_failure_is_open"): _one_failure("STEP-07", S.EXECUTED),
    ("STEP-08", "one_failure_is_open"): _one_failure("STEP-08", S.EVALUATED),
    ("STEP-10", "one_failure_is_open"): _one_failure("STEP-10", S.RUNNING),
    **_skip(),
    ("STEP-12", "answer_became_the_plan"): _answer("STEP-12", S.EVALUATION_FAILED),
    ("STEP-13", "answer_became_the_plan"): _answer("STEP-13", S.VERIFICATION_FAILED),
    **_ending("STEP-14"),
    ("STEP-22", "one_question_is_open"): Situation(
        world(FAILED_A, PLANNED_TO_ASK),
        (take("STEP-22", "a"),),
        (create(Q1), take("FAIL-08", "F1"), take("STEP-22", "a")),
    ),
    **_ending("STEP-23"),
    **_ending("STEP-24"),
    ("FAIL-01", "scopes_are_disjoint"): _overlap("FAIL-01", F1),
    ("FAIL-02", "scopes_are_disjoint"): _overlap("FAIL-02", F1),
    ("FAIL-04", "step_is_done"): Situation(
        world(step_in(S.EVALUATED), IN_PROGRESS),
        (take("FAIL-04", "F1"),),
        (take("STEP-05", "a"), take("FAIL-04", "F1")),
    ),
    ("FAIL-08", "step_waits_for_a_person"): Situation(
        world(FAILED_A, PLANNED_TO_ASK),
        (take("FAIL-08", "F1"),),
        (take("FAIL-08", "F1"), create(Q1), take("STEP-22", "a")),
    ),
    ("FAIL-09", "scopes_are_disjoint"): _overlap("FAIL-09", ESCALATED),
    ("FAIL-11", "run_is_ending"): Situation(
        world(step_in(S.RUNNING), IN_PROGRESS),
        (take("FAIL-11", "F1"),),
        (end, take("FAIL-11", "F1")),
    ),
    ("QUES-01", "subject_is_not_asked_about"): _settle("QUES-01"),
    ("QUES-02", "subject_is_not_asked_about"): _settle("QUES-02"),
    ("QUES-03", "subject_is_not_asked_about"): _settle("QUES-03"),
    ("LOOP-10", "question_is_on_record"): _ask("LOOP-10", ESCALATED, Q1),
    ("LOOP-09", "question_is_on_record"): _ask("LOOP-09", BUDGET_F1, BUDGET_Q1),
    ("LOOP-11", "nothing_is_unfinished"): _finish("LOOP-11"),
    ("LOOP-12", "nothing_is_unfinished"): _finish("LOOP-12"),
    ("LOOP-03", "nothing_is_unfinished"): _finish("LOOP-03"),
}


def _empty_question(**fields: Any) -> Situation:
    right = SITUATIONS["STEP-22", "one_question_is_open"]
    _, *rest = right.right
    return Situation(right.state, (create(question_in(Q.OPEN, **fields)), *rest), right.right)


EMPTY_QUESTIONS: Mapping[str, Situation] = {
    "no choices": _empty_question(choices={}),
    "no context": _empty_question(context={}),
}
"""A question that nobody could answer: two more ways in which `one_question_is_open` is false."""
