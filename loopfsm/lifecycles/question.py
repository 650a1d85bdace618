"""The question machine: asked once, settled once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopfsm.lifecycle import Lifecycle, Row
from loopfsm.model.loop_state import RunView
from loopfsm.model.question import Choice, Question, QuestionState

Changes = Mapping[str, Any]

# Guards


def choice_is_offered(question: Question, *, choice: str) -> bool:
    """The choice is one of those the question offers."""
    return choice in question.choices


def token_is_unused(question: Question, *, used_for: str | None) -> bool:
    """The token of the answer has not answered anything before."""
    return used_for is None


def number_fits_the_choice(question: Question, *, choice: str, raised_to: float | None) -> bool:
    """`raise` comes with a number above what was spent; no other choice comes with one."""
    if choice != Choice.RAISE:
        return raised_to is None
    return raised_to is not None and raised_to > question.context["spent"]


def run_goes_on(question: Question, *, draining: str | None) -> bool:
    """No recovery that ends the run is under way."""
    return draining is None


def deadline_has_passed(question: Question, *, now: float) -> bool:
    """The question had a deadline, and it has passed."""
    return question.deadline is not None and now >= question.deadline


# Updates


def record_answer(
    question: Question, *, choice: str, said: str, raised_to: float | None, token: str, now: float
) -> Changes:
    """Keep what was answered, in which words, when, under which token."""
    return {
        "choice": choice,
        "said": said,
        "raised_to": raised_to,
        "token": token,
        "answered_at": now,
    }


def record_expiry(question: Question, *, choice: str, now: float) -> Changes:
    """The deadline answers in the person's place."""
    return {"choice": choice, "answered_at": now}


# What must be true on entry


def answer_is_on_record(before: Question, after: Question, *, choice: str, token: str) -> bool:
    """The accepted answer can be found again by its token."""
    return after.choice == choice and after.token == token


# What must be true of the run at the end of the unit


def subject_is_not_asked_about(question: Question, before: RunView, after: RunView) -> bool:
    """A settled question no longer stands open for its subject."""
    asked = after.question_of(question.subject)
    return asked is None or asked.id != question.id


Q = QuestionState

ROWS = (
    Row(
        id="QUES-01",
        trigger="answer",
        source=(Q.OPEN,),
        target=Q.ANSWERED,
        guards=(run_goes_on, choice_is_offered, number_fits_the_choice, token_is_unused),
        update=record_answer,
        ensures=(answer_is_on_record,),
        ensures_run=(subject_is_not_asked_about,),
    ),
    Row(
        id="QUES-02",
        trigger="withdraw",
        source=(Q.OPEN,),
        target=Q.WITHDRAWN,
        ensures_run=(subject_is_not_asked_about,),
    ),
    Row(
        id="QUES-03",
        trigger="expire",
        source=(Q.OPEN,),
        target=Q.EXPIRED,
        guards=(run_goes_on, deadline_has_passed),
        update=record_expiry,
        ensures_run=(subject_is_not_asked_about,),
    ),
)

QUESTION: Lifecycle[Question] = Lifecycle(
    "question", states=QuestionState, initial=Q.OPEN, rows=ROWS
)
