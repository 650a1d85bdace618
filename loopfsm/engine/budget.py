"""The budgets of a run: what is charged, and which one refuses the next start.

The budgets of a lineage (`recoveries`) are charged by the rows that spend them and asked
by guards; nothing about them is here.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Budget
from loopfsm.model.step import Step

RUN_BUDGETS = tuple(budget.name for budget in attrs.fields(Budget))
"""The budgets of a run, in the order in which they are named when several are spent."""


FIRST_START_ONLY = frozenset({"steps"})
"""The budgets that only the first start of a step uses."""

REPEAT_BUDGETS = tuple(name for name in RUN_BUDGETS if name not in FIRST_START_ONLY)
"""The budgets that every later start uses."""


def spent_budget(state: RunState, step: Step) -> str | None:
    """The first budget used up that a start of `step` would use; None: it may start."""
    return first_spent(state, REPEAT_BUDGETS if step.attempt else RUN_BUDGETS)


def first_spent(state: RunState, budgets: Iterable[str]) -> str | None:
    """The first of `budgets` that is used up; None: all have some left."""
    for name in budgets:
        limit = state.limit_of(name)
        if limit is not None and state.spent.get(name, 0) >= limit:
            return name
    return None
