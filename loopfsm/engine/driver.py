"""The driver of one run: performs the commands of `advance` and feeds back what came of them.

It decides nothing. Everything happens on one event loop: an input arrives, all that have
arrived are folded in one call (one commit), the journal takes the units, subscribers get
the events, the commands are performed. `loop.Loop` is its public face.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from loopfsm.engine import attempt, judging
from loopfsm.engine.core import Core
from loopfsm.engine.inputs import (
    Accepted,
    Command,
    Drive,
    Due,
    Input,
    Park,
    Refuse,
    WakeAt,
)
from loopfsm.engine.outcome import EventStream
from loopfsm.engine.performing import performed
from loopfsm.engine.tenure import LOOK_EVERY_S, Tenure
from loopfsm.engine.threads import call_in_loop
from loopfsm.errors import CoreBroken, DriveRefused, JournalRefused, LeaseLost, Refused
from loopfsm.model.event import Unit
from loopfsm.model.loop_state import RunState
from loopfsm.ports import Clock, Timer
from loopfsm.tools.leftovers import end_left_over

log = logging.getLogger("loopfsm")


class Driver:
    """One run in this process: its state, and whatever is under way for it."""

    def __init__(
        self,
        state: RunState,
        core: Core,
        clock: Clock,
        tenure: Tenure,
        reload: Callable[[], RunState],
        *,
        interrupted: bool,
    ) -> None:
        self.state = state
        self.equipment: attempt.Equipment
        """Set by whoever makes the driver, since it feeds back to it."""
        self._core = core
        self._clock = clock
        self._tenure = tenure
        self._reload = reload
        """Reads the run from the journal, after somebody else has driven it."""
        self._lock = threading.RLock()
        """Held while the state changes, so that any thread may answer a run nobody drives."""
        self._inbox: deque[Input] = deque()
        self._backlog: list[Command] = []
        self._replies: dict[str, Refuse | Accepted] = {}
        self._streams: list[EventStream] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        self._timers: dict[WakeAt, Timer] = {}
        self._next_look: Timer | None = None
        self._lost: Refused | None = None
        """Why this process may not go on: the lease, or the journal, is gone."""
        self._stopping = False
        self._latest = 0.0
        """The moment of the last call: a clock that is set back does not turn time around."""
        self._interrupted = interrupted
        """The last driver left something under way that nobody is going to finish."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._woken: asyncio.Event | None = None

    @property
    def is_driving(self) -> bool:
        """Whether somebody awaits `run`."""
        return self._loop is not None

    def follow(self) -> EventStream:
        """Every event from now on; ends when `run` returns."""
        stream = EventStream()
        if self.state.ending is None or self.is_driving:
            self._streams.append(stream)
        else:
            stream.publish(None)
        return stream

    async def run(self) -> None:
        """Drive the run until it ends or rests; see `Loop.run`."""
        with self._lock:
            self._forget_closed_loop()
            if self._loop is not None:
                instead = "Await the first `run` instead"
                raise DriveRefused("this run is being driven already", instead)
            if self.state.ending is not None:
                return
            self._enter()
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            self._woken = woken = asyncio.Event()
            self._stopping = False
        try:
            if self._interrupted and self.state.in_flight:
                await self._end_what_was_left()
            self._advance([Drive(resumed=self._interrupted), *self._tenure.look()])
            backlog, self._backlog = self._backlog, []
            self._perform(backlog)
            self._look_later()
            while not self._is_at_rest() or self._hears():
                await woken.wait()
                woken.clear()
                if self._lost is not None:
                    raise self._lost
                self._take_in()
        finally:
            await self._leave(woken)

    def stop(self) -> None:
        """Let what is under way end and be recorded; nothing new starts, then `run` returns."""
        if self.is_driving:
            self.in_driver_thread(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        if self.is_driving and not self._stopping:
            self._stopping = True
            self._advance([Park()])

    def take(self, item: Input) -> Refuse | Accepted | None:
        """Fold one input now, wherever the run is driven, and return the reply to its token.

        Raises:
            LeaseHeld: another process drives the run.
        """
        replies: list[Refuse | Accepted] = []

        def work() -> None:
            self._advance([item])
            reply = self._replies.pop(getattr(item, "token", ""), None)
            if reply is not None:
                replies.append(reply)

        self.in_driver_thread(work)
        return replies[0] if replies else None

    def in_driver_thread(self, work: Callable[[], None]) -> None:
        """Do `work` where the run is driven; here, when nobody of this process drives it."""
        with self._lock:
            self._forget_closed_loop()
            driver, woken = self._loop, self._woken
            if driver is None or woken is None:
                self._alone(work)
                return

        def work_and_wake() -> None:
            if self._woken is not woken:  # the driver has left in the meantime
                with self._lock:
                    self._alone(work)
                return
            try:
                work()
            finally:
                woken.set()

        if self._thread == threading.get_ident():
            work_and_wake()
        else:
            call_in_loop(driver, work_and_wake)

    # Inputs

    def feed(self, item: Input) -> None:
        """Take an input: with all others that arrived, if somebody drives; else by itself."""
        if self._woken is not None:
            self._inbox.append(item)
            self._woken.set()
            return
        try:
            with self._lock:
                self._alone(lambda: self._advance([item]))
        except Refused as error:  # whoever has the run now has given the attempt up
            log.warning("what came late for run %s is not on record: %s", self.state.run.id, error)

    def _take_in(self, *then: Input) -> None:
        """Fold what has arrived, in one call; it stays in the inbox until that is committed."""
        arrived = list(self._inbox)
        if arrived or then:
            self._advance([*arrived, *then])
            for _ in arrived:
                self._inbox.popleft()

    def _advance(self, inputs: Iterable[Input]) -> None:
        with self._lock:
            now = self._latest = max(self._clock.now(), self._latest)
            state, units, commands = self._core.advance(self.state, inputs, now)
            try:
                self._tenure.commit(units, state, now, commands)
            except LeaseLost as error:
                self._give_up(error)
                raise
            self.state = state
        if self._streams:
            self._publish(units)
        self._perform(commands)

    def _publish(self, units: Iterable[Unit]) -> None:
        for stream in self._streams:
            for unit in units:
                for event in unit.events:
                    stream.publish(event)

    def _hears(self) -> bool:
        """Whether somebody has sent a word just before this driver leaves; it is taken in next.

        What comes later finds nobody who drives, and its sender takes the run up. A driver that
        was told to stop listens no more: it would accept a word that it does not carry out.
        """
        if not self._stopping:
            self._inbox.extend(self._tenure.look())
            if self._inbox and self._woken is not None:
                self._woken.set()
        return bool(self._inbox)

    def _look_later(self) -> None:
        if self._tenure.journal.durable:
            self._next_look = self._clock.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """See whether somebody sent a word, and say that this driver is still there."""
        try:
            waiting = {getattr(item, "token", None) for item in self._inbox}
            for word in self._tenure.look():
                if word.token not in waiting and not self._stopping:
                    self.feed(word)
        except LeaseLost as error:
            self._give_up(error)
            return
        except JournalRefused as error:  # whether that is the end, the next commit will tell
            log.warning("run %s cannot look for words: %s", self.state.run.id, error)
        self._look_later()

    def _give_up(self, error: Refused) -> None:
        self._lost = error
        if self._woken is not None:
            self._woken.set()

    # Commands

    def _perform(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, (Accepted, Refuse)):
                self._replies[command.token] = command
            elif self._loop is None:
                self._backlog.append(command)
            elif isinstance(command, WakeAt):
                self._wake_at(command)
            else:
                task = self._loop.create_task(self._carry_out(command))
                self._tasks.add(task)
                task.add_done_callback(self._task_ended)

    def abandon(self, task: asyncio.Task[None]) -> None:
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
            self.feed(command.then)

        delay = max(command.at - self._clock.now(), 0.0)
        self._timers[command] = self._clock.call_later(delay, due)

    async def _carry_out(self, command: Command) -> None:
        try:
            item = await performed(self.equipment, self._core.registry, self.state, command)
        except asyncio.CancelledError:
            raise  # the driver leaves
        except Exception as error:  # nothing may be lost, whatever foreign code brought up
            item = judging.lost(command, error)
        if item is not None:
            self.feed(item)

    # Coming and going

    def _enter(self) -> None:
        """Take the lease; what somebody else has done with the run since is read back."""
        self._lost = None
        if self._tenure.enter(self.state):
            try:
                self.state = self._reload()
            except BaseException:
                self._tenure.leave()
                raise
            self._interrupted = True
            self._backlog.clear()

    def _alone(self, work: Callable[[], None]) -> None:
        """Do `work` with the lease of a run that nobody drives."""
        self._enter()
        try:
            work()
        finally:
            self._tenure.leave()

    def _is_at_rest(self) -> bool:
        if self.state.ending is not None:
            return True
        if self._tasks or self._inbox:
            return False
        if self._stopping:
            return True
        if any(isinstance(command.then, Due) for command in self._timers):
            return False
        if not self.state.is_asking:
            raise CoreBroken(f"the run stands in {self.state.run.state.name}, and nothing is due")
        return True

    async def _end_what_was_left(self) -> None:
        """End the programs that have outlived the driver which started them."""
        count = await end_left_over(self.equipment.output_dir)
        if count:
            what = "1 program" if count == 1 else f"{count} programs"
            log.warning("run %s: ended %s of its last driver", self.state.run.id, what)

    async def _leave(self, woken: asyncio.Event) -> None:
        """Stop what is under way and hand the run back, unless that has been done already."""
        try:
            for timer in self._timers.values():
                timer.cancel()
            if self._next_look is not None:
                self._next_look.cancel()
            for task in (*self._tasks, *self._abandoned):
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=2 * attempt.GIVE_UP_S)
        finally:  # cancelled once more, or on a loop that is closed, it waits for nobody
            if self._woken is woken:
                self._hand_back()

    def _forget_closed_loop(self) -> None:
        """An event loop that was closed under its driver drives nothing any more."""
        if self._loop is not None and self._loop.is_closed():
            self._hand_back()

    def _hand_back(self) -> None:
        """Fold what has arrived, and let the next driver in."""
        with self._lock:
            self._tasks.clear()
            self._backlog = list(self._timers)
            self._timers.clear()
            self._woken = self._loop = self._thread = None
            try:
                if self._lost is None:
                    self._take_in(Park())
                else:
                    self._inbox.clear()  # the run is somebody else's now
            finally:
                self._tenure.leave()
                state = self.state
                self._interrupted = bool(state.in_flight or state.planned)
                if self._interrupted:  # whoever takes the run up is told anew what to do
                    self._backlog.clear()
                self._replies.clear()
                for stream in self._streams:
                    stream.publish(None)
                self._streams.clear()
