"""What a run ended with, for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from loopfsm.cli.exits import EXIT_OF
from loopfsm.cli.plain import plain
from loopfsm.cli.printing import clean, one_line
from loopfsm.cli.progress import WORDS_OF_KIND
from loopfsm.model.failure import RUN, Failure, FailureState
from loopfsm.model.loop_state import LoopState
from loopfsm.model.question import Question

_LONGEST_OUTPUT = 140

_BECAME = {
    FailureState.RECOVERED: "recovered from",
    FailureState.SUPERSEDED: "earlier failure",
}
"""How a failure that is over is told; the others are failures still."""

NOT_RESUMABLE = (
    "This run is kept in memory: only the process that ran it could take an answer, and that "
    "process ends here. It cannot be resumed; put right what is in the way and run the plan again."
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


def outcome_data(outcome: Ended, *, resumable: bool) -> Mapping[str, Any]:
    """The last line of `--json`."""
    return {
        "type": "outcome",
        "state": outcome.state,
        "exit_code": EXIT_OF[outcome.state],
        "run_id": outcome.run_id,
        "goal": outcome.reduced_goal,
        "reason": outcome.reason,
        "outputs": outcome.outputs,
        "questions": outcome.questions,
        "failures": outcome.failures,
        "skipped": outcome.skipped,
        "resumable": resumable,
    }


def outcome_lines(outcome: Ended, *, resumable: bool) -> Iterator[str]:
    """The summary for a person."""
    if outcome.outputs:
        yield "outputs:"
        for step_id, output in outcome.outputs.items():
            yield f"  {one_line(step_id)}: {_shown(output)}"
    waits_for = {question.failure_id for question in outcome.questions}
    for failure in outcome.failures:
        if failure.id not in waits_for:
            yield from _failure(failure)
    for step_id in outcome.skipped:
        yield f"skipped: {one_line(step_id)}"
    for question in outcome.questions:
        yield from _question(question)
    if outcome.questions and not resumable:
        yield NOT_RESUMABLE
    told = f": {one_line(outcome.reason)}" if outcome.reason else ""
    yield f"{outcome.state.value}{told}  [{one_line(outcome.reduced_goal)}]"


def _failure(failure: Failure) -> Iterator[str]:
    about = "the run" if failure.subject == RUN else one_line(failure.subject)
    kind = WORDS_OF_KIND[failure.kind]
    became = _BECAME.get(failure.state, "failure")
    lines = clean(failure.message).splitlines()
    first = f": {lines[0]}" if lines else ""
    attempt = f" (attempt {failure.attempt})" if failure.attempt else ""
    yield f"{became}: {about}{attempt}, {kind}{first}"
    yield from (f"    {line}" for line in lines[1:20])


def _question(question: Question) -> Iterator[str]:
    about = "the run" if question.subject == RUN else one_line(question.subject)
    first, *rest = clean(question.text).splitlines() or [""]
    yield f"Blocked: {about}: {first}"
    yield from (f"    {line}" for line in rest)
    yield "To unblock: one of"
    width = max(map(len, question.choices), default=0)
    for choice, does in question.choices.items():
        yield f"    {choice:<{width}}  {one_line(does)}"


def _shown(output: Any) -> str:
    data = plain(output, most_values=_LONGEST_OUTPUT)
    told = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return one_line(told, _LONGEST_OUTPUT)
