"""Progress: one plain line per transition that matters."""

from __future__ import annotations

import json
from typing import Any

import attrs

from loopfsm.cli.progress import WORDS_OF_KIND, JsonProgress, PlainProgress
from loopfsm.engine.state import new_run
from loopfsm.model.event import CREATED, LATE_RESULT, Event
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import Map
from loopfsm.model.plan import Plan
from loopfsm.model.step import StepSpec, StepState


def entered(state: StepState, at: float, attempt: int = 1, **changes: Any) -> Event:
    return Event("STEP-XX", "step", "fetch", at, attempt, {"state": state, **changes})


FAILED = Event(
    CREATED,
    "failure",
    "f1",
    10.5,
    0,
    {"subject": "fetch", "kind": FailureKind.REPORTED, "message": "exit \x1b[31mcode\x1b[0m 75\nx"},
)
PLANNED = Event("FAIL-01", "failure", "f1", 10.5, 0, {"strategy": "RETRY_WITH_BACKOFF"})


def lines_of(*events: Event) -> list[str]:
    lines: list[str] = []
    progress = PlainProgress(lines.append)
    for event in events:
        progress.event(event)
    progress.end()
    return lines


def test_a_failure_and_a_retry_are_told_with_their_reasons() -> None:
    """Step, from, to, attempt, why; states that are only passed are not told."""
    assert [
        "    0.00s  fetch: READY -> RUNNING (attempt 1)",
        "    0.50s  fetch: RUNNING -> EVALUATION_FAILED (attempt 1): failed: exit code 75 x",
        (
            "    0.50s  fetch: EVALUATION_FAILED -> RETRY_PENDING (attempt 1): RETRY_WITH_BACKOFF, "
            "again in 0.20 s"
        ),
        "    0.80s  fetch: READY -> RUNNING (attempt 2)",
        "    1.00s  fetch: EVALUATED -> VERIFIED_COMPLETED (attempt 2)",
    ] == lines_of(
        entered(StepState.READY, 10.0, 0),
        entered(StepState.RUNNING, 10.0),
        entered(StepState.EVALUATION_FAILED, 10.5),
        FAILED,
        PLANNED,
        entered(StepState.RETRY_PENDING, 10.5, not_before=10.7),
        entered(StepState.READY, 10.8),
        entered(StepState.RUNNING, 10.8, 2),
        entered(StepState.EXECUTED, 11.0, 2),
        entered(StepState.EVALUATED, 11.0, 2),
        entered(StepState.VERIFIED_COMPLETED, 11.0, 2),
    )


def test_the_reason_is_told_whichever_event_comes_first() -> None:
    """The order of events inside a unit is the core's own affair."""
    step = entered(StepState.EVALUATION_FAILED, 10.5)
    assert lines_of(entered(StepState.RUNNING, 10), step, FAILED) == lines_of(
        entered(StepState.RUNNING, 10), FAILED, step
    )


def test_a_failed_step_without_a_reason_is_told_all_the_same() -> None:
    """Nothing that was held back is lost at the end."""
    (line,) = lines_of(entered(StepState.VERIFICATION_FAILED, 10.5))
    assert line.endswith("fetch: PENDING -> VERIFICATION_FAILED (attempt 1)")


def test_a_late_result_is_told() -> None:
    """A result that came too late is no transition, and no secret."""
    (line,) = lines_of(Event(LATE_RESULT, "step", "fetch", 3.0, 1))
    assert line.endswith("fetch: a late result of attempt 1 came and is not used")


def test_every_kind_of_failure_has_its_words() -> None:
    """The table is complete."""
    assert set(WORDS_OF_KIND) == set(FailureKind)


def test_every_event_is_a_json_line() -> None:
    """`--json` leaves nothing out."""
    lines: list[str] = []
    progress = JsonProgress(lines.append)
    progress.event(FAILED)
    progress.end()
    (data,) = map(json.loads, lines)
    assert ("event", "created", "failure", "f1") == tuple(
        data[key] for key in ("type", "row", "noun", "id")
    )
    assert data["changes"]["kind"] == "reported"


def test_an_answer_is_told_with_its_words() -> None:
    """What a person said comes in place of the state that the answer leads through."""
    asked = Event(CREATED, "question", "Q1", 11.0, 0, {"subject": "fetch", "choice": None})
    said = {"state": "ANSWERED", "choice": "retry", "said": "the net\nis back"}
    assert [
        "    1.00s  fetch: EVALUATION_FAILED -> WAITING_FOR_HUMAN (attempt 1)",
        "    2.00s  fetch: answered: retry (the net is back)",
    ] == lines_of(
        entered(StepState.RUNNING, 10.0),
        FAILED,
        entered(StepState.EVALUATION_FAILED, 10.5),
        asked,
        entered(StepState.WAITING_FOR_HUMAN, 11.0),
        Event("QUES-01", "question", "Q1", 12.0, 0, said),
        entered(StepState.EVALUATION_FAILED, 12.0),
    )[2:]


def test_an_attempt_that_its_driver_left_is_told() -> None:
    """A step that is begun anew did not come to that by itself."""
    assert (
        "    1.00s  fetch: attempt 1 was interrupted, and a repeat is safe"
        == lines_of(entered(StepState.RUNNING, 10.0), entered(StepState.READY, 11.0))[-1]
    )


def test_a_resumed_run_is_told_from_where_it_stands() -> None:
    """What was before is known: no step seems to come from its beginning."""
    steps = (StepSpec(id="fetch", tool="t"), StepSpec(id="send", tool="t", needs=("fetch",)))
    state = new_run(Plan(goal="g", steps=steps), "r")
    fetched = attrs.evolve(state.step("fetch"), state=StepState.RETRY_PENDING)
    lines: list[str] = []
    progress = PlainProgress(lines.append)
    progress.knows(attrs.evolve(state, steps=Map({"fetch": fetched})))
    progress.event(entered(StepState.CANCELLED, 1.0))
    assert ["    0.00s  fetch: RETRY_PENDING -> CANCELLED (attempt 1)"] == lines
