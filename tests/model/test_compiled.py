"""Values made and copied by compiled functions are those that attrs would have made."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.engine.inputs import CallTool, Result
from loopfsm.lifecycle import Fired
from loopfsm.model.compiled import evolved, maker_of, only_stores
from loopfsm.model.event import Event, Unit
from loopfsm.model.failure import FailureState
from loopfsm.model.loop_state import LoopState
from loopfsm.model.question import QuestionState
from loopfsm.model.step import StepState
from loopfsm.ports import ToolContext
from tests.machines.cases import failure_in, question_in, run_in, step_in, world

EVOLVED = (
    step_in(StepState.RUNNING),
    failure_in(FailureState.UNHANDLED),
    question_in(QuestionState.OPEN),
    run_in(LoopState.EXECUTING),
    world(),
    Result(step_id="a", attempt=1),
)
"""One of every class that a run copies all the time."""

MADE: tuple[Any, ...] = (Event, Unit, Fired, Result, CallTool, ToolContext)
"""Every class that a run makes instances of all the time."""


@pytest.mark.parametrize("value", EVOLVED, ids=lambda value: type(value).__name__)
@given(data=st.data())
def test_a_copy_is_what_attrs_makes(value: Any, data: st.DataObject) -> None:
    """A copy has the changes and everything else, and the original is what it was."""
    value_class: Any = type(value)
    assert only_stores(value_class)
    names = [each.name for each in attrs.fields(value_class)]
    changes = data.draw(st.dictionaries(st.sampled_from(names), st.none() | st.integers()))
    kept = repr(value)
    made = evolved(value, changes)
    assert type(value) is type(made)
    assert repr(attrs.evolve(value, **changes)) == repr(made)
    assert kept == repr(value)


@pytest.mark.parametrize("made_class", MADE)
@given(data=st.data())
def test_what_is_made_is_what_the_class_makes(made_class: Any, data: st.DataObject) -> None:
    """Made with the same arguments, in place or by name or by default, both are the same."""
    assert only_stores(made_class)
    make = maker_of(made_class)
    fields = attrs.fields(made_class)
    assert made_class is not make
    required = [each for each in fields if each.default is attrs.NOTHING]
    given_too = data.draw(st.sets(st.sampled_from([each.name for each in fields])))
    named = {each.name: each.name for each in fields if each.name in given_too}
    in_place = [] if fields[0].kw_only else [each.name for each in required]
    words = {each.name: 1 for each in required} if fields[0].kw_only else {}
    arguments = {k: v for k, v in {**words, **named}.items() if k not in in_place}
    expected, made = made_class(*in_place, **arguments), make(*in_place, **arguments)
    assert made_class is type(made)
    assert expected == made
    assert repr(expected) == repr(made)


@pytest.mark.parametrize("value", [EVOLVED[0], EVOLVED[3]], ids=["Step", "Run"])
def test_a_copy_is_as_frozen_as_any(value: Any) -> None:
    """Nothing can be set or deleted in a copy; it compares, copies and pickles as any other."""
    made = evolved(value, {})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.state = None
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del made.state
    assert value == made
    assert value is not made
    assert made == copy.deepcopy(made) == pickle.loads(pickle.dumps(made))
    assert not hasattr(made, "__dict__")


def test_a_copy_can_be_referred_to_weakly() -> None:
    """A copy has room for weak references where its class has."""
    made = evolved(world(), {"running": 3})
    assert made is weakref.ref(made)()


def test_each_default_is_made_anew() -> None:
    """What a factory of a field makes is not shared between instances."""
    make = maker_of(Result)
    one, other = make(step_id="a", attempt=1), make(step_id="a", attempt=1)
    assert one == other
    assert one.evidence is not other.evidence


@pytest.mark.parametrize("changes", [{"colour": 1}, {"state": 1, "colour": 2}, {"id": "b"}])
def test_what_is_no_field_is_refused(changes: Mapping[str, Any]) -> None:
    """A name that is no field, be it a property, is refused in the words of attrs."""
    step = EVOLVED[0]
    with pytest.raises(TypeError) as expected:
        attrs.evolve(step, **changes)
    with pytest.raises(TypeError) as caught:
        evolved(step, changes)
    assert str(expected.value) == str(caught.value)


@pytest.mark.parametrize("arguments", [{}, {"step_id": "a"}, {"step_id": "a", "colour": 1}])
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    """Too few arguments, or unknown ones, are a TypeError as they are for the class."""
    with pytest.raises(TypeError):
        maker_of(CallTool)(**arguments)


# Classes that do more than store


def _positive(_instance: object, _attribute: object, value: int) -> None:
    if value <= 0:
        raise ValueError("not positive")


@frozen
class Validated:
    size: int = field(default=1, validator=_positive)


@frozen
class Converted:
    size: int = field(default=1, converter=int)


@frozen
class Hooked:
    size: int = 1

    def __attrs_post_init__(self) -> None:
        if self.size == 0:
            raise ValueError("nothing")


@frozen
class Private:
    _size: int = 1


@frozen
class Derived:
    size: int = 1
    double: int = field(init=False, default=2)


@frozen(cache_hash=True)
class Hashed:
    size: int = 1


@frozen(slots=False)
class Roomy:
    size: int = 1


@frozen(init=False)
class HandMade:
    size: int

    def __init__(self, size: int) -> None:
        object.__setattr__(self, "size", abs(size))


MORE: tuple[Any, ...] = (
    Validated,
    Converted,
    Hooked,
    Private,
    Derived,
    Hashed,
    Roomy,
    HandMade,
)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("size", [3, "4", 0, -1])
def test_whatever_a_class_does_is_still_done(more: Any, size: Any) -> None:
    """Validators, converters, hooks and the like run as they do without the short cut."""
    assert not only_stores(more)
    assert more is maker_of(more)
    value = more(1)
    expected = _outcome(lambda: attrs.evolve(value, size=size))
    assert expected == _outcome(lambda: evolved(value, {"size": size}))


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        made = work()
    except Exception as error:  # noqa: BLE001  # both have to raise it
        return type(error), str(error)
    return type(made), repr(made), hash(made)
