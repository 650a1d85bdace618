"""A child process with everything it starts, and its output.

A program is never alone: what it starts belongs to its group, and the group is ended as a
whole, SIGTERM first, SIGKILL after a short grace. Only a process that moves into another
session on purpose escapes.

The pipes are read by callbacks of the event loop, so that neither a silent program nor a
flood of output holds anything up: at most the cap stays in memory, everything goes to a
file as soon as there is more. The end of the program is told by a pidfd (where there is
none, by a daemon thread), not by the end of its output, because a grandchild may hold the
pipes open for as long as it likes.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import IO

CHUNK = 65536
"""Bytes per read."""

DRAINED = 1 << 20
"""Bytes read at most once nobody is left in the group: more than a pipe can hold."""

TAIL = 4096
"""Bytes kept of the end of an output, for its last line."""

REAP_S = 5.0
"""Seconds that the kernel may need to end the program after SIGKILL."""

VANISH_S = 0.5
"""Seconds that the rest of the group may need."""


class Output:
    """One pipe: its head in memory, all of it in a file once there is more than `cap` bytes."""

    def __init__(self, pipe: IO[bytes], cap: int, new_file: Callable[[], IO[bytes]]) -> None:
        self.pipe = pipe
        self.cap = cap
        self.path: str | None = None
        """The file that holds all of the output, when there is one."""
        self.file_problem = ""
        self.ended = asyncio.Event()
        self._new_file = new_file
        self._file: IO[bytes] | None = None
        self._head = bytearray()
        self._tail = b""
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    def _read(self) -> int:
        """Take what is there, at most one chunk; 0: nothing, now or for ever."""
        try:
            data = os.read(self.pipe.fileno(), CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
            return 0
        room = self.cap - len(self._head)
        if len(data) > room or self.path:
            self._spill(data)
        self._head += data[: max(0, room)]
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]
        return len(data)

    def _spill(self, data: bytes) -> None:
        try:
            if self._file is None and not self.file_problem:
                self._file = self._new_file()
                self.path = self._file.name
                self._file.write(self._head)
            if self._file is not None:
                self._file.write(data)
        except OSError as error:  # a full disk must not stop the program: the rest is lost
            self._give_up_file(error)

    def drain(self) -> None:
        """Take what is left in the pipe, without waiting for its end."""
        taken = 0
        while not self.ended.is_set() and taken < DRAINED:
            count = self._read()
            if count == 0:
                break
            taken += count
        self.close()

    def close(self) -> None:
        """Read no more."""
        if not self.pipe.closed:
            with suppress(RuntimeError):  # the event loop is closed: it watches nothing
                self._loop.remove_reader(self.pipe.fileno())
            self.pipe.close()
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self._give_up_file(error)
        self._file = None
        self.ended.set()

    def _give_up_file(self, error: OSError) -> None:
        self.file_problem = str(error)
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._file = None

    @property
    def text(self) -> str:
        """The head; a character cut by the cap is left out."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        whole = self.path is None and not self.file_problem
        return decoder.decode(bytes(self._head), final=whole)

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


class Group:
    """A started program and everything it started; the program leads the group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # not Linux, an old kernel, a strict sandbox
            threading.Thread(target=self._wait, daemon=True, name="loopfsm-child").start()
        else:
            self._loop.add_reader(pidfd, self._reap, pidfd)

    def _reap(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self.process.wait()  # it has ended: this only collects it
        self.exited.set()

    def _wait(self) -> None:
        self.process.wait()
        with suppress(RuntimeError):  # the event loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self.exited.set)

    def send(self, number: int) -> bool:
        """Signal every process of the group; False when there is none that we may signal."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def gone(self, limit_s: float) -> None:
        """Return when nothing of the group is left, at the latest after `limit_s` seconds."""
        until = self._loop.time() + limit_s
        await within(limit_s, self.exited.wait())
        pause = 0.0005
        while self._somebody_left() and self._loop.time() < until:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _somebody_left(self) -> bool:
        if not self.exited.is_set():
            return self.send(0)
        # Orphans become children of process 1, which may be this very process (a container);
        # nobody else would collect them.
        with suppress(ChildProcessError):
            while os.waitpid(-self.process.pid, os.WNOHANG)[0]:
                pass
        return self.send(0) and _has_living_member(self.process.pid)

    async def end(self, grace_s: float) -> None:
        """End the group: SIGTERM, `grace_s` to comply, SIGKILL.

        Cancelled, it goes on without the rest of the grace, and then raises.
        """
        if self.exited.is_set() and not self._somebody_left():
            return
        cancelled: asyncio.CancelledError | None = None
        try:
            if self.send(signal.SIGTERM):
                await self.gone(grace_s)
        except asyncio.CancelledError as error:
            cancelled = error
        finally:
            self.send(signal.SIGKILL)
        await within(REAP_S, self.exited.wait())
        await self.gone(VANISH_S)
        if cancelled is not None:
            raise cancelled


def _has_living_member(group: int) -> bool:
    """Whether a process of the group is more than dead and not collected; if unknown, True.

    `killpg` cannot tell, and a container's process 1 may never collect an orphan.
    """
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # not Linux
        return True
    for number in numbers:
        try:
            if os.getpgid(number) != group:
                continue
            with open(f"/proc/{number}/stat", "rb") as stat:
                state = stat.read().rpartition(b")")[2].split()[0]
        except OSError:  # it has just gone
            continue
        if state not in (b"Z", b"X"):
            return True
    return False


async def within(limit_s: float, work: Awaitable[object]) -> None:
    """Wait for `work`, at most `limit_s` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await work
