"""What the journal keeps: events, grouped into the units that one commit is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from loopfsm.model.step import EMPTY

CREATED = "created"
"""The `row` of the event with which a failure or a question comes into being."""

LATE_RESULT = "late_result"
"""The `row` of a result (or verdict) that came after its attempt was given up."""

CHARGED = "charged"
"""The `row` of an event that only spends: time driven, tokens, cost."""


GOAL_REDUCED = "goal_reduced"
"""The `row` of the event that records what the goal is pursued without."""


@frozen(weakref_slot=False)
class Event:
    """One change of one noun (or a note about it): which row, which fields, on which facts.

    `facts` holds what the guards of the row read, so that an audit can ask them again.
    """

    row: str
    noun: str
    """`step`, `failure`, `question` or `loop`."""
    id: str
    at: float
    """Seconds of the run's clock."""
    attempt: int = 0
    """The attempt of the step, where the noun is a step."""
    changes: Mapping[str, Any] = EMPTY
    facts: Mapping[str, Any] = EMPTY
    spent: tuple[tuple[str, float], ...] = ()
    """Budgets, and how much of each this event used."""


@frozen
class Unit:
    """The fold of one input: all of its events stand, or none."""

    cause: str
    events: tuple[Event, ...]
