"""Programs that outlived the process that started them, known by what stands in their environment.

A driver that is killed cannot end its tools: they go on, without anybody who waits for them.
Whoever takes the run up ends them first, so that nothing is done twice at the same time. Each
program of a run carries the run's name and the driver's process id in its environment, as do
the programs that it starts; a group whose leader is no child of its driver any more, or whose
driver is gone, is left over. Where there is no `/proc` (macOS) nothing is found, and nothing
is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from loopfsm.ports import ToolContext

RUN, STEP, ATTEMPT = "LOOPFSM_RUN", "LOOPFSM_STEP", "LOOPFSM_ATTEMPT"
KEY, DRIVER = "LOOPFSM_IDEMPOTENCY_KEY", "LOOPFSM_DRIVER"

GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL."""
LOOK_AGAIN_S = 0.02


def marks(context: ToolContext) -> Mapping[str, str]:
    """What a program finds in its environment about the attempt it works for."""
    return {
        RUN: context.run_id,
        STEP: context.step_id,
        ATTEMPT: str(context.attempt),
        KEY: context.idempotency_key,
        DRIVER: str(os.getpid()),
    }


async def end_left_over(run_id: str) -> int:
    """End every program of the run whose driver is gone; returns how many groups there were."""
    found = groups_left_over(run_id)
    _send(found, signal.SIGTERM)
    waited = 0.0
    left = found
    while left and waited < GRACE_S:
        await asyncio.sleep(LOOK_AGAIN_S)
        waited += LOOK_AGAIN_S
        left = found & groups_left_over(run_id)
    _send(left, signal.SIGKILL)
    return len(found)


def groups_left_over(run_id: str, proc: Path = Path("/proc")) -> frozenset[int]:
    """The process groups that belong to the run and to no living driver of it."""
    groups: dict[int, int] = {}
    mark = f"{RUN}={run_id}".encode(errors="surrogateescape")
    with suppress(OSError):
        for entry in os.listdir(proc):
            if not entry.isdigit():
                continue
            with suppress(OSError, ValueError):  # it has just gone, or belongs to another user
                lines = (proc / entry / "environ").read_bytes().split(b"\0")
                if mark in lines and not _is_dead(proc / entry):
                    groups[os.getpgid(int(entry))] = _driver_in(lines)
    groups.pop(os.getpgrp(), None)
    return frozenset(group for group, driver in groups.items() if _is_left(group, driver, proc))


def _is_left(group: int, driver: int, proc: Path) -> bool:
    with suppress(OSError, ValueError):
        return _stat(proc / str(group))[1] != str(driver)  # its parent now
    return not (proc / str(driver)).exists()  # the leader itself has ended


def _is_dead(process: Path) -> bool:
    return _stat(process)[0] in ("Z", "X")


def _stat(process: Path) -> list[str]:
    """State, parent and so on of a process; its name, which may hold anything, is left out."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _driver_in(lines: list[bytes]) -> int:
    mark = f"{DRIVER}=".encode()
    return next(int(line.removeprefix(mark)) for line in lines if line.startswith(mark))


def _send(
    groups: frozenset[int], number: int, kill: Callable[[int, int], None] = os.killpg
) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            kill(group, number)
