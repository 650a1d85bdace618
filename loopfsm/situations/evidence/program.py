"""Programs whose exit code 1, with nothing printed, is the answer "no match" (POSIX `grep`)."""

from __future__ import annotations

SEARCHES = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "zgrep",
        "rg",
        "ag",
        "ack",
        "findstr",
        "pgrep",
        "git-grep",
        "ripgrep",
    ]
)
