"""What can be seen of another process of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path


def started(pid: int) -> str | None:
    """When a process started, in the host's own words; None when there is no such process.

    A process that has ended and was not waited for yet counts as gone.
    """
    if not Path("/proc/self/stat").exists():
        return asked("ps", "-o", "lstart=", "-p", str(pid)) or None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    state, begun = fields[0], fields[19]
    return None if state in ("Z", "X") else begun


def asked(*argv: str) -> str:
    """What a program of the system says; empty when it says nothing."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
