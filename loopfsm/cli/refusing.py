"""A user's mistake: told in words, never as a traceback, with the exit code for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from loopfsm.cli.exits import BAD_INPUT, INTERRUPTED
from loopfsm.cli.printing import clean, json_line, one_line
from loopfsm.cli.streams import complain, say, stdout_of_our_own
from loopfsm.errors import (
    AnswerRefused,
    DefinitionError,
    DriveRefused,
    JournalRefused,
    LoopfsmError,
    PlanError,
    Problem,
    RunChanged,
    UnknownRun,
)

MISTAKES = (DefinitionError, AnswerRefused, DriveRefused, JournalRefused, UnknownRun)
"""What a user can put right."""


def guarded(work: Callable[[], int], *, subject: str, as_json: bool, calls_tools: bool) -> int:
    """Do `work`; the exit code comes back. What it refuses is told.

    With `as_json`, standard output is for JSON lines alone: what tools print goes to
    standard error.
    """
    with stdout_of_our_own() if as_json and calls_tools else nullcontext():
        try:
            return work()
        except MISTAKES as error:
            refuse(subject, error, as_json=as_json)
            return BAD_INPUT
        except KeyboardInterrupt:
            tell_left(as_json=as_json)
            return INTERRUPTED


def refuse(subject: str, error: LoopfsmError, *, as_json: bool) -> None:
    """Say what is wrong, and what to do instead."""
    problems, instead = _taken_apart(error)
    if as_json:
        said = {"problems": problems, "instead": instead}
        say(json_line({"type": "refused", "exit_code": BAD_INPUT, **said}))
        return
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    done = "started" if isinstance(error, DefinitionError) else "changed"
    complain(f"{one_line(subject)}: {count}; nothing was {done}")
    for problem in problems:
        complain(f"  {clean(problem)}")
    for each in instead:
        complain(f"  {clean(each)}")


def tell_left(*, as_json: bool, run_id: str = "", says: str = "", resume: str = "") -> None:
    """Say that a command which drives nothing was interrupted."""
    if as_json:
        said = {"run_id": run_id, "resumable": bool(resume), "resume": resume, "reason": says}
        say(json_line({"type": "interrupted", "exit_code": INTERRUPTED, **said}))
    else:
        complain(f"interrupted{f': {says}' if says else ''}")


def _taken_apart(error: LoopfsmError) -> tuple[tuple[Problem, ...], Sequence[str]]:
    """The problems that an error tells of, and what can be done."""
    match error:
        case PlanError():
            return error.problems, ()
        case AnswerRefused():
            return (Problem("", error.problem),), error.allowed
        case JournalRefused():
            problem = Problem("", f"journal {error.path!r}: {error.problem}")
            return (problem,), (error.instead,)
        case RunChanged():
            return error.problems, (error.instead,)
        case DriveRefused():
            return (Problem("", error.problem),), (error.instead,)
    return (Problem("", str(error)),), ()
