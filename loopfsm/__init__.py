"""The core of an agent loop, as declared state machines.

`Loop` runs a `Plan` of `StepSpec`s with the tools of a `ToolRegistry`; when a step
fails it recovers, stops or asks, within declared budgets. The names in `__all__` are
public and stable; everything else may change.

Names that would load the machines, the strategies or networkx are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from loopfsm.errors import (
    AnswerRefused,
    Attempted,
    Broken,
    CoreBroken,
    DefinitionError,
    DriveRefused,
    FactMissing,
    JournalRefused,
    LeaseHeld,
    LeaseLost,
    LifecycleError,
    LoopfsmError,
    NotSerialisable,
    PlanError,
    PostconditionViolated,
    Problem,
    RecoveryRefused,
    Refused,
    RunChanged,
    ToolError,
    ToolFailed,
    TransitionRefused,
    UnknownRun,
)
from loopfsm.model.failure import RecoveryStrategy
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Budget, Plan, Policy, WhenExhausted
from loopfsm.model.step import Call, EnvironmentValue, StepSpec, StepState, Verdict, output
from loopfsm.ports import Judgement, ToolContext
from loopfsm.tools.registry import ToolRegistry, tool

if TYPE_CHECKING:
    from loopfsm.engine.loop import Loop, Outcome
    from loopfsm.journals.memory import MemoryJournal
    from loopfsm.journals.sqlite import SqliteJournal
    from loopfsm.lifecycle import Lifecycle, Row
    from loopfsm.recovery.base import RecoveryCase, RecoveryHandler, RecoveryResult
    from loopfsm.recovery.registry import RecoveryRegistry, default_registry

__version__ = "0.1.0"

__all__ = [
    "AnswerRefused",
    "Attempted",
    "Broken",
    "Budget",
    "Call",
    "CoreBroken",
    "DefinitionError",
    "DriveRefused",
    "EnvironmentValue",
    "FactMissing",
    "JournalRefused",
    "Judgement",
    "LeaseHeld",
    "LeaseLost",
    "Lifecycle",
    "LifecycleError",
    "Loop",
    "LoopState",
    "LoopfsmError",
    "MemoryJournal",
    "NotSerialisable",
    "Outcome",
    "Plan",
    "PlanError",
    "Policy",
    "PostconditionViolated",
    "Problem",
    "RecoveryCase",
    "RecoveryHandler",
    "RecoveryRefused",
    "RecoveryRegistry",
    "RecoveryResult",
    "RecoveryStrategy",
    "Refused",
    "Row",
    "RunChanged",
    "SqliteJournal",
    "StepSpec",
    "StepState",
    "ToolContext",
    "ToolError",
    "ToolFailed",
    "ToolRegistry",
    "TransitionRefused",
    "UnknownRun",
    "Verdict",
    "WhenExhausted",
    "__version__",
    "default_registry",
    "output",
    "tool",
]

_ON_FIRST_USE = {
    "Lifecycle": "loopfsm.lifecycle",
    "Loop": "loopfsm.engine.loop",
    "MemoryJournal": "loopfsm.journals.memory",
    "Outcome": "loopfsm.engine.loop",
    "RecoveryCase": "loopfsm.recovery.base",
    "RecoveryHandler": "loopfsm.recovery.base",
    "RecoveryRegistry": "loopfsm.recovery.registry",
    "RecoveryResult": "loopfsm.recovery.base",
    "Row": "loopfsm.lifecycle",
    "SqliteJournal": "loopfsm.journals.sqlite",
    "default_registry": "loopfsm.recovery.registry",
}


if not TYPE_CHECKING:  # a checker that saw it would accept any misspelled name

    def __getattr__(name: str) -> object:
        if name not in _ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_ON_FIRST_USE[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
