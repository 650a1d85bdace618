"""The composed lifecycles of a run, and which noun each of them moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from loopfsm.lifecycle import Lifecycle
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import Run
from loopfsm.model.question import Question
from loopfsm.model.step import Step

AnyNoun = Step | Failure | Question | Run


@frozen(kw_only=True)
class Machines:
    """The composed lifecycles of a run."""

    step: Lifecycle[Step]
    failure: Lifecycle[Failure]
    question: Lifecycle[Question]
    loop: Lifecycle[Run]

    def of(self, noun: AnyNoun) -> Lifecycle[Any]:
        """The machine of a noun."""
        machine: Lifecycle[Any] = getattr(self, KIND_OF[type(noun)])
        return machine

    def by_name(self) -> Mapping[str, Lifecycle[Any]]:
        """Every machine under its name."""
        return {name: getattr(self, name) for name in KIND_OF.values()}


KIND_OF: dict[type, str] = {Step: "step", Failure: "failure", Question: "question", Run: "loop"}

PER_LINEAGE = frozenset({"recoveries"})
"""The budgets that each lineage has for itself; the others belong to the run."""


def budget_key(budget: str, lineage: str) -> str:
    """Where `RunState.spent` counts `budget`."""
    return f"{budget}/{lineage}" if budget in PER_LINEAGE else budget
