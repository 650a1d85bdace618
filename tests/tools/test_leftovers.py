"""Programs that have outlived their driver are found and ended; those of a living one are not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopfsm.testing import tool_context
from loopfsm.tools.leftovers import DRIVER, RUN, end_left_over, groups_left_over, marks

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"


def started(
    run_id: str, driver: int, code: str = "print(1, flush=True)"
) -> subprocess.Popen[bytes]:
    """A program of a run that reads until its input ends, and leads a group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={RUN: run_id, DRIVER: str(driver)},
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()  # it runs, with its own environment
    return process


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What a test starts; nothing of it is left."""
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def test_a_program_whose_driver_is_another_process_is_left_over(
    programs: list[subprocess.Popen[bytes]],
) -> None:
    """Its parent is not the driver that its environment names: that one is gone."""
    programs.append(started("R1", driver=2**22 + 1))
    assert frozenset({programs[0].pid}) == groups_left_over("R1")


def test_a_program_of_a_living_driver_is_not(programs: list[subprocess.Popen[bytes]]) -> None:
    """This process started it, and is still there."""
    programs.append(started("R1", driver=os.getpid()))
    assert frozenset() == groups_left_over("R1")


def test_programs_of_other_runs_are_not_touched(programs: list[subprocess.Popen[bytes]]) -> None:
    """The whole name of the run decides."""
    programs.append(started("R11", driver=2**22 + 1))
    assert 0 == asyncio.run(end_left_over("R1"))
    assert programs[0].poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("code", ["print(1, flush=True)", DEAF])
def test_what_is_left_over_is_ended(code: str, programs: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM, and SIGKILL for what ignores it; nothing of it runs afterwards."""
    programs.append(started("R2", driver=2**22 + 1, code=code))
    assert 1 == asyncio.run(end_left_over("R2"))
    assert 0 > programs[0].wait(timeout=10)
    assert frozenset() == groups_left_over("R2")


def test_a_program_knows_its_attempt() -> None:
    """Run, step, attempt and idempotency key stand in its environment."""
    expected = {
        "LOOPFSM_RUN": "run",
        "LOOPFSM_STEP": "step",
        "LOOPFSM_ATTEMPT": "1",
        "LOOPFSM_IDEMPOTENCY_KEY": "run/step/0",
        "LOOPFSM_DRIVER": str(os.getpid()),
    }
    assert expected == dict(marks(tool_context()))
