"""What a tool returned, as the next step gets it: built from its annotation, and nothing lost."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import attrs
import pytest

from loopfsm import codec, outputs
from loopfsm.engine.values import copied
from loopfsm.errors import NotSerialisable
from loopfsm.model.step import EnvironmentValue, FromEnvironment
from tests.journals.values import Kept, alike

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]  # for checkers only

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    YES = "yes"


class Mixed(str, enum.Enum):  # noqa: UP042  # not the same
    A = "a"


class Level(enum.IntEnum):
    LOW = 1


class UserId(str):
    """A text with a name."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Small:
    a: int


@dataclasses.dataclass(frozen=True)
class Large:
    a: int
    b: int = 0


@dataclasses.dataclass(frozen=True)
class Made:
    name: str


@dataclasses.dataclass(frozen=True)
class Gone:
    name: str


@dataclasses.dataclass(frozen=True)
class Wrapped(Generic[T]):
    value: T


@dataclasses.dataclass(frozen=True)
class Unresolved:
    a: Unknown
    b: int


class Place(NamedTuple):
    path: Path
    size: Small


class Corner(enum.Enum):
    ORIGIN = Small(0)


class Named(Protocol):
    """Nothing can be built of it."""

    name: str


def of(annotation: Any) -> Any:
    """A dataclass with one field of this type."""
    return dataclasses.make_dataclass("Holder", [("x", annotation)], frozen=True)


def kept_twice(value: Any, annotation: Any) -> Any:
    """What goes on; a later process is checked to read the same."""
    files = Kept()
    live = outputs.kept(value, annotation, files.keep, files.fetch)
    text = codec.text_of(codec.unstructured(live, "output", files.keep))
    later = codec.structured(codec.tagged(codec.data_of(text), files.fetch), annotation)
    assert alike(live) == alike(later)
    return live


SAME: Sequence[tuple[Any, Any]] = (
    (Word, Word.YES),
    (Mixed, Mixed.A),
    (list[Level], [Level.LOW]),
    (Corner, Corner.ORIGIN),
    (UserId, UserId("u")),
    (int | str, 3),
    (int | str, "3"),
    (int | float, 1.5),
    (int | float, 2),
    (float | str, 2),
    (bool | int, True),
    (int | str | None, None),
    (str | list[str], ["a"]),
    (str | list[Colour], [Colour.RED]),
    (Path | str, Path("a")),
    (Path | str, "a"),
    (Path | Colour, Colour.RED),
    (dict[str, int | str], {"a": 1, "b": "c"}),
    (list | dict, [1]),
    (object, {"a": Path("x")}),
    (int | Small, Small(1)),
    (Small | Large, Small(1)),
    (Small | Large, Large(1, 0)),
    (Large | Small | None, Small(1)),
    (Literal["a"] | Small, "a"),
    (Wrapped, Wrapped(3)),
    (Wrapped[Path], Wrapped(Path("x"))),
    (Wrapped[Small | None], Wrapped(Small(1))),
    (Iterable[Small], [Small(1)]),
    (Collection[Small], (Small(1),)),
    (Sequence[Small], [Small(1)]),
    (Sequence[Small], (Small(1),)),
    (Sequence, [1]),
    (tuple[Small, ...], [Small(1)]),
    (tuple[int, Colour], (1, Colour.RED)),
    (list[Small], (Small(1),)),
    (Place, Place(Path("x"), Small(1))),
)


@pytest.mark.parametrize(("annotation", "value"), SAME, ids=str)
def test_what_is_annotated_comes_back_as_it_was(annotation: Any, value: Any) -> None:
    """As what a tool returns, and as the field of a class."""
    assert alike(value) == alike(kept_twice(value, annotation))
    holder = of(annotation)
    assert alike(holder(value)) == alike(kept_twice(holder(value), holder))


@pytest.mark.parametrize(
    ("annotation", "value", "data"),
    [
        (Made | Gone, Gone("n"), {"name": "n"}),
        (str | Word, Word.YES, "yes"),
        (dict | Small, Small(1), {"a": 1}),
        (Named, Made("n"), {"name": "n"}),
        (list[Named], [Made("n")], [{"name": "n"}]),
        (Unresolved, Unresolved(1, 2), {"a": 1, "b": 2}),
        (list[Unresolved], [Unresolved(1, 2)], [{"a": 1, "b": 2}]),
        (7, Made("n"), {"name": "n"}),
        ({}, Made("n"), {"name": "n"}),
    ],
    ids=str,
)
def test_what_cannot_be_told_or_built_is_plain_data(annotation: Any, value: Any, data: Any) -> None:
    """It fails no attempt that has acted, and is the same for whoever resumes the run."""
    assert alike(data) == alike(kept_twice(value, annotation))


def in_cents(euros: float) -> int:
    return round(euros * 100)


@attrs.frozen
class Price:
    cents: int = attrs.field(converter=in_cents)


