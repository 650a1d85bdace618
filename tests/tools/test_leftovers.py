"""Programs that have outlived their driver are found and ended; what is on purpose goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopfsm.processes import started
from loopfsm.testing import tool_context
from loopfsm.tools.leftovers import RUNNING, end_left_over, marks, noted
from loopfsm.tools.shell import ShellTool

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What a test starts; nothing of it is left."""
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def program(code: str = "") -> subprocess.Popen[bytes]:
    """One that reads until its input ends, and leads a group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nprint(1, flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def left(output_dir: Path, pid: int, begun: str | None) -> Path:
    """The note of a program whose driver was killed."""
    note = output_dir / RUNNING / str(pid)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(begun or "", encoding="utf-8")
    return note


@pytest.mark.slow
@pytest.mark.parametrize("code", ["", DEAF])
def test_what_is_left_over_is_ended(
    code: str, tmp_path: Path, programs: list[subprocess.Popen[bytes]]
) -> None:
    """SIGTERM, and SIGKILL for what ignores it; the note goes, too."""
    programs.append(program(code))
    note = left(tmp_path, programs[0].pid, started(programs[0].pid))
    assert 1 == asyncio.run(end_left_over(tmp_path))
    assert 0 > programs[0].wait(timeout=10)
    assert not note.exists()


def test_a_pid_that_is_somebody_elses_now_is_not_touched(
    tmp_path: Path, programs: list[subprocess.Popen[bytes]]
) -> None:
    """It started at another moment than the note says."""
    programs.append(program())
    left(tmp_path, programs[0].pid, "1")
    left(tmp_path, 2**22 + 1, "1")
    (tmp_path / RUNNING / "no pid").touch()
    assert 0 == asyncio.run(end_left_over(tmp_path))
    assert programs[0].poll() is None


def test_a_service_that_a_step_has_started_goes_on(
    tmp_path: Path, programs: list[subprocess.Popen[bytes]]
) -> None:
    """A session of its own is no part of the program's group."""
    programs += [program(), program()]
    left(tmp_path, programs[0].pid, started(programs[0].pid))
    assert 1 == asyncio.run(end_left_over(tmp_path))
    assert programs[1].poll() is None


def test_a_program_is_on_record_while_it_runs(tmp_path: Path) -> None:
    """Its note can be read by whoever takes the run up, and is gone when it has ended."""
    kept = tmp_path / "files" / "of-run"
    kept.parent.mkdir()
    wait = f"until [ -e {kept / RUNNING}/$$ ]; do sleep 0.01; done"
    used = ShellTool(command=f"{wait}; ls {kept / RUNNING}; echo $$", timeout_s=20)
    context = tool_context(output_dir=kept)
    result = asyncio.run(used.call({}, context))
    noted_pid, own_pid = result["stdout"].split()
    assert own_pid == noted_pid
    assert [] == list((kept / RUNNING).iterdir())


def test_without_a_journal_nothing_is_noted() -> None:
    """The run ends with this process."""
    with noted(None, 1):
        pass
    assert 0 == asyncio.run(end_left_over(None))


def test_a_program_knows_its_attempt() -> None:
    """Run, step, attempt and idempotency key stand in its environment."""
    expected = {
        "LOOPFSM_RUN": "run",
        "LOOPFSM_STEP": "step",
        "LOOPFSM_ATTEMPT": "1",
        "LOOPFSM_IDEMPOTENCY_KEY": "run/step/0",
    }
    assert expected == dict(marks(tool_context()))
