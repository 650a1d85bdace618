"""`loopfsm show RUN [STEP]`: how a run stands, or everything about one of its steps."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopfsm.cli.exits import CLEAN
from loopfsm.cli.finding import driver_told, find_run, how_to_go_on, is_left
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import looked_at, place_of
from loopfsm.cli.printing import clean, json_line, one_line
from loopfsm.cli.progress import event_data
from loopfsm.cli.runs import header_data
from loopfsm.cli.streams import say
from loopfsm.cli.summary import (
    failure_lines,
    outcome_lines,
    shown,
    standing_data,
    whole_lines,
)
from loopfsm.cli.trace import Traced
from loopfsm.engine.outcome import outcome_of
from loopfsm.engine.state import state_from
from loopfsm.errors import DriveRefused
from loopfsm.journals.sqlite.holder import local_time
from loopfsm.model.event import Event
from loopfsm.model.failure import RUN, Failure
from loopfsm.model.loop_state import RunState
from loopfsm.model.question import Question, QuestionState
from loopfsm.model.record import Header
from loopfsm.model.step import Step

Numbered = tuple[int, Event]


def do(args: argparse.Namespace) -> int:
    """Show the run `args.run`, or its step `args.step`."""
    place = place_of(args.journal)
    with looked_at(place) as journal:
        header = find_run(journal, args.run)
        state = state_from(journal.load(header.run_id))
        events = enumerate(journal.events(header.run_id), 1) if args.step is not None else ()
        if args.step is None:
            follow_up = FollowUp(header.run_id, place)
            data, lines = _run_data(header, state, follow_up), _run_lines(header, state, follow_up)
        else:
            step = _step(state, args.step)
            about = _events_of(step, state, events)
            data, lines = _step_data(step, state, about), _step_lines(header, step, state, about)
        if args.json:
            say(json_line(data))
        else:
            for line in lines:
                say(line)
    return CLEAN


def _step(state: RunState, step_id: str) -> Step:
    if step_id not in state.steps:
        near = difflib.get_close_matches(step_id, [spec.id for spec in state.plan.steps], n=3)
        known = near or [spec.id for spec in state.plan.steps[:3]]
        problem = f"the run {state.run.id} has no step {step_id!r}"
        raise DriveRefused(problem, f"It has: {', '.join(known)}")
    return state.step(step_id)


# The run


def _run_data(header: Header, state: RunState, follow_up: FollowUp) -> Mapping[str, Any]:
    return {
        "type": "show",
        "run": header_data(header),
        "state": state.run.state,
        **standing_data(outcome_of(state), state, follow_up),
        "steps": [
            {"id": step.id, "state": step.state, "attempts": step.attempt} for step in _steps(state)
        ],
        "spent": state.spent,
        "limits": {budget: _limit(state, budget) for budget in state.spent},
    }


def _run_lines(header: Header, state: RunState, follow_up: FollowUp) -> Iterator[str]:
    yield f"run {one_line(header.run_id)}: {one_line(header.goal)}"
    yield f"journal: {one_line(follow_up.place)} ({follow_up.place.said_by})"
    if header.origin.path:
        yield f"plan: {one_line(header.origin.path)}, from {one_line(header.origin.directory)}"
    else:
        yield "plan: of a program, not of a file"
    when = f"created: {local_time(header.created_at)}; changed: {local_time(header.changed_at)}"
    yield f"{when}; {header.events} events in {header.commits} commits"
    yield f"driven by: {one_line(driver_told(header)) or 'nobody'}"
    steps = tuple(_steps(state))
    width = min(max(len(one_line(step.id)) for step in steps), 40)
    yield f"steps: {len(steps)}"
    for step in steps:
        yield f"  {one_line(step.id):<{width}}  {step.state.value}{_attempts(step)}"
    for budget, spent in sorted(state.spent.items()):
        limit = _limit(state, budget)
        of = "" if limit is None else f" of {limit:g}"
        yield f"spent: {one_line(budget)} {spent:g}{of}"
    yield from _answers(state.questions.values())
    yield from outcome_lines(outcome_of(state), state, follow_up)
    if is_left(header):
        yield clean(f"nobody drives it; {how_to_go_on(header, follow_up)}")


def _steps(state: RunState) -> Iterator[Step]:
    return (state.step(spec.id) for spec in state.plan.steps)


def _attempts(step: Step) -> str:
    if not step.attempt:
        return ""
    return f" ({step.attempt} attempt{'s' if step.attempt > 1 else ''})"


def _answers(questions: Iterable[Question]) -> Iterator[str]:
    """What people have answered, with their words."""
    for question in sorted(questions, key=lambda question: question.number):
        if question.state is QuestionState.ANSWERED:
            about = "the run" if question.subject == RUN else question.subject
            said = f" ({question.said})" if question.said else ""
            yield one_line(f"answered: {about}: {question.choice}{said}")


def _limit(state: RunState, budget: str) -> float | None:
    """The limit of a budget of the run, or of one that each lineage has."""
    kind, _, lineage = budget.partition("/")
    return getattr(state.plan.policy, kind, None) if lineage else state.limit_of(budget)


# One step


def _events_of(step: Step, state: RunState, events: Any) -> Sequence[Numbered]:
    """The events of the step, of its failures and of its questions."""
    about = {("step", step.id)}
    about.update(("failure", each.id) for each in _failures(step, state))
    about.update(("question", each.id) for each in _questions(step, state))
    return [(number, event) for number, event in events if (event.noun, event.id) in about]


def _failures(step: Step, state: RunState) -> Sequence[Failure]:
    own = (each for each in state.failures.values() if each.subject == step.id)
    return sorted(own, key=lambda failure: failure.number)


def _questions(step: Step, state: RunState) -> Sequence[Question]:
    return [question for question in state.questions.values() if question.subject == step.id]


def _step_data(step: Step, state: RunState, about: Sequence[Numbered]) -> Mapping[str, Any]:
    return {
        "type": "step",
        "run_id": state.run.id,
        "step": step,
        "failures": _failures(step, state),
        "questions": _questions(step, state),
        "events": [event_data(event, number) for number, event in about],
    }


def _step_lines(
    header: Header, step: Step, state: RunState, about: Sequence[Numbered]
) -> Iterator[str]:
    spec = step.spec
    yield f"step {one_line(step.id)} of run {one_line(header.run_id)}: {step.state.value}"
    if spec.description:
        yield f"description: {one_line(spec.description)}"
    yield f"tool: {one_line(spec.tool)}"
    if spec.args:
        yield f"args: {shown(spec.args)}"
    if spec.needs:
        yield f"needs: {one_line(', '.join(spec.needs))}"
    words = [name for name in ("optional", "critical", "idempotent") if getattr(spec, name)]
    if words:
        yield f"is: {', '.join(words)}"
    yield f"attempts: {step.attempt}; repeats: {_repeats(step, state)}"
    if step.start_time is not None:
        yield f"started: {local_time(step.start_time)}"
    if step.end_time is not None:
        yield f"ended: {local_time(step.end_time)}"
    if step.output is not None:
        yield "output:"
        yield from (f"    {line}" for line in whole_lines(step.output))
    for failure in _failures(step, state):
        yield from failure_lines(failure)
    yield from _answers(_questions(step, state))
    yield f"events: {len(about)}"
    traced = Traced(header.created_at)
    for number, event in about:
        yield clean(traced.line(number, event))


def _repeats(step: Step, state: RunState) -> str:
    """How often the step was repeated; what a person grants, no limit applies to."""
    count, limit = step.retry_count, state.plan.policy.retries_of(step.spec)
    if count <= limit:
        return f"{count} of {limit}"
    return f"{count}, {count - limit} of them granted by a person beyond the limit of {limit}"