@dataclasses.dataclass
class Counted:
    x: int
    count: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Moved:
    x: int

    def __post_init__(self) -> None:
        self.x += 1


def counted() -> Counted:
    value = Counted(1)
    value.count = 5
    return value


@dataclasses.dataclass(frozen=True)
class Special(Small):
    more: str = "more"


@pytest.mark.parametrize(
    ("annotation", "value", "where"),
    [
        (Price, Price(9.5), "output.cents"),
        (list[Price], [Price(0), Price(9.5)], r"output\[1\].cents"),
        (Counted, counted(), "output.count"),
        (Moved, Moved(1), "output.x"),
        (Small, Special(1), "output.more"),
        (tuple[Small, ...], (Special(1),), r"output\[0\].more"),
    ],
    ids=str,
)
def test_what_would_come_back_altered_is_refused(annotation: Any, value: Any, where: str) -> None:
    """Nothing is lost or changed in silence: the error says at which place it would be."""
    with pytest.raises(NotSerialisable, match=f"comes back as something else, at {where};"):
        kept_twice(value, annotation)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int | str, [1]), (list[str], "abc"), (tuple[int, int], (1,)), (Place, (1,)), (Level, 7)],
    ids=str,
)
def test_what_does_not_fit_is_refused(annotation: Any, value: Any) -> None:
    """A text is no list of texts, and no number becomes a member that is not there."""
    holder = of(annotation)
    with pytest.raises(NotSerialisable, match="it does not fit Holder"):
        kept_twice(holder(value), holder)


@dataclasses.dataclass
class Add:
    left: Add | Negate | int
    op: Literal["+"] = "+"


@dataclasses.dataclass
class Negate:
    left: Add | Negate | int
    op: Literal["-"] = "-"


def test_unions_inside_unions_are_looked_at_once() -> None:
    """The members that are tried do not multiply with the depth."""
    value: Any = 1
    for _ in range(40):
        value = Negate(value)
    assert value == kept_twice(value, Add | Negate)


# ------------------------------------------------------------------ handed to each step anew


@dataclasses.dataclass
class Cart:
    items: list[Any]
    owner: Any = None


@attrs.define
class Shelf:
    carts: list[Cart]
    by_name: dict[Any, Any] = attrs.field(factory=dict)


@attrs.frozen
class Sealed:
    token: str
    inside: tuple[Any, ...] = ()


def test_a_step_that_changes_its_argument_changes_no_output() -> None:
    """Classes are built anew for each use, whatever is in them too."""
    recorded = Shelf([Cart(["book"])], {"c": Cart([])})
    first = copied(recorded, {})
    first.carts[0].items.append("gift")
    first.by_name["c"].items.append("gift")
    first.carts.clear()
    assert Shelf([Cart(["book"])], {"c": Cart([])}) == recorded == copied(recorded, {})


def test_what_cannot_be_copied_is_shared() -> None:
    """A generator, a function, an object of no known kind: the very one; around it, a copy."""
    things = (iter("ab"), print, object(), Cart)
    recorded = Cart([*things])
    found = copied(recorded, {})
    assert found is not recorded
    assert all(one is other for one, other in zip(things, found.items, strict=True))


def test_a_ring_stays_one() -> None:
    """What contains itself does so in the copy, and not the original."""
    recorded = Cart([])
    recorded.owner = recorded
    recorded.items.append(recorded.items)
    found = copied(recorded, {})
    assert found.owner is found
    assert found.items[0] is found.items
    assert found.items is not recorded.items


TOKEN = EnvironmentValue("TOKEN")


@pytest.mark.parametrize(
    ("value", "looked_up"),
    [
        (Sealed(TOKEN), Sealed("s")),  # type: ignore[arg-type]  # it stands for a text
        (Sealed("", (Cart([TOKEN]),)), Sealed("", (Cart(["s"]),))),
        (Shelf([], {TOKEN: TOKEN}), Shelf([], {"s": "s"})),
        ({TOKEN: 1}, {"s": 1}),
        ({(TOKEN, 1): [Place(TOKEN, TOKEN)]}, {("s", 1): [("s", "s")]}),  # type: ignore[arg-type]  # so too
    ],
    ids=str,
)
def test_what_came_from_the_environment_is_looked_up(value: Any, looked_up: Any) -> None:
    """In the fields of classes and in the keys of mappings, as anywhere else."""
    assert looked_up == copied(value, {"TOKEN": "s"})


def test_a_field_from_the_environment_is_kept_by_name() -> None:
    """Through the journal and out again: the step gets the value, the journal the name."""
    value = Sealed(FromEnvironment("s", "TOKEN"))
    kept = kept_twice(value, Sealed)
    assert Sealed(TOKEN) == kept  # type: ignore[arg-type]  # as above
    assert value == copied(kept, {"TOKEN": "s"})
