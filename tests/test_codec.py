"""Whatever a tool may return, as JSON and back: the same data, or a refusal that says where."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal, TypedDict
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm import codec, outputs
from loopfsm.errors import NotSerialisable
from loopfsm.model.step import EnvironmentValue, FromEnvironment, Output
from loopfsm.plain import LARGEST_BITS, plain
from tests.journals.values import ARGS, DATA, JSON, TEXTS, Kept, alike


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)
    NAN = "$float"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"
    DOLLAR = "$path"


class Mode(Flag):
    READ = 1
    WRITE = 2


@attrs.frozen
class Box:
    """An attrs class that holds one of each."""

    name: str
    at: datetime
    colour: Colour
    level: Level
    inside: Box | None = None
    path: Path = Path()
    content: bytes = b""
    size: tuple[int, float] = (0, 0.0)
    more: Mapping[str, list[Word]] = attrs.field(factory=dict)


@dataclass(frozen=True)
class Pair:
    """A dataclass around anything."""

    left: Any
    right: Box | None = None


class Row(TypedDict):
    """A dictionary whose fields have types."""

    box: Box
    pairs: list[Pair]


Point = namedtuple("Point", "x y")

NAIVE = st.datetimes()
BOXES: st.SearchStrategy[Box] = st.deferred(
    lambda: st.builds(
        Box,
        name=TEXTS,
        at=NAIVE,
        colour=st.sampled_from(Colour),
        level=st.sampled_from(Level),
        inside=st.none() | BOXES,
        path=st.builds(Path, TEXTS),
        content=st.binary(max_size=4),
        size=st.tuples(st.integers(), st.floats()),
        more=st.dictionaries(TEXTS, st.lists(st.sampled_from(Word), max_size=2), max_size=2),
    )
)
PAIRS = st.builds(Pair, JSON, st.none() | BOXES)
ROWS: st.SearchStrategy[Row] = st.fixed_dictionaries(  # type: ignore[assignment]  # it is a dict
    {"box": BOXES, "pairs": st.lists(PAIRS, max_size=2)}
)
TYPED: tuple[tuple[Any, st.SearchStrategy[Any]], ...] = (
    (Any, DATA | BOXES | PAIRS | st.sampled_from([*Colour, *Level, *Word])),
    (object, DATA),
    (None, st.none()),
    (dict, st.dictionaries(TEXTS, JSON)),
    (dict[str, float], st.dictionaries(TEXTS, st.floats())),
    (bytes, st.binary()),
    (Path, st.builds(Path, TEXTS)),
    (datetime, NAIVE),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Word, st.sampled_from(Word)),
    (Mode, st.sampled_from(Mode)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (Box, BOXES),
    (Pair, PAIRS),
    (Row, ROWS),
    (Box | None, st.none() | BOXES),
    (list[Box], st.lists(BOXES, max_size=2)),
    (tuple[Box, ...], st.lists(BOXES, max_size=2).map(tuple)),
    (dict[str, Box | None], st.dictionaries(TEXTS, st.none() | BOXES, max_size=2)),
)


def there_and_back(value: Any, files: Kept) -> Any:
    """What another process reads of a value, without any annotation."""
    data = codec.unstructured(value, "output", files.keep)
    return codec.tagged(codec.data_of(codec.text_of(data)), files.fetch)


# ------------------------------------------------------------------ data


@given(DATA)
def test_data_comes_back_as_it_was(value: Any) -> None:
    """Texts, numbers, moments, paths, bytes, lists, tuples and mappings: nothing is lost."""
    assert alike(value) == alike(there_and_back(value, Kept()))


@given(DATA)
def test_the_text_is_ascii_on_one_line(value: Any) -> None:
    """Whatever stands in a value, its text fits into a column and a hash."""
    text = codec.text_of(codec.unstructured(value, "output", Kept().keep))
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.slow
@given(ARGS)
def test_references_come_back_at_any_depth(args: Mapping[str, Any]) -> None:
    """`Output` and `EnvironmentValue` in the args of a step are read back as references."""
    assert alike(args) == alike(there_and_back(args, Kept()))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (float("nan"), {"$float": "nan"}),
        (float("-inf"), {"$float": "-inf"}),
        ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
        ({1: "a"}, {"$map": [[1, "a"]]}),
        ({"$path": 1}, {"$map": [["$path", 1]]}),
        (Path("a") / "b", {"$path": "a/b"}),
        (Output("a", ("b",)), {"$from": ["a", "b"]}),
        (EnvironmentValue("X"), {"$env": "X"}),
        (Colour.PAIR, {"$tuple": [1, 2]}),
        (Level.HIGH, 2),
        (Word.YES, "yes"),
        (Point(1, 2), {"$tuple": [1, 2]}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({Word.YES: 1}, {"yes": 1}),
        (Pair(1), {"left": 1, "right": None}),
    ],
)
def test_what_json_lacks_has_its_form(value: Any, data: Any) -> None:
    """Each form is the one that the journal's page documents."""
    assert codec.text_of(data) == codec.text_of(codec.unstructured(value, "output"))


