"""The registry: strategies by name, one machine made of their rows, results that are checked."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import pytest

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import CallTool, Drive, Result
from loopfsm.engine.state import new_run
from loopfsm.engine.turn import case_of
from loopfsm.errors import LifecycleError
from loopfsm.lifecycle import Row
from loopfsm.lifecycles.step import STEP
from loopfsm.model.event import Unit
from loopfsm.model.failure import FailureKind, RecoveryStrategy
from loopfsm.model.loop_state import LoopState, RunState
from loopfsm.model.plan import UNCLASSIFIED, Plan, Policy
from loopfsm.model.step import StepSpec, StepState
from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
from loopfsm.recovery.registry import MACHINES, RecoveryRegistry, default_registry
from loopfsm.unit import Draft
from tests.machines.cases import NOW, F, S, failure_in, step_in, world
from tests.recovery.nudge import NUDGE_ROW, Nudge


def failed_world() -> RunState:
    return world(step_in(S.EVALUATION_FAILED), failure_in(F.RECOVERY_IN_PROGRESS))


def executed(registry: RecoveryRegistry, strategy: str) -> tuple[RecoveryResult, Draft]:
    """What a strategy does for step `a`, and the unit in which it did it."""
    state = failed_world()
    draft = Draft(state, registry.machines, NOW)
    case = case_of(state.failure("F1"), draft, state, NOW)
    return registry.execute(strategy, case, None, draft), draft


class Quiet(RecoveryHandler):
    """Does nothing, and returns what it was given to return."""

    strategy: ClassVar[str] = "QUIET"
    trigger = "retry"

    def __init__(self, result: RecoveryResult, *, valid: bool = True) -> None:
        self.result = result
        self.valid = valid
        self.validated = 0

    def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
        return self.result

    def validate_postconditions(self, unit: Draft) -> bool:
        self.validated += 1
        return self.valid and super().validate_postconditions(unit)


def with_(handler: RecoveryHandler) -> RecoveryRegistry:
    registry = default_registry()
    registry.register(handler)
    return registry


# What there is


def test_the_strategies_of_the_package() -> None:
    """The default registry has these strategies, and the two orders that only a person gives."""
    assert (
        RecoveryStrategy.RETRY,
        RecoveryStrategy.RETRY_WITH_BACKOFF,
        RecoveryStrategy.REQUEST_HUMAN,
        RecoveryStrategy.ABSTAIN,
        RecoveryStrategy.TERMINATE,
        "SKIP",
        "RAISE_BUDGET",
    ) == default_registry().strategies


def test_the_step_machine_is_its_own_rows_and_those_of_the_strategies() -> None:
    """Registering composes the one step machine: its own rows first, then each strategy's."""
    registry = default_registry()
    handlers = [registry.get(strategy) for strategy in registry.strategies]
    added = [row for handler in handlers if handler is not None for row in handler.rows]
    assert (*STEP.rows, *added) == registry.machines.step.rows
    assert MACHINES["step"].rows == registry.machines.step.rows


def test_until_a_strategy_is_registered_its_rows_do_not_exist() -> None:
    """An empty registry has the bare step machine."""
    registry = RecoveryRegistry()
    assert () == registry.strategies
    assert STEP is registry.machines.step


def test_results_have_the_defaults_of_the_specification() -> None:
    """A result says success and nothing else by itself, with an evidence of its own (S20)."""
    result = RecoveryResult(success=True)
    assert (None, None, "", {}) == (
        result.new_state,
        result.step_status,
        result.message,
        result.evidence,
    )
    assert result.evidence is not RecoveryResult(success=True).evidence


# Executing


def test_an_unregistered_strategy_is_a_failed_result() -> None:
    """A strategy without a handler fails with a message that names it, and raises nothing (S21)."""
    result, draft = executed(default_registry(), "CHANGE_TOOL")
    assert not result.success
    assert "CHANGE_TOOL" in result.message
    assert "RETRY_WITH_BACKOFF" in result.message
    assert [] == draft.fired


def test_a_registered_strategy_is_executed() -> None:
    """A registered strategy changes the run and reports its step's state now (S2, S5, S29)."""
    result, draft = executed(default_registry(), "RETRY")
    step = draft.step("a")
    assert (True, S.READY, LoopState.ITERATION_COMPLETE) == (
        result.success,
        result.step_status,
        result.new_state,
    )
    assert (S.READY, 1, None, None) == (step.state, step.retry_count, step.output, step.start_time)


def test_an_exception_of_a_handler_passes_through() -> None:
    """The registry swallows no exception: who owns the unit undoes it (B34)."""

    class Clumsy(Quiet):
        def apply(self, case: RecoveryCase, prepared: object, unit: Draft) -> RecoveryResult:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        executed(with_(Clumsy(RecoveryResult(success=True))), "QUIET")


def test_postconditions_are_asked_after_success_alone() -> None:
    """A failed result is returned as it is; only a success is validated (S22)."""
    failed = RecoveryResult(success=False, message="no luck", evidence={"tried": 1})
    for result, asked in ((failed, 0), (RecoveryResult(success=True), 1)):
        handler = Quiet(result)
        found, _ = executed(with_(handler), "QUIET")
        assert result == found
        assert asked == handler.validated


