"""Which process this is, and whether another one is still alive."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

from loopfsm.model.record import Holder
from loopfsm.processes import asked, started


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
    return f"{boot or asked('sysctl', '-n', 'kern.bootsessionuuid')}/{namespace}"
