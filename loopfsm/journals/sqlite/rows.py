"""Nouns and events as rows of the tables, and rows as nouns and events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

import attrs

from loopfsm import codec
from loopfsm.errors import NotSerialisable
from loopfsm.model.event import Event, Unit
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import Run
from loopfsm.model.plan import Policy
from loopfsm.model.question import Question
from loopfsm.model.step import EMPTY, Step, StepSpec, Unreadable
from loopfsm.plain import plain

LARGE = 65536
"""Characters of an output, as JSON, from which on it is kept in a file of its own."""

STEP_COLUMNS = (
    "state",
    "attempt",
    "retry_count",
    "generation",
    "start_time",
    "end_time",
    "not_before",
    "evaluation",
    "verification",
    "acted_in",
    "act_reported_failed",
    "granted_in",
    "failed_in",
    "metadata",
)
"""The fields of a step that its row holds: all but its spec and its output."""

# Writing


def units_text(units: Sequence[Unit], keep: codec.Keep) -> str:
    """The units of a commit as JSON: each with its cause and its events."""
    text = _text(units, keep, weigh=False)
    return text if len(text) < LARGE else _text(units, keep, weigh=True)


def _text(units: Iterable[Unit], keep: codec.Keep, *, weigh: bool) -> str:
    data = [
        {"cause": unit.cause, "events": [_event_data(event, keep, weigh) for event in unit.events]}
        for unit in units
    ]
    try:
        return _FAST.encode(data)
    except (TypeError, ValueError, RecursionError):
        return _FAST.encode([_in_words(unit) for unit in data])


def _event_data(event: Event, keep: codec.Keep, weigh: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "row": event.row,
        "noun": event.noun,
        "id": event.id,
        "at": event.at,
        "attempt": event.attempt,
    }
    if event.changes:
        data["changes"] = _changes_data(event, keep, weigh)
    if event.facts:
        data["facts"] = event.facts
    if event.spent:
        data["spent"] = event.spent
    return data


def _changes_data(event: Event, keep: codec.Keep, weigh: bool) -> Mapping[str, Any]:
    changes = event.changes
    if event.noun != "step" or "metadata" in changes:
        changes = {
            name: value if name == "output" else codec.unstructured_anyhow(value)
            for name, value in changes.items()
        }
    if "output" not in changes:
        return changes  # numbers, and values of enums
    return {**changes, "output": output_data(changes["output"], keep, weigh)}


def output_data(value: Any, keep: codec.Keep, weigh: bool) -> Any:
    """What a tool returned, in JSON; when weighed, a large one is a reference to its file."""
    try:
        data = codec.unstructured(value, "output", keep)
    except NotSerialisable:  # nobody asked `keepable`: a result must not be lost for that
        data = plain(value)
    text = codec.text_of(data) if weigh else ""
    return data if len(text) < LARGE else {"$file": keep(text.encode("ascii"))}


def _in_words(unit: dict[str, Any]) -> dict[str, Any]:
    """A unit whose facts hold what is no JSON: facts are told, and never turned back."""
    events = [
        {name: plain(item) if name == "facts" else _valued(item) for name, item in event.items()}
        for event in unit["events"]
    ]
    return {"cause": unit["cause"], "events": events}


def _valued(item: Any) -> Any:
    return codec.unstructured_anyhow(item) if isinstance(item, MappingProxyType) else item


def _simple(value: Any) -> Any:
    """What a value that is no JSON is in JSON, where that is simple; else TypeError."""
    if isinstance(value, Enum):
        return value._value_  # as `.value`, in a third of the time
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


_FAST = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_simple)


def sound(text: str) -> str:
    """A text as a column can hold it: half of a surrogate pair is no text, and is escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def noun_text(noun: Any, *, without: tuple[str, ...]) -> str:
    """A noun as JSON: its fields that are not at their default, without those in columns."""
    data = {}
    for field in attrs.fields(type(noun)):
        value = getattr(noun, field.name)
        if field.name in without or (field.default is not attrs.NOTHING and value == field.default):
            continue
        data[field.name] = codec.unstructured_anyhow(value)
    return codec.text_of(data)


