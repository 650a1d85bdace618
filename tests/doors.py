"""A door as a small machine, on which the kernel is tested."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from attrs import frozen

from loopfsm.lifecycle import Lifecycle, Row


class DoorState(Enum):
    OPEN = "open"
    CLOSED = "closed"
    LOCKED = "locked"
    BROKEN = "broken"


class OtherState(Enum):
    OPEN = "open"
    AJAR = "ajar"


@frozen
class Door:
    id: str
    state: Any
    code: int = 7
    openings: int = 0


OPEN, CLOSED, LOCKED, BROKEN = DoorState


def key_fits(door: Door, *, key: int) -> bool:
    """The key is that of the door. Its shape does not matter."""
    return key == door.code


def enough_force(door: Door, *, force: int) -> bool:
    """The force breaks the hinges."""
    return force > 8


def nobody_is_looking(door: Door, *, watched: bool) -> bool:
    return not watched


def count_opening(door: Door) -> Mapping[str, Any]:
    return {"openings": door.openings + 1}


def change_code(door: Door, *, new_code: int) -> Mapping[str, Any]:
    return {"code": new_code}


def opening_is_counted(before: Door, after: Door) -> bool:
    return after.openings == before.openings + 1


def code_is_new(before: Door, after: Door, *, new_code: int) -> bool:
    """The code is the one that was given."""
    return after.code == new_code


def has_a_code(door: Door) -> bool:
    """A locked door has a code."""
    return door.code >= 0


ROWS = (
    Row(id="D-1", trigger="close", source=(OPEN,), target=CLOSED),
    Row(
        id="D-2",
        trigger="open",
        source=(CLOSED,),
        target=OPEN,
        update=count_opening,
        ensures=(opening_is_counted,),
    ),
    Row(
        id="D-3",
        trigger="open",
        source=(LOCKED,),
        target=OPEN,
        guards=(key_fits,),
        update=count_opening,
        ensures=(opening_is_counted,),
    ),
    Row(
        id="D-4",
        trigger="open",
        source=(LOCKED,),
        target=BROKEN,
        guards=(enough_force, nobody_is_looking),
        spends="hinges",
    ),
    Row(
        id="D-5",
        trigger="lock",
        source=(OPEN, CLOSED),
        target=LOCKED,
        update=change_code,
        ensures=(code_is_new,),
    ),
    Row(id="D-6", trigger="knock", source=(CLOSED,), target=CLOSED, guards=(nobody_is_looking,)),
)


def lifecycle(*rows: Row, **words: Any) -> Lifecycle[Any]:
    return Lifecycle("door", states=DoorState, initial=CLOSED, rows=rows or ROWS, **words)


DOORS = lifecycle(invariants={LOCKED: (has_a_code,), CLOSED: ()})


def door(state: Any = CLOSED, **fields: Any) -> Door:
    return Door("front", state, **fields)
