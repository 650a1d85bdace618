"""Journals that earlier versions wrote: each is read, and its runs go on, in this version too."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopfsm.engine.loop import Loop
from loopfsm.journals.sqlite import SqliteJournal, schema
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import LoopState
from loopfsm.model.plan import Budget
from loopfsm.model.step import EnvironmentValue, Output, StepState
from loopfsm.testing import FakeClock
from loopfsm.tools.registry import tool
from tests.engine.kit import rows_of, run
from tests.journals.kit import opened
from tests.journals.written.write import Size, measure

WRITTEN = sorted((Path(__file__).parent / "written").glob("format-*.db"))


@tool(name="publish", idempotent=True)
async def publish(size: Size, to: str) -> str:
    return f"published {size.bytes} bytes to {to}"


@tool(name="die", idempotent=True)
async def live(size: Size) -> Size:
    return size


@pytest.fixture(params=WRITTEN, ids=lambda path: path.stem)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteJournal]:
    """A copy of each journal that was ever written."""
    path = tmp_path / "journal.db"
    shutil.copy(request.param, path)
    with opened(path) as made:
        yield made


def taken_up(journal: SqliteJournal, run_id: str) -> Loop:
    words: dict[str, Any] = {"environment": {"TARGET": "everyone"}, "clock": FakeClock(auto=True)}
    return Loop.resume(run_id, journal=journal, tools=[measure, publish, live], **words)


def test_there_is_one_of_each_format() -> None:
    """A new format comes with a journal of it, and those of the old ones stay."""
    expected = [f"format-{version}.db" for version in range(1, schema.VERSION + 1)]
    assert expected == [path.name for path in WRITTEN]


def test_its_runs_are_listed(journal: SqliteJournal) -> None:
    """With how each of them stands."""
    assert [
        ("asks", LoopState.WAITING_FOR_HUMAN),
        ("ended", LoopState.FAILED),
        ("died", LoopState.EXECUTING),
    ] == [(header.run_id, header.state) for header in journal.runs()]


def test_its_events_are_read(journal: SqliteJournal) -> None:
    """As many as the header says, from the first start to the question."""
    for header in journal.runs():
        events = list(journal.events(header.run_id))
        assert header.events == len(events)
        assert ["STEP-01", "STEP-02", "STEP-03"] == rows_of(events, "step", "measure")[:3]


def test_its_nouns_have_their_types(journal: SqliteJournal) -> None:
    """Plan, references, failures with their evidence, outputs as the tool's own class."""
    state = taken_up(journal, "asks").state
    args = state.step("publish").spec.args
    assert {"size": Output("measure"), "to": EnvironmentValue("TARGET")} == args
    assert (Size(5), Budget(steps=10)) == (state.step("measure").output, state.plan.policy.budget)
    failure = state.failures["F1"]
    assert (FailureKind.REPORTED, "no way to everyone") == (failure.kind, failure.message)
    assert {"size": 1, "tried": ("a", "b")} == failure.evidence


def test_a_run_that_waited_goes_on(journal: SqliteJournal) -> None:
    """Its question takes an answer, and it ends."""
    loop = taken_up(journal, "asks")
    loop.answer("publish", "retry")
    outcome = run(loop)
    assert (LoopState.COMPLETED, "published 5 bytes to everyone") == (
        outcome.state,
        outcome.outputs["publish"],
    )


def test_a_run_whose_driver_died_is_taken_up(journal: SqliteJournal) -> None:
    """What was under way is known: the plan said that it is not safe to repeat."""
    loop = taken_up(journal, "died")
    assert StepState.RUNNING is loop.state.step("publish").state
    assert FailureKind.INTERRUPTED is run(loop).failures[0].kind


def test_a_run_that_has_ended_is_over(journal: SqliteJournal) -> None:
    """It says why."""
    outcome = run(taken_up(journal, "ended"))
    assert (LoopState.FAILED, True) == (outcome.state, "no way to everyone" in outcome.reason)
