"""How the words of people are folded: answers, deadlines that answer for them, cancelling.

What a person orders becomes a planned recovery like any other, with that person's grant.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from loopfsm.engine.fold import fail_run, withdraw
from loopfsm.engine.inputs import Answer, Cancel, Expired
from loopfsm.engine.turn import Turn
from loopfsm.errors import AnswerRefused, CoreBroken
from loopfsm.model.failure import RUN, WHOLE_PLAN, FailureKind, RecoveryStrategy
from loopfsm.model.question import Choice, Question
from loopfsm.unit import Draft

STRATEGY_OF: Mapping[str, str] = {
    Choice.RETRY: RecoveryStrategy.RETRY,
    Choice.SKIP: "SKIP",
    Choice.STOP: RecoveryStrategy.ABSTAIN,
    Choice.RAISE: "RAISE_BUDGET",
}
"""What each choice orders."""


def fold_answer(turn: Turn, draft: Draft, answer: Answer) -> None:
    """A person answered: the choice becomes the recovery that runs next.

    Raises:
        AnswerRefused: nothing is asked about the subject, or the answer does not fit.
    """
    question = draft.question_of(answer.subject)
    if question is None:
        raise AnswerRefused(
            answer.choice, f"nothing is asked about {answer.subject!r}", open_answers(draft)
        )
    if answer.question not in ("", question.id):
        problem = f"it answers {answer.question}, and what is asked now is {question.id}"
        raise AnswerRefused(answer.choice, problem, open_answers(draft))
    facts = {
        "choice": answer.choice,
        "said": answer.said,
        "raised_to": answer.raised_to,
        "token": answer.token,
        "used_for": turn.state.tokens.get(answer.token),
        "draining": draft.draining,
        "now": turn.now,
    }
    refusal = draft.machines.question.explain(question, "answer", **facts)
    if not refusal:
        raise AnswerRefused(answer.choice, refusal.why_not, open_answers(draft))
    question = draft.fire(question, "answer", **facts)
    order(turn, draft, question, STRATEGY_OF[answer.choice], ordered=True)


def open_answers(draft: Draft) -> tuple[str, ...]:
    """Every answer that an open question offers, as `CHOICE SUBJECT`."""
    if draft.draining is not None:
        return ()
    subjects = sorted(draft.before.asked)
    questions = (draft.question_of(subject) for subject in subjects)
    return tuple(
        f"{choice} {q.subject}" for q in questions if q is not None for choice in q.choices
    )


def fold_expired(turn: Turn, draft: Draft, expired: Expired) -> None:
    """A deadline answers in the person's place: abstain where that is allowed, else terminate."""
    question = draft.question(expired.question_id)
    facts = {"draining": draft.draining, "now": turn.now}
    if not draft.may(question, "expire", **facts):
        return
    failure = draft.failure(question.failure_id)
    case = turn.case_of(attrs.evolve(failure, ordered=False), draft)
    abstain = turn.registry.get(RecoveryStrategy.ABSTAIN)
    if case.step is not None and case.step.failed_in is not None:
        case = attrs.evolve(case, step=attrs.evolve(case.step, state=case.step.failed_in))
    allowed = abstain is not None and not abstain.refusal(case, draft)
    strategy = RecoveryStrategy.ABSTAIN if allowed else RecoveryStrategy.TERMINATE
    question = draft.fire(question, "expire", choice=strategy.value, **facts)
    order(turn, draft, question, strategy, ordered=False)


def order(turn: Turn, draft: Draft, question: Question, strategy: str, *, ordered: bool) -> None:
    """Make the answer of `question` the planned recovery of its failure."""
    repeats = ordered and strategy == RecoveryStrategy.RETRY
    if question.subject != RUN:
        step = draft.step(question.subject)
        draft.fire(step, "answered", grants_repeat=repeats)
    failure = draft.failure(question.failure_id)
    handler = turn.registry.get(strategy)
    if handler is None:
        raise CoreBroken(f"the answer {question.choice!r} orders {strategy}, which has no handler")
    case = turn.case_of(attrs.evolve(failure, ordered=ordered), draft)
    scope = handler.scope(case)
    why = f"{question.id} was answered: {question.choice}"
    if scope != WHOLE_PLAN:
        make_way(draft, scope, why)
        refuse_if_held(draft, scope, question)
    facts = {"strategy": strategy, "scope": scope, "ordered": ordered, "why": why}
    draft.fire(failure, "answered", **facts)


def make_way(draft: Draft, scope: tuple[str, ...], why: str) -> None:
    """A person outranks the ladder: drop each of its planned recoveries that overlaps."""
    for holder in dict.fromkeys(draft.holder_of(step_id) for step_id in scope):
        if holder is not None and not draft.failure(holder).ordered:
            withdraw(draft, draft.failure(holder), f"{why} (it outranks the ladder)")


def refuse_if_held(draft: Draft, scope: tuple[str, ...], question: Question) -> None:
    """Two orders of people do not overlap: the second one waits until the first is done."""
    for step_id in scope:
        holder = draft.holder_of(step_id)
        if holder is not None:
            order = draft.failure(holder)
            problem = (
                f"QUES-01 needs free steps: {step_id} is held by the order "
                f"{order.strategy} for {order.subject}; answer again when that is done"
            )
            raise AnswerRefused(question.choice or "", problem, ())


def fold_cancel(turn: Turn, draft: Draft, cancel: Cancel) -> None:
    """A person wants the run to stop. What ends it already is not overtaken.

    Raises:
        AnswerRefused: the run is ending.
    """
    if draft.draining is not None:
        why = draft.failure(draft.draining).reason
        raise AnswerRefused("cancel", f"the run is ending already: {why}", ())
    fail_run(draft, FailureKind.CANCELLED, cancel.reason, {})
