"""What a driver hands out: how the run stands, and its events as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from attrs import frozen

from loopfsm.model.event import Event
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import ENDED, LoopState, RunState
from loopfsm.model.question import Question
from loopfsm.model.step import StepState


@frozen(kw_only=True)
class Outcome:
    """How a run stands when its driver returns."""

    run_id: str
    state: LoopState
    reason: str
    reduced_goal: str
    """The goal, with what it was pursued without."""
    outputs: Mapping[str, Any]
    """Step id -> output, of every verified step."""
    questions: tuple[Question, ...]
    """What is asked, oldest first: the run goes on when it is answered."""
    failures: tuple[Failure, ...]
    """Every failure of the run, oldest first, as it was settled or stands."""
    skipped: tuple[str, ...]
    spent: Mapping[str, float]
    """What was used of each budget."""

    @property
    def final(self) -> bool:
        """Whether the run has ended; else it waits for a person."""
        return self.state in ENDED


class EventStream:
    """The events of one drive, from when the stream was asked for until `run` returns."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def publish(self, event: Event | None) -> None:
        """Hand on an event; None ends the stream."""
        self._queue.put_nowait(event)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self._queue.get()
        if event is None:
            raise StopAsyncIteration
        return event


def outcome_of(state: RunState) -> Outcome:
    """How a run stands."""
    steps = (state.step(spec.id) for spec in state.plan.steps)
    asked = (state.questions[question_id] for question_id in state.asked.values())
    return Outcome(
        run_id=state.run.id,
        state=state.run.state,
        reason=state.run.reason,
        reduced_goal=state.run.reduced_goal,
        outputs={s.id: s.output for s in steps if s.state is StepState.VERIFIED_COMPLETED},
        questions=tuple(sorted(asked, key=lambda question: question.number)),
        failures=tuple(sorted(state.failures.values(), key=lambda failure: failure.number)),
        skipped=state.run.without,
        spent=dict(state.spent),
    )
