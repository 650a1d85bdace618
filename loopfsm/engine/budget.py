"""The budgets of a run: what is charged, and which one refuses the next start.

The budgets of a lineage (`recoveries`) are charged by the rows that spend them and asked
by guards; nothing about them is here.
"""

from __future__ import annotations

import attrs

from loopfsm.model.loop_state import RunState
from loopfsm.model.plan import Budget

RUN_BUDGETS = tuple(budget.name for budget in attrs.fields(Budget))
"""The budgets of a run, in the order in which they are named when several are spent."""


def limit_of(state: RunState, budget: str) -> float | None:
    """The limit in force: what a person raised it to, else the plan's; None: no limit."""
    raised = state.limits.get(budget)
    planned: float | None = getattr(state.plan.policy.budget, budget)
    return planned if raised is None else raised


def spent_budget(state: RunState) -> str | None:
    """The first budget that is used up, so that nothing may start; None: all have some left."""
    for budget in RUN_BUDGETS:
        limit = limit_of(state, budget)
        if limit is not None and state.spent.get(budget, 0) >= limit:
            return budget
    return None
