"""`advance`: the one function that decides. Pure, synchronous, no clock, no I/O.

    state, units, commands = core.advance(state, inputs, now)

`state` is immutable, and the old one stays valid; `units` lead from it to the new one, which
is their fold; `commands` are what to do in the world once the units are durable.

A call is one commit. Each input is folded as one unit; then the consequences follow, each
its own unit: recoveries are decided and applied, READY steps start, the loop comes to rest.
A unit that raises leaves no trace: its input is folded again as what it means (a result: the
failure of its step; a preparation: a failed recovery; an answer: a refusal), anything else
ends the run as FAILED with the traceback. The other units of the commit stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from attrs import frozen

from loopfsm.engine import fold, people, rest, settle
from loopfsm.engine.inputs import (
    Accepted,
    Answer,
    Cancel,
    Command,
    Drive,
    Due,
    Expired,
    Input,
    Judged,
    Park,
    Prepared,
    Refuse,
    Result,
)
from loopfsm.engine.turn import Turn
from loopfsm.errors import AnswerRefused
from loopfsm.machines import Machines
from loopfsm.model.event import CHARGED, Unit
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import StepState, Verdict
from loopfsm.ports import Judgement
from loopfsm.recovery.registry import RecoveryRegistry
from loopfsm.unit import Draft


class Advanced(NamedTuple):
    """What one call of `advance` decided."""

    state: RunState
    units: tuple[Unit, ...]
    commands: tuple[Command, ...]


FOLDS: Mapping[type[Any], Callable[[Turn, Draft, Any], None]] = {
    Drive: fold.fold_drive,
    Park: fold.fold_park,
    Result: fold.fold_result,
    Judged: fold.fold_judged,
    Due: fold.fold_due,
    Expired: people.fold_expired,
    Prepared: fold.fold_prepared,
    Answer: people.fold_answer,
    Cancel: people.fold_cancel,
}
"""What folds each kind of input."""


def describe(item: Input) -> str:
    """The cause of a unit, in the journal's words."""
    if isinstance(item, (Result, Judged)):
        return f"{type(item).__name__.lower()} {item.step_id}#{item.attempt}"
    parts = [
        str(getattr(item, name))
        for name in ("step_id", "failure_id", "question_id", "subject", "choice")
        if hasattr(item, name)
    ]
    return " ".join((type(item).__name__.lower(), *parts))


def word_of(item: Answer | Cancel) -> str:
    """What a person said, in one word."""
    return item.choice if isinstance(item, Answer) else "cancel"


@frozen
class Core:
    """The decisions of a run, for one set of strategies and the machines they make."""

    registry: RecoveryRegistry
    machines: Machines

    @classmethod
    def of(cls, registry: RecoveryRegistry) -> Core:
        """The core that runs the machines composed by `registry`."""
        return cls(registry, registry.machines)

    def advance(self, state: RunState, inputs: Iterable[Input], now: float) -> Advanced:
        """Fold `inputs`, in order, over `state`, and all that follows from them.

        `now` is in seconds of the run's clock; it is the only time that this call knows.
        """
        turn = Turn(state, self.registry, self.machines, now)
        self._charge_time(turn)
        for item in inputs:
            self._fold(turn, item)
        try:
            settle.settle(turn)
            rest.come_to_rest(turn)
        except Exception as error:
            self._break(turn, error)
        return Advanced(turn.state, tuple(turn.units), tuple(turn.commands))

    def _charge_time(self, turn: Turn) -> None:
        driven_at = turn.state.driven_at
        if turn.state.ending is not None:
            return
        if driven_at is None or turn.state.limit_of("seconds") is None:
            return

        def charge(draft: Draft) -> None:
            passed = max(turn.now - driven_at, 0.0)
            draft.charge(CHARGED, ("loop", draft.run.id), ("seconds", passed))
            draft.drive(turn.now)

        turn.unit("time", charge)

    def _fold(self, turn: Turn, item: Input) -> None:
        if turn.state.ending is not None:
            self._after_the_end(turn, item)
            return
        try:
            turn.unit(describe(item), lambda draft: FOLDS[type(item)](turn, draft, item))
        except Exception as error:
            self._fold_again(turn, item, error)
            return
        if isinstance(item, (Answer, Cancel)):
            if item.token:
                turn.commands.append(Accepted(item.token))
        elif isinstance(item, Drive):
            for question_id in sorted(turn.state.asked.values()):
                self._fold(turn, Expired(question_id))

    def _after_the_end(self, turn: Turn, item: Input) -> None:
        """Nothing changes a run that has ended; what still comes is noted, or refused."""
        ended = turn.state.run.state.name
        if isinstance(item, (Answer, Cancel)):
            error = AnswerRefused(word_of(item), f"the run has ended as {ended}", ())
            turn.commands.append(Refuse(item.token, error))
        elif isinstance(item, (Result, Judged)):
            turn.unit(describe(item), partial(fold.note_late, item=item))

    def _fold_again(self, turn: Turn, item: Input, error: Exception) -> None:
        """Fold an input whose unit raised as what it means instead."""
        why, evidence = settle.describe_error(error)
        try:
            if isinstance(item, Answer) and not isinstance(error, AnswerRefused):
                error = AnswerRefused(item.choice, why, ())
            if isinstance(item, (Answer, Cancel)) and isinstance(error, AnswerRefused):
                turn.commands.append(Refuse(item.token, error))
            elif isinstance(item, (Result, Judged)):
                turn.unit(f"broken {describe(item)}", partial(_fail_instead, item, why, evidence))
            elif isinstance(item, Prepared):
                again = partial(fold.fail_recovery, why=why, evidence=evidence)
                turn.unit(f"broken {describe(item)}", partial(again, failure_id=item.failure_id))
            elif isinstance(item, Drive):
                raise error
            else:
                self._break(turn, error)
        except Exception as second:
            # What it was about stays under way for ever: there is nothing to wait for.
            last, _ = settle.describe_error(second)
            rest.force_failure(turn, why if second is error else f"{why}; then {last}", evidence)

    def _break(self, turn: Turn, error: Exception) -> None:
        """End the run as FAILED, orderly if that is possible, at once if it is not."""
        why, evidence = settle.describe_error(error)
        broken = partial(fold.fail_run, kind=FailureKind.BROKEN, message=why, evidence=evidence)
        try:
            turn.unit("broken", broken)
            settle.settle(turn)
            rest.come_to_rest(turn)
        except Exception as second:
            last, _ = settle.describe_error(second)
            rest.force_failure(turn, why if second is error else f"{why}; then {last}", evidence)


def _fail_instead(
    item: Result | Judged, why: str, evidence: dict[str, object], draft: Draft
) -> None:
    """A result whose unit raised becomes a failure of its step."""
    step = draft.step(item.step_id)
    fold.charge_usage(draft, item)
    message = f"the result could not be taken: {why}"
    if step.state is StepState.RUNNING:
        facts = {"attempt": item.attempt, "executed": True, "reported": False, "now": draft.now}
        kind = FailureKind.REJECTED
        fold.fail(draft, step, "fail_evaluation", kind, message, evidence, **facts)
    elif step.state in (StepState.EXECUTED, StepState.EVALUATED):
        said = Judgement(Verdict.FAILED, message, evidence)
        judgements = (said, None) if step.state is StepState.EXECUTED else (None, said)
        fold.judge(draft, step, *judgements)