def spec_text(spec: StepSpec, place: str) -> str:
    """What the author said about a step, without its id, needs and tool.

    Raises:
        NotSerialisable: an argument that no journal can keep.
    """
    data = {}
    for field in attrs.fields(StepSpec):
        value = getattr(spec, field.name)
        if field.name not in ("id", "needs", "tool") and value != field.default:
            data[field.name] = codec.unstructured(value, f"{place}.{field.name}")
    return codec.text_of(data)


def step_row(step: Step) -> tuple[Any, ...]:
    """The columns of a step."""
    return (
        step.state.value,
        step.attempt,
        step.retry_count,
        step.generation,
        step.start_time,
        step.end_time,
        step.not_before,
        None if step.evaluation is None else step.evaluation.value,
        None if step.verification is None else step.verification.value,
        step.acted_in,
        int(step.act_reported_failed),
        step.granted_in,
        None if step.failed_in is None else step.failed_in.value,
        codec.text_of(codec.unstructured_anyhow(step.metadata)) if step.metadata else "{}",
    )


# Reading


class Reader:
    """Turns rows of one journal back; one for all runs."""

    def __init__(self, fetch: codec.Fetch) -> None:
        self._fetch = fetch

    def value(self, data: Any) -> Any:
        """What was written as tagged JSON; a large one is in its file."""
        if type(data) is dict and len(data) == 1 and "$file" in data:
            data = codec.data_of(self._fetch(data["$file"]).decode("ascii"))
        return codec.tagged(data, self._fetch)

    def _told(self, data: Any) -> Any:
        """As `value`; what is gone is told of all the same."""
        try:
            return self.value(data)
        except KeyError as error:
            return Unreadable(str(error.args[0]))

    def noun(self, kind: type, text: str, **columns: Any) -> Any:
        """A noun of its row."""
        data = {name: self.value(item) for name, item in codec.data_of(text).items()}
        return kind(**self.fields(kind, {**data, **columns}))

    def fields(self, kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of a noun, each as the type that the noun declares."""
        types = _TYPES[kind]
        return {
            name: codec.structured(value, types[name]) if name in types else value
            for name, value in data.items()
        }

    def step(self, spec: StepSpec, row: tuple[Any, ...], output: Any) -> Step:
        """A step of its columns."""
        data = dict(zip(STEP_COLUMNS, row, strict=True))
        data["act_reported_failed"] = bool(data["act_reported_failed"])
        data["metadata"] = self.value(codec.data_of(data["metadata"])) or EMPTY
        return Step(spec=spec, output=output, **self.fields(Step, data))

    def events(self, units: str) -> Iterator[Event]:
        """The events of a commit."""
        for unit in codec.data_of(units):
            for data in unit["events"]:
                yield self._event(data)

    def _event(self, data: Mapping[str, Any]) -> Event:
        kind = KINDS[data["noun"]]
        changes = {key: self._told(item) for key, item in data.get("changes", EMPTY).items()}
        return Event(
            row=data["row"],
            noun=data["noun"],
            id=data["id"],
            at=data["at"],
            attempt=data["attempt"],
            changes=self.fields(kind, changes) if changes else EMPTY,
            facts=data.get("facts", EMPTY),
            spent=tuple((budget, amount) for budget, amount in data.get("spent", ())),
        )

    def output(self, units: str, step_id: str) -> Any:
        """The output of a step that some event of a commit recorded."""
        found = [
            event["changes"]["output"]
            for unit in codec.data_of(units)
            for event in unit["events"]
            if event["noun"] == "step" and event["id"] == step_id
            if "output" in event.get("changes", EMPTY)
        ]
        return self.value(found[-1])


KINDS: Mapping[str, type] = {"step": Step, "failure": Failure, "question": Question, "loop": Run}
"""What each noun of an event is."""

_TYPES: Mapping[type, Mapping[str, Any]] = {
    kind: {
        name: annotation
        for name, annotation in codec.field_types(kind).items()
        if not codec.is_plain(annotation)
    }
    for kind in (*KINDS.values(), StepSpec, Policy)
}
"""The fields of each noun that need more than their data."""
