"""`Loop`: a plan being run, or a run being taken up. What it does, `driver.Driver` does."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from loopfsm.engine.admission import refuse_unknown_strategies, with_facts_of_tools
from loopfsm.engine.attempt import Equipment
from loopfsm.engine.clock import SystemClock
from loopfsm.engine.core import Core
from loopfsm.engine.driver import Driver
from loopfsm.engine.inputs import Answer, Cancel, Refuse
from loopfsm.engine.outcome import Outcome, outcome_of
from loopfsm.engine.resuming import fingerprints, taken_up
from loopfsm.engine.state import new_run
from loopfsm.engine.tenure import Tenure
from loopfsm.errors import DriveRefused, LeaseHeld
from loopfsm.journals.memory import MemoryJournal
from loopfsm.model.event import Event
from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Plan
from loopfsm.model.record import Message, Origin, Word
from loopfsm.ports import Clock, Evaluator, Journal, Tool, Verifier
from loopfsm.recovery.registry import RecoveryRegistry, default_registry
from loopfsm.tools.registry import ToolRegistry

UNKNOWN = Origin()
"""The run was begun by a program, not from a plan file."""

Tools = ToolRegistry | Iterable[Tool | Callable[..., Any]]


class Loop:
    """A plan being run: embeds the core, performs what it decides.

    Args:
        plan: what to do; refused here, with every problem, when it cannot run.
        tools: what its steps call: a `ToolRegistry`, or tools and functions.
        recovery: the strategies; by default those of the package.
        journal: where the run is kept; by default in memory. A `SqliteJournal` outlives the
            process; what a tool returns is then handed on as a later process would read it.
        clock: the only source of time; by default the system's.
        evaluator, verifier: judge every result, and what the world shows of it. A step's own
            `verify` takes the place of the verifier. What they raise fails the step.
        environment: what `EnvironmentValue` refers to; by default the process's.
        run_id: the name of the run; by default a new one.
        origin: kept with the run, for whoever resumes it.

    Raises:
        PlanError: the plan cannot run with these tools.

    `Loop.resume` takes up a run that a journal holds. The library installs no signal handlers
    and prints nothing.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        tools: Tools,
        recovery: RecoveryRegistry | None = None,
        journal: Journal | None = None,
        clock: Clock | None = None,
        evaluator: Evaluator | None = None,
        verifier: Verifier | None = None,
        environment: Mapping[str, str] | None = None,
        run_id: str | None = None,
        origin: Origin = UNKNOWN,
    ) -> None:
        registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        recovery = recovery or default_registry()
        refuse_unknown_strategies(plan, recovery)
        state = new_run(with_facts_of_tools(plan, registry), run_id or uuid.uuid4().hex[:12])
        self._begin(
            state, registry, recovery, journal or MemoryJournal(), clock, origin, epoch=None
        )
        self._equip(registry, evaluator, verifier, environment)

    @classmethod
    def resume(
        cls,
        run_id: str,
        *,
        journal: Journal,
        tools: Tools,
        recovery: RecoveryRegistry | None = None,
        clock: Clock | None = None,
        evaluator: Evaluator | None = None,
        verifier: Verifier | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Loop:
        """A run that `journal` holds, as it stands there: `run` drives it on.

        The plan is that of the journal; the other arguments are those of `Loop`. Whatever was
        under way when its last driver died is interrupted when `run` takes it up: begun anew
        where a repeat is safe, else a failure that a person decides on. What was recorded is
        not done again.

        Raises:
            UnknownRun: the journal has no such run.
            RunChanged: a row that it used, or a tool that it needs, has changed or gone.
            JournalRefused: what is kept cannot be read.
        """
        loop = cls.__new__(cls)
        registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools)
        recovery = recovery or default_registry()
        state, epoch = taken_up(journal, run_id, recovery.machines, registry, recovery)
        loop._begin(state, registry, recovery, journal, clock, UNKNOWN, epoch=epoch)
        loop._equip(registry, evaluator, verifier, environment)
        return loop

    def _begin(
        self,
        state: RunState,
        tools: ToolRegistry,
        recovery: RecoveryRegistry,
        journal: Journal,
        clock: Clock | None,
        origin: Origin,
        *,
        epoch: int | None,
    ) -> None:
        def reload() -> RunState:
            return taken_up(journal, state.run.id, recovery.machines, tools, recovery)[0]

        self._journal = journal
        self._clock = clock or SystemClock()
        rows = fingerprints(recovery.machines)
        tenure = Tenure(journal, self._clock, rows, origin, epoch=epoch)
        self._driver = Driver(
            state, Core.of(recovery), self._clock, tenure, reload, interrupted=epoch is not None
        )

    def _equip(
        self,
        tools: ToolRegistry,
        evaluator: Evaluator | None,
        verifier: Verifier | None,
        environment: Mapping[str, str] | None,
    ) -> None:
        self._driver.equipment = Equipment(
            tools=tools,
            clock=self._clock,
            environment=os.environ if environment is None else environment,
            evaluator=evaluator,
            verifier=verifier,
            feed=self._driver.feed,
            abandon=self._driver.abandon,
            output_dir=self._journal.output_dir(self.state.run.id),
            keepable=self._journal.keepable,
        )

    # What can be seen

    @property
    def state(self) -> RunState:
        """The run as it stands, as far as this process knows; immutable."""
        return self._driver.state

    @property
    def journal(self) -> Journal:
        """Where the run is kept."""
        return self._journal

    @property
    def outcome(self) -> Outcome:
        """How the run stands now."""
        return outcome_of(self.state)

    def events(self) -> AsyncIterator[Event]:
        """Every event from now on, each after it was journaled; ends when `run` returns."""
        return self._driver.follow()

    # What can be done

    async def run(self) -> Outcome:
        """Drive the run until it ends, or until nothing can happen before a person answers.

        Cancelling it stops the tools under way; a later `run` takes the run up again, and
        treats what was under way as interrupted.

        Raises:
            DriveRefused: it is being driven already. `LeaseHeld`: by another process.
            LeaseLost: another process has taken the run over meanwhile.
            RunChanged: another process has driven it, and it cannot be taken up here.
            JournalRefused: the journal cannot be written to; what it has is what happened.
        """
        await self._driver.run()
        return self.outcome

    def run_sync(self) -> Outcome:
        """Do as `run` does, in an event loop of its own."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run())
        raise DriveRefused("an event loop is running in this thread", "Await `run()` instead")

    def stop(self) -> None:
        """Let what is under way end and be recorded, and start nothing more; `run` then returns.

        The run can be taken up again at any time. May be called from any thread; does nothing
        when the run is not being driven here.
        """
        self._driver.stop()

    def answer(
        self,
        subject: str,
        choice: str,
        *,
        said: str = "",
        to: float | None = None,
        question: str = "",
        token: str | None = None,
    ) -> None:
        """Answer the open question about a step, or about the run (`subject` = "run").

        Args:
            subject: the id of the step, or "run".
            choice: one of the question's choices.
            said: a person's own words, kept with the answer.
            to: the new limit that goes with `raise`.
            question: the id of the question that was read, such as "Q3"; a later one about the
                same subject is then not answered. Empty: whichever is open.
            token: makes the answer unique: a second one with the same token is refused.

        A run that is being driven goes on at once; any other when it is driven again. When
        another process drives it, the answer is left in the journal, where that process finds
        it within a second; `journal.message(run_id, token).reply` says what became of it. May
        be called from any thread.

        Raises:
            AnswerRefused: it fits no open question; nothing has changed.
        """
        token = token or uuid.uuid4().hex
        answer = Answer(
            subject=subject,
            choice=choice,
            token=token,
            question=question,
            said=said,
            raised_to=to,
        )
        try:
            reply = self._driver.take(answer)
        except LeaseHeld:
            message = Message(
                token=token,
                word=Word.ANSWER,
                subject=subject,
                question=question,
                choice=choice,
                said=said,
                raised_to=to,
                sent_at=self._clock.now(),
            )
            self._journal.send(self.state.run.id, message)
            return
        if isinstance(reply, Refuse):
            raise reply.error

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run as ABSTAINED: nothing new starts, what is under way ends and is recorded.

        When another process drives the run, the word is left in the journal for it.

        Raises:
            DriveRefused: the run has ended.
        """
        if self.state.ending is not None:
            problem = f"the run has ended as {self.state.run.state.name}"
            raise DriveRefused(problem, "There is nothing left to cancel")
        try:
            self._driver.take(Cancel(reason))
        except LeaseHeld:
            token, now = uuid.uuid4().hex, self._clock.now()
            message = Message(token=token, word=Word.CANCEL, said=reason, sent_at=now)
            self._journal.send(self.state.run.id, message)


__all__ = ["Loop", "Outcome"]
