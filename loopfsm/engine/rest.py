"""Where the loop comes to rest, and the path of rows that leads there.

The first that holds: final > RECOVERING (a recovery is planned) > WAITING_FOR_HUMAN (a
question is open) > EXECUTING. What was only passed inside the call stands in the trace.
"""

from __future__ import annotations

from functools import partial

from loopfsm.engine.turn import Turn
from loopfsm.model.failure import RUN
from loopfsm.model.loop_state import ENDED, LoopState, Run
from loopfsm.unit import Draft

_IN_BETWEEN = (LoopState.ITERATION_COMPLETE, LoopState.REPLANNING)


def come_to_rest(turn: Turn) -> None:
    """Fire the path from where the loop stood to where it rests, as one unit."""
    if turn.state.run.state not in ENDED:
        turn.unit("rest", partial(_walk, turn))


def _walk(turn: Turn, draft: Draft) -> None:
    run = draft.run
    if run.state is LoopState.INITIALIZED:
        run = draft.fire(draft.fire(run, "begin"), "execute")
    if turn.applied and run.state is not LoopState.RECOVERING:
        run = draft.fire(run, "recover", recovering=True)
    if turn.end is not None:
        state, why = turn.end
        draft.end(state, why)
        draft.fire(run, "abstain" if state is LoopState.ABSTAINED else "fail", end=state, why=why)
        return
    if any(state in _IN_BETWEEN for state in turn.applied):
        run = _back_to_executing(draft, run, replanned=LoopState.REPLANNING in turn.applied)
    _rest(turn, draft, run)


def _rest(turn: Turn, draft: Draft, run: Run) -> None:
    recovering, asking = len(turn.state.planned) > 0, draft.is_asking
    if recovering:
        if run.state is not LoopState.RECOVERING:
            draft.fire(run, "recover", recovering=True)
    elif asking:
        if run.state is not LoopState.WAITING_FOR_HUMAN:
            for_budget = list(turn.state.asked) == [RUN]
            trigger = "budget_spent" if for_budget else "ask"
            draft.fire(run, trigger, asking=True, asking_for_budget=for_budget)
    else:
        if run.state is LoopState.RECOVERING:
            run = _back_to_executing(draft, run, replanned=False)
        if turn.state.unfinished == 0:
            draft.fire(run, "complete", unfinished=0)


def _back_to_executing(draft: Draft, run: Run, *, replanned: bool) -> Run:
    for trigger in ("apply", "plan_next", "execute"):
        run = draft.fire(run, trigger, replanned=replanned)
    return run


def force_failure(turn: Turn, why: str) -> None:
    """End the run although its steps could not be settled: the last resort."""

    def fail(draft: Draft) -> None:
        draft.fire(draft.run, "fail", end=LoopState.FAILED, why=why)

    turn.unit("broken", fail)