def test_a_moment_keeps_its_offset() -> None:
    """A zone by name becomes its offset of that moment, which is what the moment needs."""
    moment = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    back = there_and_back(moment, Kept())
    assert (moment, moment.utcoffset()) == (back, back.utcoffset())


# ------------------------------------------------------------------ types


@pytest.mark.slow
@pytest.mark.parametrize(("annotation", "values"), TYPED, ids=lambda each: str(each)[:30])
def test_what_goes_on_is_what_a_later_process_reads(
    annotation: Any, values: st.SearchStrategy[Any]
) -> None:
    """The process that called the tool and the one that resumes the run see the same."""

    @given(values)
    def law(value: Any) -> None:
        files = Kept()
        kept = outputs.kept(value, annotation, files.keep, files.fetch)
        later = codec.structured(there_and_back(value, files), annotation)
        assert alike(later) == alike(kept)
        assert alike(kept) == alike(outputs.kept(kept, annotation, files.keep, files.fetch))
        assert alike(kept) == alike(codec.structured(there_and_back(kept, files), annotation))

    law()


@pytest.mark.slow
@given(BOXES)
def test_a_class_comes_back_where_its_tool_names_it(box: Box) -> None:
    """Without an annotation it is plain data; with one it is what it was."""
    files = Kept()
    assert alike(box) == alike(outputs.kept(box, Box, files.keep, files.fetch))
    assert isinstance(outputs.kept(box, Any, files.keep, files.fetch), dict)


@pytest.mark.parametrize("annotation", [Any, dict, dict[str, Any]])
def test_what_a_tool_does_to_its_own_list_later_changes_nothing(annotation: Any) -> None:
    """A tool may keep what it returned; the run has its own, as the file has."""
    mine: dict[str, Any] = {"box": {"name": "a"}, "pairs": [[1], ({"x": 2},)]}
    kept = outputs.kept(mine, annotation, codec.no_files, codec.gone)
    before = codec.text_of(codec.unstructured(kept, "output"))
    mine["box"]["name"] = "b"
    mine["pairs"].append(3)
    assert before == codec.text_of(codec.unstructured(kept, "output"))


def test_what_does_not_fit_its_annotation_is_refused() -> None:
    """A tool that returns something else than it says gives its attempt a failure."""
    with pytest.raises(NotSerialisable, match="it does not fit Box, which its tool says it"):
        outputs.kept({"name": 1}, Box, codec.no_files, codec.gone)


def test_a_class_that_cannot_be_built_again_is_refused() -> None:
    """Whatever its author's code raises, nothing but a refusal comes out."""

    @attrs.frozen
    class Once:
        x: int

        def __attrs_post_init__(self) -> None:
            made.append(self)
            if len(made) > 1:
                raise LookupError("once")

    made: list[Once] = []
    with pytest.raises(NotSerialisable, match="does not fit Once"):
        outputs.kept(Once(1), Once, codec.no_files, codec.gone)


# ------------------------------------------------------------------ the environment

SECRET = "s3cr3t-value"
TOKEN = FromEnvironment(SECRET, "TOKEN")


@pytest.mark.parametrize(
    "value",
    [
        TOKEN,
        [TOKEN],
        {"a": (TOKEN,)},
        {TOKEN: 1},
        {1: TOKEN},
        {TOKEN: {TOKEN: TOKEN}},
        Pair(TOKEN),
    ],
    ids=repr,
)
def test_what_came_from_the_environment_is_kept_by_name(value: Any) -> None:
    """Its value is in no text: not as a value, not as a key, not where it cannot be kept."""
    assert SECRET not in codec.text_of(codec.unstructured(value, "output"))
    assert SECRET not in codec.text_of(codec.unstructured_anyhow([value, object()]))
    assert SECRET not in str(plain(value))
    with pytest.raises(NotSerialisable) as refused:
        codec.unstructured({TOKEN: [value, object()]}, "output")
    assert SECRET not in str(refused.value)


