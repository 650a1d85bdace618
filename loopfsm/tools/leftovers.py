"""Programs that outlived the process which started them.

A driver that is killed cannot end its tools: they go on, and nobody waits for them. Whoever
takes the run up ends them first, so that nothing is done twice at the same time. While a
program runs, a file beside the journal is named by its process id and says when it started;
what is still that process when the run is taken up is left over. Its group is ended, as that
of a cancelled call is; a process that has moved into a session of its own on purpose, a
service that a step has started, is not.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from loopfsm.ports import ToolContext
from loopfsm.processes import started

RUNNING = "running"
"""The directory of these files, in that of the run's outputs."""
GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL."""
LOOK_AGAIN_S = 0.02


def marks(context: ToolContext) -> Mapping[str, str]:
    """What a program finds in its environment about the attempt it works for."""
    return {
        "LOOPFSM_RUN": context.run_id,
        "LOOPFSM_STEP": context.step_id,
        "LOOPFSM_ATTEMPT": str(context.attempt),
        "LOOPFSM_IDEMPOTENCY_KEY": context.idempotency_key,
    }


@contextmanager
def noted(output_dir: Path | None, pid: int) -> Iterator[None]:
    """Keep on record that a program runs, as long as the block does."""
    if output_dir is None:  # the run ends with this process
        yield
        return
    note = output_dir / RUNNING / str(pid)
    with suppress(OSError):  # a full disk: it runs without a note, rather than not at all
        for directory in (output_dir.parent, output_dir, note.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        note.write_text(started(pid) or "", encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


async def end_left_over(output_dir: Path | None) -> int:
    """End every program on record that still runs; returns how many there were."""
    notes = [] if output_dir is None else list((output_dir / RUNNING).glob("*"))
    found = {int(note.name) for note in notes if _still_runs(note)}
    _send(found, signal.SIGTERM)
    waited, left = 0.0, found
    while left and waited < GRACE_S:
        await asyncio.sleep(LOOK_AGAIN_S)
        waited += LOOK_AGAIN_S
        left = {pid for pid in found if _has_group(pid)}
    _send(left, signal.SIGKILL)
    for note in notes:
        with suppress(OSError):
            note.unlink(missing_ok=True)
    return len(found)


def _still_runs(note: Path) -> bool:
    if not note.name.isdecimal():
        return False
    begun = started(int(note.name))
    return begun is not None and begun == note.read_text(encoding="utf-8")


def _has_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _send(groups: Iterable[int], number: int) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
