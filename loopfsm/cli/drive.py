"""Driving a run from the terminal: tell what happens, stop when asked to, end with its code."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from attrs import define

from loopfsm.cli.exits import EXIT_OF, FOUND_SOMETHING, INTERRUPTED
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.printing import clean, json_line, one_line
from loopfsm.cli.progress import JsonProgress, PlainProgress
from loopfsm.cli.signals import run_interruptibly
from loopfsm.cli.streams import complain, say
from loopfsm.cli.summary import named, outcome_data, outcome_lines
from loopfsm.engine.loop import Loop, Outcome
from loopfsm.errors import DriveRefused, JournalRefused, UnknownRun
from loopfsm.model.event import Event
from loopfsm.model.failure import RUN
from loopfsm.model.loop_state import ENDED, LoopState, RunState
from loopfsm.model.step import StepState

CodeOf = Callable[[LoopState], int]

GOES_ON = "goes on"
WAITS = "waits for a person"
"""What becomes of a run that is taken up."""


def nothing() -> None:
    """Nothing is to be done when the drive has begun."""


@define
class Drive:
    """One drive of a run, for somebody at a terminal.

    `begun` is called once the run is held and its first commit is made. `code_of` says what
    the command ends with for the state in which the run comes to rest.
    """

    loop: Loop
    follow_up: FollowUp
    as_json: bool
    is_resumed: bool = False
    begun: Callable[[], None] = nothing
    code_of: CodeOf = EXIT_OF.__getitem__
    _is_stopping: bool = False
    _has_entered: bool = False
    _has_told: bool = False
    """Some event was told: the run is no longer what it was."""

    def to_the_end(self) -> int:
        """Drive the run until it rests, and return the exit code.

        Raises:
            DriveRefused, JournalRefused: it could not be begun; nothing has changed.
        """
        progress = JsonProgress(say) if self.as_json else PlainProgress(say)
        progress.knows(self.loop.state)
        try:
            outcome = run_interruptibly(lambda: self._run(progress), self._stop)
        except (KeyboardInterrupt, asyncio.CancelledError):
            return self._interrupted("what was running has been stopped")
        except (DriveRefused, JournalRefused) as error:
            if not self._has_told:
                raise
            return self._interrupted(str(error))
        except Exception as error:  # noqa: BLE001  # a defect of ours: told with its traceback
            return self._broken(error)
        if self._is_stopping and not is_at_rest(self.loop.state):
            return self._interrupted("what was running has ended and is on record")
        code = self.code_of(outcome.state)
        tell_outcome(outcome, self.loop.state, self.follow_up, code=code, as_json=self.as_json)
        return code

    async def _run(self, progress: JsonProgress | PlainProgress) -> Outcome:
        follower = asyncio.create_task(self._follow(self.loop.events(), progress))
        try:
            outcome = await self.loop.run()
            await follower
            return outcome
        finally:
            if self._has_entered:
                await asyncio.sleep(0)  # the follower tells what came before the end
            follower.cancel()
            progress.end()

    async def _follow(
        self, events: AsyncIterator[Event], progress: JsonProgress | PlainProgress
    ) -> None:
        self._has_entered = True
        self.begun()
        async for event in events:
            self._has_told = True
            progress.event(event)

    def _stop(self) -> None:
        self._is_stopping = True
        self.loop.stop()
        running = tuple(self.loop.state.in_flight)
        if not running:
            complain("interrupted: nothing more is started")
            return
        more = "interrupt once more to end what is running now"
        complain(f"interrupted: {finished_first(running)}; {more}")

    def _interrupted(self, says: str) -> int:
        is_resumable = self.follow_up.is_possible and self._goes_on()
        if self.as_json:
            told = {
                "run_id": self.follow_up.run_id,
                "resumable": is_resumable,
                "resume": self.follow_up.resume if is_resumable else "",
                "reason": says,
            }
            say(json_line({"type": "interrupted", "exit_code": INTERRUPTED, **told}))
            return INTERRUPTED
        if is_resumable:
            told_next = f"go on with: {self.follow_up.resume}"
        elif not self.follow_up.is_possible:
            told_next = "the run was kept in memory and is gone"
        else:
            told_next = f"there is nothing to resume; see: {self.follow_up.command('show')}"
        complain(clean(f"interrupted: {says}; {told_next}"))
        return INTERRUPTED

    def _goes_on(self) -> bool:
        """The journal has the run, and it has not ended."""
        try:
            return self.loop.journal.header(self.follow_up.run_id).state not in ENDED
        except UnknownRun:
            return False
        except JournalRefused:  # it could be read when the run began
            return True

    def _broken(self, error: Exception) -> int:
        told = "".join(traceback.format_exception(error))
        if self.as_json:
            say(json_line({"type": "broken", "exit_code": FOUND_SOMETHING, "traceback": told}))
        else:
            please = "this is a defect of loopfsm; please report it with the lines above"
            complain(f"{clean(told)}{please}")
        return FOUND_SOMETHING


def finished_first(running: Sequence[str]) -> str:
    """What becomes of the steps under way when a run is to stop, in words."""
    count = "1 step is" if len(running) == 1 else f"{len(running)} steps are"
    return f"{count} finished first ({named(running)}), and nothing more is started"


def tell_run(
    state: RunState,
    follow_up: FollowUp,
    *,
    as_json: bool,
    becomes: str = "",
    changed_plan: str = "",
) -> None:
    """The first line: what is run, and where it is kept.

    `becomes` says what happens to a run that was begun earlier; `changed_plan` names its
    plan file when that is no longer what it was.
    """
    plan, place = state.plan, follow_up.place
    if as_json:
        data: Mapping[str, object] = {
            "type": "run",
            "run_id": state.run.id,
            "goal": plan.goal,
            "steps": len(plan.steps),
            "max_parallel": plan.policy.max_parallel,
            "journal": str(place),
            "journal_said_by": place.said_by,
            "resumed": bool(becomes),
            "plan_changed": bool(changed_plan),
        }
        say(json_line(data))
        return
    say(
        f"{one_line(plan.goal)}: {len(plan.steps)} steps, at most {plan.policy.max_parallel} at "
        f"once; journal: {one_line(place)} ({place.said_by})"
    )
    if follow_up.is_possible:
        say(f"run {one_line(state.run.id)}{f' {becomes}' if becomes else ''}")
    if changed_plan:
        keeps = "this run keeps the plan it was begun with"
        say(f"{one_line(changed_plan)} has changed since; {keeps}")


def tell_outcome(
    outcome: Outcome, state: RunState, follow_up: FollowUp, *, code: int, as_json: bool
) -> None:
    """The end of what is told: how the run stands, and what a person can do about it."""
    if as_json:
        say(json_line(outcome_data(outcome, state, follow_up, code=code)))
        return
    for line in outcome_lines(outcome, state, follow_up):
        say(line)


def is_at_rest(state: RunState) -> bool:
    """Nothing happens before a person answers, or at all."""
    if state.ending is not None:
        return True
    # While the budget is asked about, steps that are READY wait for the answer, too.
    can_start = RUN not in state.asked and any(
        state.step(step_id).state is StepState.READY for _, step_id in state.ready.entries()
    )
    can_move = state.in_flight or state.delayed or state.planned or can_start
    return state.is_asking and not can_move
