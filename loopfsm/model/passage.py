"""What a step's way from one state to another does to the indexes of its run.

Written down once for every two states, so that a transition looks it up.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from loopfsm.model.step import DONE, FINAL, IN_FLIGHT, StepState


@frozen(kw_only=True)
class Passage:
    """What it does to the indexes that a step goes from one state to another."""

    counts: tuple[tuple[str, int], ...]
    """Which numbers change, and by how much."""
    joins: tuple[str, ...]
    """The indexes to which the step is added."""
    leaves: tuple[str, ...]
    queues: bool
    counts_for_others: bool
    """It may satisfy the dependency of another step, or no longer do so."""

    @classmethod
    def of(cls, left: StepState, entered: StepState) -> Passage:
        """The passage from one state to another."""
        numbers: Mapping[str, tuple[StepState, ...]] = {
            "running": (StepState.RUNNING,),
            "unfinished": tuple(state for state in StepState if state not in DONE),
            "moving": tuple(state for state in StepState if state not in FINAL),
        }
        indexes: Mapping[str, tuple[StepState, ...]] = {
            "in_flight": IN_FLIGHT,
            "delayed": (StepState.RETRY_PENDING,),
        }
        changes = {name: (entered in group) - (left in group) for name, group in numbers.items()}
        return cls(
            counts=tuple((name, change) for name, change in changes.items() if change),
            joins=tuple(n for n, s in indexes.items() if entered in s and left not in s),
            leaves=tuple(n for n, s in indexes.items() if left in s and entered not in s),
            queues=entered is StepState.READY,
            counts_for_others=left in DONE or entered in DONE,
        )


PASSAGES: Mapping[tuple[str, str], Passage] = {
    (left.name, entered.name): Passage.of(left, entered)
    for left in StepState
    for entered in StepState
}
"""By the names of the states: the hash of an enumeration's member is a call."""
