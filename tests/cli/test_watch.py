"""`loopfsm watch`: follows a run that somebody drives, and says how it was left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from loopfsm.engine.loop import Loop
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.plan import Plan
from loopfsm.model.record import Origin
from loopfsm.model.step import StepSpec
from loopfsm.tools.registry import tool
from tests.cli.plans import Terminal, started


def test_a_run_that_rests_is_told_from_its_beginning(terminal: Terminal) -> None:
    """The progress as it was, the summary, the code of the outcome."""
    told = terminal.do("run", terminal.plan())[1]
    code, shown, _ = terminal.do("watch", "last")
    assert (3, told) == (code, shown)


def left(journal: Path, origin: Origin) -> None:
    """A run that its driver has left between two steps."""
    made = SqliteJournal(journal)

    @tool
    async def stops() -> None:
        loop.stop()

    steps = [StepSpec(id="a", tool="stops"), StepSpec(id="b", tool="stops", needs=("a",))]
    plan = Plan(goal="g", steps=steps)
    loop = Loop(plan, tools=[stops], journal=made, run_id="left", origin=origin)
    asyncio.run(loop.run())
    made.close()


def test_a_run_that_was_left_is_told_as_such(terminal: Terminal, journal: Path) -> None:
    """Nobody drives it and it is not at its end: 130, and the command that goes on."""
    left(journal, Origin(path="plan.toml", directory="/", text="a plan"))
    code, shown, _ = terminal.do("watch", "left")
    assert (130, "nobody drives it; go on with: loopfsm resume left") == (
        code,
        shown.splitlines()[-1],
    )
    last = terminal.json("watch", "left")[1][-1]
    assert ("interrupted", "loopfsm resume left") == (last["type"], last["resume"])


def test_show_and_runs_tell_that_a_run_was_left(terminal: Terminal, journal: Path) -> None:
    """As `watch` does: nobody drives it, and what goes on with it. One that waits is not left."""
    left(journal, Origin(path="plan.toml", directory="/", text="a plan"))
    told = "nobody drives it; go on with: loopfsm resume left"
    assert told == terminal.do("show", "left")[1].splitlines()[-1]
    waiting = terminal.parked()
    assert "nobody drives it" not in terminal.do("show", waiting)[1]
    first, second = terminal.do("runs")[1].splitlines()
    assert "  EXECUTING, nobody drives it  " in first
    assert "nobody drives it" not in second


def test_a_left_run_of_a_program_is_no_command(terminal: Terminal, journal: Path) -> None:
    """`resume` would be refused: only the program can go on."""
    left(journal, Origin())
    for command in ("show", "watch"):
        last = terminal.do(command, "left")[1].splitlines()[-1]
        assert last.endswith("the program that began the run can go on with it: `Loop.resume`")


def test_who_stops_watching_stops_nothing_else(
    terminal: Terminal, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the watching with 130, and the run is as it was."""
    run_id = terminal.parked()
    driver = SqliteJournal(journal)
    lease = driver.acquire(run_id, 1e9, 30.0)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("loopfsm.cli.watch.time.sleep", interrupted)
    code, _, complaint = terminal.do("watch", run_id)
    assert (130, "interrupted: nobody watches now; the run goes on as it was\n") == (
        code,
        complaint,
    )
    lease.release(1e9)
    driver.close()


@pytest.mark.slow
def test_a_run_is_followed_while_it_is_driven(terminal: Terminal, tmp_path: Path) -> None:
    """Events come while the driver works; when it ends, so does the watching, with its code."""
    plan = terminal.plan(
        'goal = "g"\n[[steps]]\nid = "a"\ntool = "shell"\n'
        'args = { command = "until test -e enough; do sleep 0.05; done" }\n'
    )
    with started("run", plan) as run:
        assert run.stdout is not None
        run.stdout.readline()
        while "RUNNING" not in run.stdout.readline():
            pass
        with started("watch", "last") as watch:
            assert watch.stdout is not None
            while "RUNNING" not in watch.stdout.readline():
                pass
            (tmp_path / "enough").touch()
            shown, _ = watch.communicate(timeout=30)
        run.communicate(timeout=30)
    assert (0, 0) == (run.returncode, watch.returncode)
    assert "COMPLETED  [g]" == shown.splitlines()[-1]
