"""`loopfsm answer RUN [STEP] CHOICE`: a person's word on an open question."""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Iterable

from loopfsm.cli.exits import EXIT_OF
from loopfsm.cli.finding import find_run
from loopfsm.cli.follow_up import NEW_LIMIT, FollowUp
from loopfsm.cli.place import looked_at, place_of
from loopfsm.cli.word import send
from loopfsm.engine.state import state_from
from loopfsm.errors import AnswerRefused
from loopfsm.model.failure import RUN
from loopfsm.model.loop_state import RunState
from loopfsm.model.question import Choice, Question
from loopfsm.model.record import Message, Word


def do(args: argparse.Namespace) -> int:
    """Answer the question about a step of `args.run`, or about the run itself."""
    place = place_of(args.journal)
    *named, choice = args.words
    token = args.token or uuid.uuid4().hex
    with looked_at(place) as journal:
        header = find_run(journal, args.run)
        follow_up = FollowUp(header.run_id, place)
        state = state_from(journal.load(header.run_id))
        question = _question(state, follow_up, named[0] if named else None, choice)
        _refuse_what_does_not_fit(question, choice, args.to, follow_up)
        if token in state.tokens or journal.message(header.run_id, token) is not None:
            raise AnswerRefused.of_used_token(choice, token)
    message = Message(
        token=token,
        word=Word.ANSWER,
        subject=question.subject,
        question=question.id,
        choice=choice,
        said=args.say,
        raised_to=args.to,
        sent_at=time.time(),
    )
    return send(message, follow_up, code_of=EXIT_OF.__getitem__, as_json=args.json)


def _question(state: RunState, follow_up: FollowUp, subject: str | None, choice: str) -> Question:
    """The open question that is meant; `AnswerRefused` when there is none, or no only one."""
    run_id = state.run.id
    if state.ending is not None:
        problem = f"the run {run_id} has ended as {state.run.state.value}: nothing is asked"
        raise AnswerRefused(choice, problem, ())
    asked = [state.questions[question_id] for question_id in state.asked.values()]
    asked.sort(key=lambda question: question.number)
    if subject is None and len(asked) == 1:
        return asked[0]
    for question in asked:
        if question.subject == subject:
            return question
    if subject is None and asked:
        problem = f"{len(asked)} questions are open: say which one"
    elif subject is None:
        problem = f"nothing is asked in the run {run_id} now"
    else:
        problem = f"nothing is asked about {subject!r} now{_settled_how(state, subject)}"
    raise AnswerRefused(choice, problem, _answers(asked, follow_up))


def _settled_how(state: RunState, subject: str) -> str:
    """What became of the last question about the subject."""
    if subject != RUN and subject not in state.steps:
        return ", and no step has that id"
    before = [each for each in state.questions.values() if each.subject == subject]
    if not before:
        return ""
    last = max(before, key=lambda question: question.number)
    answer = f": {last.choice}" if last.choice else ""
    return f"; its last question is {last.state.value}{answer}"


def _refuse_what_does_not_fit(
    question: Question, choice: str, to: float | None, follow_up: FollowUp
) -> None:
    problem = ""
    if choice not in question.choices:
        problem = f"{choice!r} is no answer to the question about {question.subject!r}"
    elif choice == Choice.RAISE:
        spent = question.context.get("spent", 0)
        if to is None:
            problem = f"{choice!r} needs a new limit: --to {NEW_LIMIT}, above {spent:g}"
        elif not to > spent:
            problem = f"--to {to:g} is not above what is spent already, {spent:g}"
    elif to is not None:
        problem = f"--to belongs to {Choice.RAISE.value!r}, not to {choice!r}"
    if problem:
        raise AnswerRefused(choice, problem, _answers([question], follow_up))


def _answers(questions: Iterable[Question], follow_up: FollowUp) -> tuple[str, ...]:
    """Every valid answer as a command, with what it does."""
    return tuple(
        f"{offer.command}  # {offer.does}"
        for question in questions
        for offer in follow_up.offers(question)
    )