# ------------------------------------------------------------------ refusals


@attrs.define
class Unset:
    """One field has no value yet."""

    y: int = attrs.field(init=False)


class Odd(Enum):
    THING = object()


class Hostile(Mapping[str, int]):
    """A mapping that cannot be looked into."""

    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


def around_itself() -> list[Any]:
    ring: list[Any] = []
    ring.append({"again": ring})
    return ring


def nested(depth: int, around: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = around(value)
    return value


ROUNDS: Mapping[str, Any] = {
    "list": lambda value: [value],
    "dict": lambda value: {"a": value},
    "map": lambda value: {1: value},
    "tuple": lambda value: (value,),
    "subclass": lambda value: OrderedDict(a=value),
    "named tuple": lambda value: Point(value, 1),
    "class": Pair,
}


@pytest.mark.parametrize(
    ("value", "place", "found"),
    [
        ({"a": [1, {2}]}, "output.a[1]", "a set; return a list"),
        ([frozenset()], "output[0]", "a frozenset; return a list"),
        (object(), "output", "a object; return texts"),
        ({"f": io.StringIO()}, "output.f", "a _io.StringIO"),
        ((x for x in "a"), "output", "a generator"),
        ([Box], "output[0]", "the class Box"),
        (print, "output", "a builtin_function_or_method"),
        (1j, "output", "a complex"),
        ({("a", 1): {2}}, "output[['a', 1]]", "a set"),
        (around_itself(), "output[0].again", "it contains itself"),
        ([2**LARGEST_BITS], "output[0]", f"a whole number of {LARGEST_BITS + 1} bits"),
        ([b"x"], "output[0]", "bytes; this place takes text"),
        (Odd.THING, "output", "a object"),
        ([Unset()], "output[0]", "a tests.test_codec.Unset that cannot be read (AttributeError)"),
        ([Hostile()], "output[0]", "a tests.test_codec.Hostile that cannot be read (RuntimeErr"),
        ([Pair({1})], "output[0].left", "a set"),
    ],
    ids=lambda each: str(each)[:20],
)
def test_what_cannot_be_kept_is_refused(value: Any, place: str, found: str) -> None:
    """The error says where inside the value it stands, and what it is."""
    with pytest.raises(NotSerialisable) as refused:
        codec.unstructured(value, "output")
    assert place == refused.value.place
    assert f"{place} cannot be kept in a journal: {found}" in str(refused.value)


@pytest.mark.parametrize("around", ROUNDS.values(), ids=ROUNDS)
def test_nesting_has_an_end(around: Any) -> None:
    """What is nested deeply is refused; what is kept can be read back, whatever it is made of."""
    deepest = nested(codec.DEEPEST, around)
    assert alike(there_and_back(deepest, Kept())) == alike(there_and_back(deepest, Kept()))
    for depth in (codec.DEEPEST + 1, 5000):
        with pytest.raises(NotSerialisable, match=f"nested more than {codec.DEEPEST} deep"):
            codec.unstructured(nested(depth, around), "output")


def test_the_same_list_twice_is_no_ring() -> None:
    """Only what contains itself does; what is there twice is written twice."""
    inner = [1]
    assert [[1], [1]] == codec.unstructured([inner, inner], "output")


@pytest.mark.parametrize("form", ["$set", "$", "$bytes2", "$file"])
def test_an_unknown_form_is_refused(form: str) -> None:
    """What a later version may write is never mistaken for data."""
    with pytest.raises(ValueError, match="is unknown to this version"):
        codec.tagged([{form: 1}])


def test_bytes_that_are_gone_are_a_key_error() -> None:
    """The reader decides what it means."""
    data = codec.unstructured(b"x", "output", Kept().keep)
    with pytest.raises(KeyError):
        codec.tagged(data)


# ------------------------------------------------------------------ paths


@pytest.mark.parametrize("kind", [PurePath, PurePosixPath, PureWindowsPath, Path])
def test_a_path_comes_back_as_the_kind_that_is_named(kind: type[PurePath]) -> None:
    """`Path` unless the annotation says otherwise."""
    kept = outputs.kept(kind("a/b"), kind, codec.no_files, codec.gone)
    assert (kind("a/b"), True) == (kept, isinstance(kept, kind))