def test_a_false_postcondition_turns_success_into_failure() -> None:
    """A success whose postconditions do not hold is a failure that says so (S22, S29)."""
    kept = RecoveryResult(success=True, evidence={"tried": 1})
    result, _ = executed(with_(Quiet(kept, valid=False)), "QUIET")
    expected = attrs.evolve(kept, success=False, message="recovery postconditions not met")
    assert expected == result


def test_postconditions_of_a_strategy_are_the_ensures_of_its_rows() -> None:
    """A handler validates the rows that its unit fired and that are its own (S19)."""
    _, draft = executed(with_(Nudge()), "NUDGE")
    assert Nudge().validate_postconditions(draft)
    machine, fired = draft.fired[-1]
    draft.fired[-1] = (machine, attrs.evolve(fired, after=fired.before))
    with pytest.raises(KeyError):
        Nudge().validate_postconditions(draft)  # its ensure is asked again: nothing was counted
    assert Quiet(RecoveryResult(success=True)).validate_postconditions(draft)


@pytest.mark.parametrize("status", [S.EVALUATION_FAILED, None])
def test_a_status_that_is_true_or_unsaid_stands(status: StepState | None) -> None:
    """A success that reports the state its step has, or none, stands (B30)."""
    said = RecoveryResult(success=True, step_status=status)
    assert said == executed(with_(Quiet(said)), "QUIET")[0]


def test_a_status_that_is_not_true_is_a_failure() -> None:
    """A success that reports another state than its step has is a failure (B30, S22)."""
    said = RecoveryResult(success=True, step_status=S.READY)
    result, _ = executed(with_(Quiet(said)), "QUIET")
    assert not result.success
    assert "QUIET reports READY" in result.message
    assert "EVALUATION_FAILED" in result.message


# A twelfth strategy


def driven(registry: RecoveryRegistry, *, times: int) -> tuple[RunState, list[Unit]]:
    """A run of one step that fails `times` times, on a ladder of NUDGE alone."""
    core = Core.of(registry)
    steps: Any = [StepSpec(id="a", tool="tool", idempotent=True)]  # Any: the field's converter
    policy = Policy(ladder={UNCLASSIFIED: ("NUDGE",)})
    plan = Plan(goal="goal", steps=steps, policy=policy)
    advanced = core.advance(new_run(plan, "run-1"), [Drive()], NOW)
    units = list(advanced.units)
    for attempt in range(1, times + 1):
        assert [CallTool("a", attempt)] == list(advanced.commands)
        failed = Result(step_id="a", attempt=attempt, failure=FailureKind.REPORTED, message="no")
        advanced = core.advance(advanced.state, [failed], NOW)
        units += advanced.units
    return advanced.state, units


def test_a_twelfth_strategy_is_one_class_and_one_registration() -> None:
    """A strategy of the user's own, with its own row, is taken by the ladder and runs."""
    state, units = driven(with_(Nudge()), times=1)
    step = state.step("a")
    assert (S.RUNNING, 2, {"nudges": 1}) == (step.state, step.attempt, step.metadata)
    assert "STEP-90" in [event.row for unit in units for event in unit.events]


def test_a_twelfth_strategy_has_its_own_limit() -> None:
    """The guard of the user's row passes the strategy over once its limit is reached."""
    state, _ = driven(with_(Nudge()), times=2)
    assert S.WAITING_FOR_HUMAN is state.step("a").state
    assert ["a"] == list(state.asked)


def test_a_twelfth_strategy_leaves_the_default_machine_as_it_was() -> None:
    """Registering with one registry changes no other registry and not the machines at rest."""
    before = MACHINES["step"].rows
    registry = with_(Nudge())
    assert NUDGE_ROW in registry.machines.step.rows
    assert before == MACHINES["step"].rows == default_registry().machines.step.rows
    assert registry.machines.failure is default_registry().machines.failure
    state, _ = driven(default_registry(), times=1)
    assert S.WAITING_FOR_HUMAN is state.step("a").state


def test_a_core_keeps_the_machines_it_was_made_with() -> None:
    """What is registered later changes no core that exists already."""
    registry = default_registry()
    core = Core.of(registry)
    registry.register(Nudge())
    assert NUDGE_ROW not in core.machines.step.rows


# Refused at the door


def handler_with(strategy_name: str, *rows: Row) -> RecoveryHandler:
    class Other(Quiet):
        strategy: ClassVar[str] = strategy_name

    Other.rows = rows
    return Other(RecoveryResult(success=True))


BAD_ROW = attrs.evolve(NUDGE_ROW, target=F.UNHANDLED)


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (handler_with("RETRY", NUDGE_ROW), "a strategy named 'RETRY' is registered"),
        (handler_with("SKIP"), "a strategy named 'SKIP' is registered"),
        (
            handler_with("OTHER", attrs.evolve(NUDGE_ROW, id="STEP-20")),
            "two rows have the id STEP-20",
        ),
        (handler_with("OTHER", NUDGE_ROW, NUDGE_ROW), "two rows have the id STEP-90"),
        (handler_with("OTHER", BAD_ROW), "row STEP-90 names <FailureState.UNHANDLED"),
    ],
)
def test_what_cannot_be_registered_is_refused(handler: RecoveryHandler, problem: str) -> None:
    """A name or row id that is taken, or a row that cannot be, is refused and changes nothing."""
    registry = default_registry()
    before = registry.strategies, registry.machines
    with pytest.raises(LifecycleError, match="machine 'step'") as caught:
        registry.register(handler)
    assert problem in caught.value.problem
    assert before == (registry.strategies, registry.machines)
