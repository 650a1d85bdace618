"""Which process this is, and whether another one is still alive."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

from loopfsm.model.record import Holder


def this_process() -> Holder:
    """The process that runs this."""
    pid = os.getpid()
    return Holder(host=socket.gethostname(), boot=_boot(), pid=pid, started=started(pid) or "")


def is_gone(holder: Holder) -> bool | None:
    """Whether a process has ended; None when nobody can tell from here (another host)."""
    boot, _, namespace = holder.boot.partition("/")
    here, _, ours = _boot().partition("/")
    if boot and boot == here:
        # The same boot is the same machine, by whatever name it goes in its network. The
        # processes of another namespace (a container) cannot be seen from here.
        return None if namespace != ours else started(holder.pid) != holder.started
    if holder.host != socket.gethostname():
        return None
    return True if boot and here else started(holder.pid) != holder.started


def local_time(at: float) -> str:
    """A moment, in the time of this machine, to the second."""
    return datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")


@cache
def _boot() -> str:
    """The boot of this machine, and the namespace in which pids mean something."""
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{boot or _asked('sysctl', '-n', 'kern.bootsessionuuid')}/{namespace}"


def started(pid: int) -> str | None:
    """When a process started, in the host's own words; None when there is no such process.

    A process that has ended and was not waited for yet counts as gone.
    """
    if not Path("/proc/self/stat").exists():
        return _asked("ps", "-o", "lstart=", "-p", str(pid)) or None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    state, begun = fields[0], fields[19]
    return None if state in ("Z", "X") else begun


def _asked(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
