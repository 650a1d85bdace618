"""The shapes of what `--json` prints: one JSON Schema (draft 2020-12) per kind of line.

Every line is an object whose `type` is the name of its shape; only the lines of `classify`,
which are all of one shape, have none. A shape closes the objects whose keys are ours; what
tools returned and what machines recorded stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from loopfsm.cli.exits import BAD_INPUT, EXIT_OF, FOUND_SOMETHING, INTERRUPTED
from loopfsm.model.failure import FailureKind, FailureState
from loopfsm.model.loop_state import LoopState
from loopfsm.model.question import QuestionState
from loopfsm.model.situation import (
    NONE,
    UNCLASSIFIED,
    SituationClass,
    SituationKind,
    Source,
)
from loopfsm.model.step import StepState, Verdict

Schema = Mapping[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
TIME: Schema = {"type": "number", "description": "seconds since 1970-01-01 UTC"}
ANYTHING: Schema = {}
OPEN: Schema = {"type": "object"}


def list_of(item: Schema) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": item}


def or_null(shape: Schema) -> Schema:
    """Such a value, or null."""
    return {"anyOf": [shape, {"type": "null"}]}


def map_of(item: Schema) -> Schema:
    """An object whose keys are names."""
    return {"type": "object", "additionalProperties": item}


def one_of(words: Any) -> Schema:
    """One of the values of an enumeration."""
    return {"enum": [word.value for word in words]}


def closed(
    properties: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None
) -> Schema:
    """An object with exactly these keys, and perhaps the optional ones."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }


ACCEPTED: Schema = {
    **or_null(FLAG),
    "description": "null: recorded, for the program that began the run to take",
}

PROBLEM = closed({"place": TEXT, "message": TEXT})
OFFER = closed({"choice": TEXT, "does": TEXT, "command": TEXT})

QUESTION_FIELDS: Mapping[str, Schema] = {
    "id": TEXT,
    "number": COUNT,
    "subject": TEXT,
    "failure_id": TEXT,
    "text": TEXT,
    "choices": map_of(TEXT),
    "context": OPEN,
    "asked_at": TIME,
    "deadline": or_null(TIME),
    "state": one_of(QuestionState),
    "choice": or_null(TEXT),
    "said": TEXT,
    "raised_to": or_null(NUMBER),
    "token": or_null(TEXT),
    "answered_at": or_null(TIME),
}

FAILURE = closed(
    {
        "id": TEXT,
        "number": COUNT,
        "subject": TEXT,
        "kind": one_of(FailureKind),
        "message": TEXT,
        "occurred_at": TIME,
        "attempt": COUNT,
        "evidence": OPEN,
        "state": one_of(FailureState),
        "strategy": or_null(TEXT),
        "scope": list_of(TEXT),
        "plans": COUNT,
        "ordered": FLAG,
        "failed_strategies": list_of(TEXT),
        "reason": TEXT,
    }
)

STEP = closed(
    {
        "id": TEXT,
        "spec": OPEN,
        "state": one_of(StepState),
        "attempt": COUNT,
        "retry_count": COUNT,
        "generation": COUNT,
        "output": ANYTHING,
        "start_time": or_null(TIME),
        "end_time": or_null(TIME),
        "not_before": or_null(TIME),
        "evaluation": or_null(one_of(Verdict)),
        "verification": or_null(one_of(Verdict)),
        "acted_in": COUNT,
        "act_reported_failed": FLAG,
        "granted_in": {"type": "integer", "minimum": -1},
        "failed_in": or_null(one_of(StepState)),
        "metadata": OPEN,
    }
)

DRIVER = closed(
    {
        "process": TEXT,
        "host": TEXT,
        "pid": COUNT,
        "epoch": COUNT,
        "until": TIME,
        "alive": or_null(FLAG),
    }
)

HEADER = closed(
    {
        "run_id": TEXT,
        "state": one_of(LoopState),
        "goal": TEXT,
        "steps": COUNT,
        "created_at": TIME,
        "changed_at": TIME,
        "events": COUNT,
        "commits": COUNT,
        "plan": TEXT,
        "version": TEXT,
        "driver": or_null(DRIVER),
    }
)

STANDING: Mapping[str, Schema] = {
    "run_id": TEXT,
    "goal": TEXT,
    "reason": TEXT,
    "outputs": OPEN,
    "questions": list_of(closed({**QUESTION_FIELDS, "answers": list_of(OFFER)})),
    "meanwhile": TEXT,
    "failures": list_of(FAILURE),
    "skipped": list_of(TEXT),
    "resumable": FLAG,
}

