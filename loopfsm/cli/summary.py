"""What a run ended with, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from loopfsm.cli.exits import EXIT_OF
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.printing import clean, one_line
from loopfsm.cli.progress import WORDS_OF_KIND
from loopfsm.engine.people import STRATEGY_OF
from loopfsm.model.failure import RUN, Failure, FailureState
from loopfsm.model.loop_state import ENDED, LoopState, RunState
from loopfsm.model.question import Choice, Question, QuestionState
from loopfsm.model.step import FINAL
from loopfsm.plain import plain

_LONGEST_OUTPUT = 140
_LONGEST_WHOLE = 4000
_MOST_NAMED = 8
"""Step ids in one line."""

_BECAME = {
    FailureState.RECOVERED: "recovered from",
    FailureState.SUPERSEDED: "earlier failure",
}
"""How a failure that is over is told; the others are failures still."""

NOT_RESUMABLE = (
    "This run is kept in memory: only the process that ran it could take an answer, and that "
    "process ends here. It cannot be resumed; run the plan again without `--journal memory`."
)


class Ended(Protocol):
    """What is shown of an `Outcome`."""

    @property
    def state(self) -> LoopState: ...
    @property
    def run_id(self) -> str: ...
    @property
    def outputs(self) -> Mapping[str, Any]: ...
    @property
    def questions(self) -> Sequence[Question]: ...
    @property
    def failures(self) -> Sequence[Failure]: ...
    @property
    def skipped(self) -> Sequence[str]: ...
    @property
    def reason(self) -> str: ...
    @property
    def reduced_goal(self) -> str: ...


def outcome_data(
    outcome: Ended, state: RunState, follow_up: FollowUp, *, code: int | None = None
) -> Mapping[str, Any]:
    """The last line of `--json`."""
    return {
        "type": "outcome",
        "state": outcome.state,
        "exit_code": EXIT_OF[outcome.state] if code is None else code,
        **standing_data(outcome, state, follow_up),
    }


def standing_data(outcome: Ended, state: RunState, follow_up: FollowUp) -> Mapping[str, Any]:
    """How a run stands, as data; the state is not in it."""
    said = _said_to_stop(state)
    return {
        "run_id": outcome.run_id,
        "goal": outcome.reduced_goal,
        "reason": f"{outcome.reason} {said}" if said else outcome.reason,
        "outputs": outcome.outputs,
        "questions": [
            {**plain(question), "answers": follow_up.offers(question)}
            for question in outcome.questions
        ],
        "meanwhile": meanwhile(state),
        "failures": outcome.failures,
        "skipped": outcome.skipped,
        "resumable": follow_up.is_possible and outcome.state not in ENDED,
    }


def outcome_lines(outcome: Ended, state: RunState, follow_up: FollowUp) -> Iterator[str]:
    """The summary for a person: how the run stands, and in the last line its state and why."""
    yield from standing_lines(outcome, state, follow_up)
    word = outcome.state.value
    reason = one_line(outcome.reason.removeprefix(f"{word.lower()}: "))
    said = f" {one_line(_said_to_stop(state))}".rstrip()
    told = f": {reason}{said}" if reason else ""
    yield f"{word}{told}  [{one_line(outcome.reduced_goal)}]"


def _said_to_stop(state: RunState) -> str:
    """The words of the person who stopped the run, if one did and said any."""
    for question in state.questions.values():
        is_answered = question.state is QuestionState.ANSWERED
        if is_answered and question.choice == Choice.STOP and question.said:
            return f"(said: {question.said})"
    return ""


def standing_lines(outcome: Ended, state: RunState, follow_up: FollowUp) -> Iterator[str]:
    """Outputs, failures, what was skipped, what is asked."""
    if outcome.outputs:
        yield "outputs:"
        for step_id, output in outcome.outputs.items():
            yield f"  {one_line(step_id)}: {shown(output)}"
    waits_for = {question.failure_id for question in outcome.questions}
    for failure in outcome.failures:
        if failure.id not in waits_for:
            yield from failure_lines(failure)
    for step_id in outcome.skipped:
        yield f"skipped: {one_line(step_id)}"
    for question in outcome.questions:
        yield from _question(question, follow_up)
    if outcome.questions:
        if told := meanwhile(state):
            yield f"Meanwhile: {one_line(told)}"
        if not follow_up.is_possible:
            yield NOT_RESUMABLE


def meanwhile(state: RunState) -> str:
    """What can happen although questions are open, from the graph; empty: none is open."""
    if not state.is_asking:
        return ""
    asked = [subject for subject in state.asked if subject != RUN]
    blocked = {*asked, *state.dag.downstream(asked)} if asked else set()
    able, ended = [], []
    for spec in state.plan.steps:
        if state.step(spec.id).state in FINAL:
            ended.append(spec.id)
        elif spec.id not in blocked and (RUN not in state.asked or spec.id in state.in_flight):
            able.append(spec.id)
    done = f"; finished: {named(ended)}" if ended else ""
    if able:
        return f"can still run: {named(able)}{done}"
    this = "this is" if len(state.asked) == 1 else "one of these is"
    return f"nothing else can run until {this} answered{done}"


def named(step_ids: Sequence[str]) -> str:
    """Some names, as many as a line holds."""
    names, more = ", ".join(step_ids[:_MOST_NAMED]), len(step_ids) - _MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names


def failure_lines(failure: Failure) -> Iterator[str]:
    """One failure: of what, how, with which words."""
    about = "the run" if failure.subject == RUN else one_line(failure.subject)
    kind = WORDS_OF_KIND[failure.kind]
    became = _BECAME.get(failure.state, "failure")
    if failure.state is FailureState.RECOVERED and failure.strategy == STRATEGY_OF[Choice.SKIP]:
        became = "skipped after"
    lines = clean(failure.message).splitlines()
    first = f": {lines[0]}" if lines else ""
    attempt = f" (attempt {failure.attempt})" if failure.attempt else ""
    yield f"{became}: {about}{attempt}, {kind}{first}"
    yield from (f"    {line}" for line in lines[1:20])


def _question(question: Question, follow_up: FollowUp) -> Iterator[str]:
    about = "the run" if question.subject == RUN else one_line(question.subject)
    first, *rest = clean(question.text).splitlines() or [""]
    yield f"Blocked: {about}: {first}"
    yield from (f"    {line}" for line in rest)
    yield "To unblock: one of"
    offers = [(clean(each.command), each.does) for each in follow_up.offers(question)]
    answers = offers or list(question.choices.items())
    width = max((len(answer) for answer, _ in answers), default=0)
    for answer, does in answers:
        yield f"    {answer:<{width}}  {one_line(does)}"


def shown(output: Any) -> str:
    """A value of a tool on one line, cut where it is long."""
    data = plain(output, most_values=_LONGEST_OUTPUT)
    told = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return one_line(told, _LONGEST_OUTPUT)


def whole_lines(output: Any) -> Iterator[str]:
    """A value of a tool on as many lines as it has, cut where it is very long."""
    told = "\n".join(_laid_out(plain(output, most_values=_LONGEST_WHOLE)))
    yield from told[:_LONGEST_WHOLE].split("\n")
    if len(told) > _LONGEST_WHOLE:
        yield "... (it is longer than this; `--json` has all of it)"


def _laid_out(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield clean(data).rstrip("\n")
    elif isinstance(data, dict):
        for name, value in data.items():
            if isinstance(value, str) and "\n" in value:
                yield f"{one_line(name)}:"
                yield from (f"    {line}" for line in clean(value).rstrip("\n").split("\n"))
            else:
                yield f"{one_line(name)}: {clean(json.dumps(value, ensure_ascii=False))}"
    else:
        yield clean(json.dumps(data, ensure_ascii=False, indent=2))
