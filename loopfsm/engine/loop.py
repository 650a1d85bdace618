"""The driver: performs the commands of `advance` and feeds back what came of them.

It decides nothing. Everything happens on one event loop: an input arrives, all that have
arrived are folded in one call (one commit), the journal takes the units, subscribers get
the events, the commands are performed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from loopfsm.engine import attempt, judging
from loopfsm.engine.admission import refuse_unknown_strategies, with_facts_of_tools
from loopfsm.engine.clock import SystemClock
from loopfsm.engine.core import Core
from loopfsm.engine.inputs import (
    Accepted,
    Answer,
    CallTool,
    Cancel,
    Command,
    Drive,
    Due,
    Evaluate,
    Input,
    Park,
    Prepare,
    Prepared,
    Refuse,
    Verify,
    WakeAt,
)
from loopfsm.engine.outcome import EventStream, Outcome, outcome_of
from loopfsm.engine.settle import describe_error
from loopfsm.engine.state import new_run
from loopfsm.engine.threads import call_in_loop
from loopfsm.engine.turn import case_of
from loopfsm.errors import CoreBroken, DriveRefused
from loopfsm.journals.memory import MemoryJournal
from loopfsm.model.event import Event
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Plan
from loopfsm.ports import Clock, Evaluator, Journal, Timer, Tool, Verifier
from loopfsm.recovery.registry import RecoveryRegistry, default_registry
from loopfsm.tools.registry import ToolRegistry


class Loop:
    """A plan being run: embeds the core, performs what it decides.

    Args:
        plan: what to do; refused here, with every problem, when it cannot run.
        tools: what its steps call: a `ToolRegistry`, or tools and functions.
        recovery: the strategies; by default those of the package.
        journal: where the run is kept; by default in memory.
        clock: the only source of time; by default the system's.
        evaluator, verifier: judge every result, and what the world shows of it. A step's own
            `verify` takes the place of the verifier. What they raise fails the step.
        environment: what `EnvironmentValue` refers to; by default the process's.
        run_id: the name of the run; by default a new one.

    Raises:
        PlanError: the plan cannot run with these tools.

    The library installs no signal handlers and prints nothing.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        tools: ToolRegistry | Iterable[Tool | Callable[..., Any]],
        recovery: RecoveryRegistry | None = None,
        journal: Journal | None = None,
        clock: Clock | None = None,
        evaluator: Evaluator | None = None,
        verifier: Verifier | None = None,
        environment: Mapping[str, str] | None = None,
        run_id: str | None = None,
    ) -> None:
        registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        self._registry = recovery or default_registry()
        self._core = Core.of(self._registry)
        self._clock = clock or SystemClock()
        self._journal = journal or MemoryJournal()
        refuse_unknown_strategies(plan, self._registry)
        run_id = run_id or uuid.uuid4().hex[:12]
        self._state = new_run(with_facts_of_tools(plan, registry), run_id)
        self._equipment = attempt.Equipment(
            tools=registry,
            clock=self._clock,
            environment=os.environ if environment is None else environment,
            evaluator=evaluator,
            verifier=verifier,
            feed=self._feed,
            abandon=self._abandon,
        )
        self._lock = threading.RLock()
        """Held while the state changes, so that any thread may answer a run nobody drives."""
        self._inbox: deque[Input] = deque()
        self._backlog: list[Command] = []
        self._replies: dict[str, Refuse | Accepted] = {}
        self._streams: list[EventStream] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        self._timers: dict[WakeAt, Timer] = {}
        self._interrupted = False
        """The last drive left something under way that nobody is going to finish."""
        self._driver: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._woken: asyncio.Event | None = None

    # What can be seen

    @property
    def state(self) -> RunState:
        """The run as it stands; immutable."""
        return self._state

    @property
    def journal(self) -> Journal:
        """Where the run is kept."""
        return self._journal

    @property
    def outcome(self) -> Outcome:
        """How the run stands now."""
        return outcome_of(self._state)

    def events(self) -> AsyncIterator[Event]:
        """Every event from now on, each after it was journaled; ends when `run` returns."""
        stream = EventStream()
        if self._state.ending is None or self._driver is not None:
            self._streams.append(stream)
        else:
            stream.publish(None)
        return stream

    # What can be done

    async def run(self) -> Outcome:
        """Drive the run until it ends, or until nothing can happen before a person answers.

        Cancelling it stops the tools under way; a later `run` takes the run up again, and
        treats what was under way as interrupted.

        Raises:
            DriveRefused: it is being driven already.
        """
        with self._lock:
            if self._driver is not None:
                instead = "Await the first `run` instead"
                raise DriveRefused("this run is being driven already", instead)
            self._driver, self._thread = asyncio.get_running_loop(), threading.get_ident()
            self._woken = woken = asyncio.Event()
        try:
            self._advance([Drive(resumed=self._interrupted)])
            backlog, self._backlog = self._backlog, []
            self._perform(backlog)
            while not self._at_rest():
                await woken.wait()
                woken.clear()
                self._take_in()
        finally:
            await self._leave()
        return self.outcome

    def run_sync(self) -> Outcome:
        """Do as `run` does, in an event loop of its own."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run())
        raise DriveRefused("an event loop is running in this thread", "Await `run()` instead")

    def answer(
        self,
        subject: str,
        choice: str,
        *,
        said: str = "",
        to: float | None = None,
        token: str | None = None,
    ) -> None:
        """Answer the open question about a step, or about the run (`subject` = "run").

        Args:
            subject: the id of the step, or "run".
            choice: one of the question's choices.
            said: a person's own words, kept with the answer.
            to: the new limit that goes with `raise`.
            token: makes the answer unique: a second one with the same token is refused.

        A run that is being driven goes on at once; any other when it is driven again. May be
        called from any thread.

        Raises:
            AnswerRefused: it fits no open question; nothing has changed.
        """
        token = token or uuid.uuid4().hex
        answer = Answer(subject=subject, choice=choice, token=token, said=said, raised_to=to)

        def take() -> None:
            self._advance([answer])
            reply = self._replies.pop(token)
            if isinstance(reply, Refuse):
                raise reply.error

        self._in_driver_thread(take)

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run as ABSTAINED: nothing new starts, what is under way ends and is recorded.

        Raises:
            DriveRefused: the run has ended.
        """
        if self._state.ending is not None:
            problem = f"the run has ended as {self._state.run.state.name}"
            raise DriveRefused(problem, "There is nothing left to cancel")
        self._in_driver_thread(lambda: self._advance([Cancel(reason)]))

    # Inputs

    def _feed(self, item: Input) -> None:
        """Take an input: with all others that arrived, if somebody drives; else by itself."""
        if self._woken is None:
            self._advance([item])
        else:
            self._inbox.append(item)
            self._woken.set()

    def _take_in(self, *then: Input) -> None:
        """Fold what has arrived, in one call; it stays in the inbox until that is committed."""
        arrived = list(self._inbox)
        if arrived or then:
            self._advance([*arrived, *then])
            for _ in arrived:
                self._inbox.popleft()

    def _advance(self, inputs: Iterable[Input]) -> None:
        with self._lock:
            self._commit(inputs)

    def _commit(self, inputs: Iterable[Input]) -> None:
        state, units, commands = self._core.advance(self._state, inputs, self._clock.now())
        if units:
            self._journal.append(state.run.id, units)
        self._state = state
        for stream in self._streams:
            for unit in units:
                for event in unit.events:
                    stream.publish(event)
        self._perform(commands)

    def _in_driver_thread(self, work: Callable[[], None]) -> None:
        """Do `work` where the run is driven; here, when nobody drives it."""
        with self._lock:
            driver, woken = self._driver, self._woken
            if driver is None or woken is None:
                work()
                return

        def work_and_wake() -> None:
            try:
                work()
            finally:
                woken.set()

        if self._thread == threading.get_ident():
            work_and_wake()
        else:
            call_in_loop(driver, work_and_wake)

    # Commands

    def _perform(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, (Accepted, Refuse)):
                self._replies[command.token] = command
            elif self._driver is None:
                self._backlog.append(command)
            elif isinstance(command, WakeAt):
                self._wake_at(command)
            else:
                task = self._driver.create_task(self._carry_out(command))
                self._tasks.add(task)
                task.add_done_callback(self._task_ended)

    def _abandon(self, task: asyncio.Task[None]) -> None:
        """Wait no longer for a task whose tool ignores its cancellation."""
        self._tasks.discard(task)
        self._abandoned.add(task)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._abandoned.discard(task)
        if self._woken is not None:
            self._woken.set()

    def _wake_at(self, command: WakeAt) -> None:
        def due() -> None:
            self._timers.pop(command, None)
            self._feed(command.then)

        delay = max(command.at - self._clock.now(), 0.0)
        self._timers[command] = self._clock.call_later(delay, due)

    async def _carry_out(self, command: Command) -> None:
        try:
            item = await self._performed(command)
        except asyncio.CancelledError:
            raise  # the driver leaves
        except Exception as error:  # nothing may be lost, whatever foreign code brought up
            item = judging.lost(command, error)
        if item is not None:
            self._feed(item)

    def _performed(self, command: Command) -> Awaitable[Input | None]:
        state, equipment = self._state, self._equipment
        if isinstance(command, CallTool):
            return judging.call_and_judge(equipment, state, command)
        if isinstance(command, Evaluate):
            return judging.evaluate(equipment, state, command)
        if isinstance(command, Verify):
            return judging.verify(equipment, state, command)
        if isinstance(command, Prepare):
            return self._prepared(command)
        raise CoreBroken(f"nobody performs {command!r}")

    async def _prepared(self, command: Prepare) -> Prepared:
        failure = self._state.failure(command.failure_id)
        handler = self._registry.get(failure.strategy or "")
        assert handler is not None  # the command names a registered strategy
        case = case_of(failure, self._state, self._state, self._clock.now())
        try:
            value = await handler.prepare(case)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and attempt.is_being_cancelled():
                raise
            why, evidence = describe_error(error)
            return Prepared(failure.id, command.plan, error=why, evidence=evidence)
        return Prepared(failure.id, command.plan, value)

    # Coming and going

    def _at_rest(self) -> bool:
        if self._state.ending is not None:
            return True
        due = any(isinstance(command.then, Due) for command in self._timers)
        if self._tasks or self._inbox or due:
            return False
        if not self._state.is_asking:
            raise CoreBroken(f"the run stands in {self._state.run.state.name}, and nothing is due")
        return True

    async def _leave(self) -> None:
        """Stop what is under way and hand the run back."""
        for timer in self._timers.values():
            timer.cancel()
        self._backlog = list(self._timers)
        self._timers.clear()
        for task in (*self._tasks, *self._abandoned):
            task.cancel()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=2 * attempt.GIVE_UP_S)
        finally:  # cancelled once more, it waits for nobody
            self._hand_back()

    def _hand_back(self) -> None:
        """Fold what has arrived, and let the next driver in."""
        with self._lock:
            self._tasks.clear()
            self._woken = self._driver = self._thread = None
            try:
                self._take_in(Park())
            finally:
                state = self._state
                self._interrupted = bool(state.in_flight or state.planned)
                if self._interrupted:  # whoever takes the run up is told anew what to do
                    self._backlog.clear()
                for stream in self._streams:
                    stream.publish(None)
                self._streams.clear()


__all__ = ["Loop", "Outcome"]
