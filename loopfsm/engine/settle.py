"""What follows from the inputs: recoveries are decided and applied, READY steps start."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from loopfsm.engine import budget, fold
from loopfsm.engine.turn import Turn
from loopfsm.errors import CoreBroken, PostconditionViolated, RecoveryRefused
from loopfsm.model.failure import RUN, SETTLED, FailureKind, FailureState
from loopfsm.model.step import FAILED_STATES, FINAL, Step, StepState
from loopfsm.recovery.ladder import decide
from loopfsm.unit import Draft


def settle(turn: Turn) -> None:
    """Decide, apply and start until nothing more follows without the world."""
    while turn.end is None and turn.state.ending is None:
        decided = [decide_one(turn, failure_id) for failure_id in oldest_first(turn, "undecided")]
        applied = [apply_one(turn, failure_id) for failure_id in oldest_first(turn, "planned")]
        if any(decided) or any(applied):
            continue
        if not ask_about_budget(turn, start_ready(turn)):
            return


def oldest_first(turn: Turn, index: str) -> Iterator[str]:
    """The failures of an index in order of occurrence (D6), as far as they still belong to it."""
    found = getattr(turn.state, index)
    for failure_id in sorted(found, key=found.__getitem__):
        if failure_id in getattr(turn.state, index) and turn.end is None:
            yield failure_id


# Recoveries


def decide_one(turn: Turn, failure_id: str) -> bool:
    """Plan the recovery that the ladder chooses; False when the failure has to wait."""

    def plan(draft: Draft) -> None:
        failure = draft.failure(failure_id)
        about_run = draft.failure_of(RUN)
        broken = about_run is not None and about_run.kind is FailureKind.BROKEN
        if draft.draining is not None or (broken and failure.subject != RUN):
            return
        decision = decide(turn.case_of(failure, draft), turn.registry, draft)
        if decision.strategy is None:
            return
        draft.fire(
            failure,
            "plan",
            strategy=decision.strategy,
            scope=decision.scope,
            ordered=decision.ordered,
            why=decision.why,
            recoveries=draft.recoveries_left(failure.subject),
        )

    return turn.unit(f"plan {failure_id}", plan)


def apply_one(turn: Turn, failure_id: str) -> bool:
    """Apply a planned recovery when it is prepared and its scope is quiet.

    A handler that raises, refuses or breaks a contract leaves nothing behind but a failure
    in RECOVERY_FAILED with the evidence (D8, D15, B34).
    """
    failure = turn.state.failure(failure_id)
    handler = turn.registry.get(failure.strategy or "")
    if handler is not None and handler.prepares and failure_id not in turn.state.prepared:
        return False
    if (handler is None or handler.begins) and not is_quiet(turn, failure_id):
        return False
    try:
        work = partial(apply, turn, failure_id=failure_id)
        return turn.unit(f"{failure.strategy} {failure_id}", work)
    except Exception as error:
        why, evidence = describe_error(error)
        undone = partial(fold.fail_recovery, failure_id=failure_id, why=why, evidence=evidence)
        return turn.unit(f"{failure.strategy} {failure_id} failed", undone)


def is_quiet(turn: Turn, failure_id: str) -> bool:
    """Whether the recorded scope has no attempt under way."""
    draft = Draft(turn.state, turn.machines, turn.now)
    failure = draft.failure(failure_id)
    return draft.may(failure, "begin", in_flight=draft.in_flight_of(failure.scope))


def apply(turn: Turn, draft: Draft, failure_id: str) -> None:
    """Let the handler do its work, then settle what it settled."""
    failure = draft.failure(failure_id)
    strategy = failure.strategy or ""
    case = turn.case_of(failure, draft)
    prepared = turn.state.prepared.get(failure_id)
    handler = turn.registry.get(strategy)
    if handler is None or handler.begins:
        in_flight = draft.in_flight_of(failure.scope)
        draft.fire(failure, "begin", in_flight=in_flight, why=failure.reason)
    result = turn.registry.execute(strategy, case, prepared, draft)
    if not result.success:
        raise RecoveryRefused(strategy, result.message, result.evidence)
    if draft.state_of(failure.subject) in FAILED_STATES:
        raise RecoveryRefused(strategy, "it left the step as it was", result.evidence)
    if draft.ending is not None:
        end_run(draft)
    else:
        confirm_what_is_final(draft, failure.subject, result.message)
    draft.leads_to = result.new_state


def confirm_what_is_final(draft: Draft, subject: str, why: str) -> None:
    """Settle the failures whose steps the recovery itself removed or skipped."""
    written = [noun_id for kind, noun_id in draft.written if kind == "step"]
    for name in dict.fromkeys((*written, subject)):
        state = draft.state_of(name)
        failure = draft.failure_of(name)
        recovering = failure is not None and failure.state is FailureState.RECOVERY_IN_PROGRESS
        if recovering and (state in FINAL or name == RUN):
            draft.fire(failure, "confirm", why=why)


def end_run(draft: Draft) -> None:
    """Withdraw what is asked, close what is unsettled, cancel what could still move."""
    before = draft.before
    for subject in sorted(before.asked):
        question = draft.question_of(subject)
        if question is not None:
            draft.fire(question, "withdraw")
    for subject in sorted(before.unsettled):
        failure = draft.failure_of(subject)
        if failure is not None and failure.state not in SETTLED:
            draft.fire(failure, "close", why=draft.end_reason)
    for spec in before.plan.steps:
        step = draft.step(spec.id)
        if step.state not in FINAL:
            draft.fire(step, "cancel")


def describe_error(error: BaseException) -> tuple[str, dict[str, object]]:
    """What went wrong, in one line, and the evidence to keep."""
    if isinstance(error, RecoveryRefused):
        return error.message, dict(error.evidence)
    kind = type(error).__name__
    lines = traceback.format_exception(error)
    evidence: dict[str, object] = {"error": kind, "traceback": "".join(lines)}
    if isinstance(error, PostconditionViolated):
        evidence["row"] = error.row
    return f"{kind}: {error}", evidence


# Starts


def start_ready(turn: Turn) -> bool | None:
    """Start READY steps, first come first served, while there is room.

    Returns whether a budget refused one; None when it was not tried: no room, or no driver.
    """
    if turn.state.driven_at is None:
        return None
    refused = False
    for place, step_id in turn.state.ready.entries():
        step = turn.state.step(step_id)
        if step.state is not StepState.READY:
            turn.unit("", partial(Draft.dequeue, place=place))
            continue
        if turn.state.running >= turn.state.plan.policy.max_parallel:
            return None
        facts = {
            "held_by": turn.state.holder_of(step_id),
            "spent_budget": budget.spent_budget(turn.state, step),
            "now": turn.now,
        }
        if turn.machines.step.row_taken(step, "start", facts):
            turn.unit(f"start {step_id}", partial(start_one, step=step, place=place, facts=facts))
        elif turn.state.draining is not None:
            return False
        elif facts["held_by"] is not None:
            turn.unit("", partial(Draft.dequeue, place=place))  # queued again when released
        elif facts["spent_budget"] in budget.FIRST_START_ONLY:
            refused = True  # one that was started before may still repeat
        else:
            return True
    return refused


def start_one(draft: Draft, step: Step, place: int, facts: Mapping[str, Any]) -> None:
    """Start a step; its first start counts as a step, every one as a tool call."""
    draft.dequeue(place)
    draft.fire_spending(() if step.attempt else (("steps", 1),), step, "start", facts)


def ask_about_budget(turn: Turn, refused: bool | None) -> bool:
    """Open the question of a spent budget, or withdraw it; returns whether more follows."""
    failure = turn.state.failure_of(RUN)
    if refused and failure is None:
        return turn.unit("budget spent", partial(report_spent_budget, turn))
    asked = failure is not None and failure.state is FailureState.ESCALATED
    if asked and refused is False:
        why = "no step is refused by the budget any more"
        turn.unit("budget question withdrawn", partial(fold.withdraw_run_failure, why=why))
    return False


def report_spent_budget(turn: Turn, draft: Draft) -> None:
    """Make the spent budget a failure of the run, which its ladder then handles."""
    name = budget.first_spent(turn.state, budget.RUN_BUDGETS)
    if name is None:
        raise CoreBroken("a start was refused for a budget, but none is spent")
    limit, spent = turn.state.limit_of(name), turn.state.spent.get(name, 0)
    message = f"the budget {name} is spent: {spent:g} of {limit:g}"
    evidence = {"budget": name, "spent": spent, "limit": limit}
    fold.fail_run(draft, FailureKind.BUDGET_SPENT, message, evidence)