EVENT_FIELDS: Mapping[str, Schema] = {
    "type": {"const": "event"},
    "row": TEXT,
    "noun": {"enum": ["step", "failure", "question", "loop"]},
    "id": TEXT,
    "at": TIME,
    "attempt": COUNT,
    "changes": OPEN,
    "facts": OPEN,
    "spent": list_of(
        {"type": "array", "prefixItems": [TEXT, NUMBER], "minItems": 2, "maxItems": 2}
    ),
}
EVENT = closed(EVENT_FIELDS, {"number": COUNT})

CLASSIFICATION = closed(
    {
        "class": {"enum": [*(each.value for each in SituationClass), NONE, UNCLASSIFIED]},
        "kind": or_null(one_of(SituationKind)),
        "subject": or_null(TEXT),
        "interactive": FLAG,
        "source": or_null(one_of(Source)),
        "failed": FLAG,
        "refused": FLAG,
        "unblock": or_null(TEXT),
        "probe": or_null(closed({"tool": TEXT, "args": OPEN})),
        "evidence": or_null(TEXT),
    }
)


def _line(name: str, title: str, properties: Mapping[str, Schema]) -> Schema:
    shape = closed({"type": {"const": name}, **properties})
    return {"$schema": DIALECT, "title": title, **shape}


_LINES: Mapping[str, tuple[str, Mapping[str, Schema]]] = {
    "run": (
        "the first line of a run: what is run, and where it is kept",
        {
            "run_id": TEXT,
            "goal": TEXT,
            "steps": COUNT,
            "max_parallel": COUNT,
            "journal": TEXT,
            "journal_said_by": TEXT,
            "resumed": FLAG,
            "plan_changed": FLAG,
        },
    ),
    "reply": (
        "what became of an answer or a cancel",
        {"run_id": TEXT, "token": TEXT, "accepted": ACCEPTED, "reason": TEXT},
    ),
    "outcome": (
        "the last line of a run that has ended, or waits for a person",
        {
            "state": {"enum": [state.value for state in EXIT_OF]},
            "exit_code": {"enum": sorted({*EXIT_OF.values(), BAD_INPUT})},
            **STANDING,
        },
    ),
    "interrupted": (
        "the last line of a run that rests before its end, and of an interrupted command",
        {
            "exit_code": {"const": INTERRUPTED},
            "run_id": TEXT,
            "resumable": FLAG,
            "resume": TEXT,
            "reason": TEXT,
        },
    ),
    "refused": (
        "the only line of a command that has started and changed nothing",
        {
            "exit_code": {"const": BAD_INPUT},
            "problems": list_of(PROBLEM),
            "instead": list_of(TEXT),
        },
    ),
    "broken": (
        "the last line when loopfsm itself is broken",
        {"exit_code": {"const": FOUND_SOMETHING}, "traceback": TEXT},
    ),
    "runs": (
        "the runs of a journal, and those that --prune has forgotten",
        {"journal": TEXT, "runs": list_of(HEADER), "forgotten": list_of(TEXT)},
    ),
    "show": (
        "how a run stands",
        {
            "run": HEADER,
            "state": one_of(LoopState),
            **STANDING,
            "steps": list_of(closed({"id": TEXT, "state": one_of(StepState), "attempts": COUNT})),
            "spent": map_of(NUMBER),
            "limits": map_of(or_null(NUMBER)),
        },
    ),
    "step": (
        "everything about one step of a run",
        {
            "run_id": TEXT,
            "step": STEP,
            "failures": list_of(FAILURE),
            "questions": list_of(closed(QUESTION_FIELDS)),
            "events": list_of(EVENT),
        },
    ),
    "proof": ("what prove has found", {"clean": FLAG, "report": TEXT}),
}

UNTYPED = "classification"
"""The shape whose lines have no `type`."""

SHAPES: Mapping[str, Schema] = MappingProxyType(
    {
        "event": {"$schema": DIALECT, "title": "one change of a run, as it was committed", **EVENT},
        **{name: _line(name, title, properties) for name, (title, properties) in _LINES.items()},
        UNTYPED: {
            "$schema": DIALECT,
            "title": "what classify says of a line: what happened, or why it cannot be said",
            "anyOf": [CLASSIFICATION, closed({"error": TEXT})],
        },
    }
)
"""The name of each shape, which is the `type` of its lines, and the shape."""
