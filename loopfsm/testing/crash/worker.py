"""The process that drives a run until it ends, or until it kills itself.

What it did is told by the journal and by the calls outside it, not by what it prints: that
is one line of JSON, for whoever waits for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

from loopfsm.engine.loop import Loop
from loopfsm.engine.outcome import Outcome
from loopfsm.errors import AnswerRefused, LeaseHeld, Refused
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.loop_state import LoopState
from loopfsm.ports import Journal
from loopfsm.testing.crash.kills import CountedTool, KilledJournal, Killer
from loopfsm.testing.crash.scenarios import Scenario, calls_in
from loopfsm.tools.registry import ToolRegistry

RUN_ID = "run"
MOST_QUESTIONS = 20
"""A run that asks more often goes nowhere."""

REFUSED = 4
"""The exit code when the run could not be driven to its end."""


def journal_in(directory: Path, *, read_only: bool = False) -> SqliteJournal:
    """The journal of the run in that directory."""
    path = directory / "journal.sqlite3"
    return SqliteJournal(path, durability="process", read_only=read_only)


def loop_in(directory: Path, scenario: Scenario, killer: Killer, *, resume: bool) -> Loop:
    """The run in that directory: begun, or taken up."""
    made, calls = scenario.make(directory), calls_in(directory)
    tools = ToolRegistry(CountedTool(tool, calls, killer) for tool in made.tools)
    journal = cast(Journal, KilledJournal(journal_in(directory), killer))
    if resume:
        return Loop.resume(RUN_ID, journal=journal, tools=tools, evaluator=made.evaluator)
    return Loop(made.plan, tools=tools, journal=journal, run_id=RUN_ID, evaluator=made.evaluator)


def drive(directory: Path, scenario: Scenario, killer: Killer, *, resume: bool, ask: bool) -> int:
    """Drive the run to its end, answering what it asks; with `ask`, until it asks."""
    try:
        loop = loop_in(directory, scenario, killer, resume=resume)
        outcome = loop.run_sync()
        for _ in range(MOST_QUESTIONS):
            if outcome.state is not LoopState.WAITING_FOR_HUMAN or ask:
                break
            for question in outcome.questions:
                loop.answer(question.subject, scenario.answer)
            outcome = loop.run_sync()
    except Refused as error:
        tell(refused=type(error).__name__, why=str(error), **facts_of(error))
        return REFUSED
    tell(**how_it_stands(outcome))
    return 0 if outcome.final or ask else REFUSED


def answer(directory: Path, scenario: Scenario, subject: str, choice: str, token: str) -> int:
    """Take the run up, say so, and answer once a line comes in; then drive the run on."""
    loop = loop_in(directory, scenario, Killer(), resume=True)
    tell(ready=token)
    sys.stdin.readline()
    told: dict[str, Any] = {"token": token, "answer": "given"}
    try:
        loop.answer(subject, choice, token=token)
    except AnswerRefused as error:
        told |= {"answer": type(error).__name__, "why": str(error)}
    try:
        told |= how_it_stands(loop.run_sync())
    except Refused as error:
        told |= {"refused": type(error).__name__, **facts_of(error)}
    tell(**told)
    return 0


def how_it_stands(outcome: Outcome) -> dict[str, Any]:
    """The end of a drive, in JSON."""
    return {"state": outcome.state.value, "asked": [each.subject for each in outcome.questions]}


def facts_of(error: Refused) -> dict[str, Any]:
    """Who holds the run, where that is why."""
    return {"holder": error.holder, "until": error.until} if isinstance(error, LeaseHeld) else {}


def tell(**facts: Any) -> None:
    """Print one line of JSON, at once."""
    print(json.dumps(facts), flush=True)
