"""A tool that does what a test wrote down, and remembers how it was called."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.ports import Clock, ToolContext


@frozen
class Returns:
    """The call returns `value`."""

    value: Any = None


@frozen
class Raises:
    """The call raises `error`."""

    error: BaseException


@frozen
class Fails:
    """The call raises `ToolFailed(message, executed)`."""

    message: str = "it failed"
    executed: bool = True


@frozen
class Hangs:
    """The call never returns; it ends when it is cancelled."""


@frozen
class Sleeps:
    """`seconds` pass on the tool's clock, then the call ends as `then` says."""

    seconds: float
    then: Returns | Raises | Fails | Hangs = Returns()


Outcome = Returns | Raises | Fails | Hangs | Sleeps

Script = (
    Sequence[Outcome]
    | Mapping[str, Sequence[Outcome]]
    | Callable[[Mapping[str, Any], ToolContext], Outcome]
)
"""Outcomes call by call; or the same for each step id; or a function of the call."""


@frozen
class Called:
    """One call, as the tool received it."""

    step_id: str
    attempt: int
    args: Mapping[str, Any]
    idempotency_key: str


@define(eq=False)
class ScriptedTool:
    """A `Tool` that plays `script`; its last outcome repeats. `calls` tells what happened."""

    name: str
    script: Script = (Returns(),)
    idempotent: bool = field(default=False, kw_only=True)
    read_only: bool = field(default=False, kw_only=True)
    timeout_s: float | None = field(default=None, kw_only=True)
    clock: Clock | None = field(default=None, kw_only=True)
    """Needed by `Sleeps`."""
    calls: list[Called] = field(init=False, factory=list)
    _played: Counter[str] = field(init=False, factory=Counter)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.script, Mapping):
            scripts = {f"the script of {step!r}": each for step, each in self.script.items()}
        else:
            scripts = {"the script": () if callable(self.script) else self.script}
        for whose, outcomes in scripts.items():
            if not outcomes and not callable(self.script):
                raise ToolError(self.name, f"{whose} is empty")
            for outcome in outcomes:
                self._check(outcome)

    def _check(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Outcome):
            raise ToolError(self.name, f"{outcome!r} is no outcome; did you mean Returns(...)?")
        if isinstance(outcome, Sleeps) and self.clock is None:
            raise ToolError(self.name, "Sleeps needs the clock: ScriptedTool(..., clock=clock)")

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Play the next outcome of the script."""
        called = Called(context.step_id, context.attempt, dict(args), context.idempotency_key)
        self.calls.append(called)
        outcome = self._next(args, context)
        if isinstance(outcome, Sleeps):
            await self._sleep(outcome.seconds)
            outcome = outcome.then
        match outcome:
            case Returns(value):
                return value
            case Raises(error):
                raise error
            case Fails(message, executed):
                raise ToolFailed(message, executed)
        return await asyncio.get_running_loop().create_future()  # Hangs

    def _next(self, args: Mapping[str, Any], context: ToolContext) -> Outcome:
        if isinstance(self.script, Mapping):
            if context.step_id not in self.script:
                known = ", ".join(map(repr, self.script))
                raise ToolError(self.name, f"no script for {context.step_id!r}, only for {known}")
            return self._play(context.step_id, self.script[context.step_id])
        if callable(self.script):
            outcome = self.script(args, context)
            self._check(outcome)
            return outcome
        return self._play("", self.script)

    def _play(self, whose: str, outcomes: Sequence[Outcome]) -> Outcome:
        position = min(self._played[whose], len(outcomes) - 1)
        self._played[whose] += 1
        return outcomes[position]

    async def _sleep(self, seconds: float) -> None:
        assert self.clock is not None  # checked with the script
        awake = asyncio.Event()
        timer = self.clock.call_later(seconds, awake.set)
        try:
            await awake.wait()
        finally:
            timer.cancel()


def tool_context(**changes: Any) -> ToolContext:
    """A `ToolContext` with which to call a tool by hand; `changes` replaces fields."""
    context = ToolContext(
        run_id="run",
        step_id="step",
        attempt=1,
        idempotency_key="run/step/0",
        deadline=None,
        log=logging.LoggerAdapter(logging.getLogger("loopfsm"), {}),
        spend=lambda tokens, cost: None,
    )
    return evolve(context, **changes)
