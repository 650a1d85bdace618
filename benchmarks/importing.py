"""What `import loopfsm` costs, against the libraries that it stands on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure, medians

SUBJECT = "import"
TARGET = 1.4
ROUNDS = 15

OURS = "loopfsm"
THEIRS = "attrs, cattrs, transitions, asyncio, sqlite3"

SCRIPT = """
from time import perf_counter
started = perf_counter()
import {names}
print(perf_counter() - started)
"""


def seconds_to_import(names: str) -> Callable[[], float]:
    """A measurement: importing `names` in an interpreter of its own, its start not counted."""

    def measured() -> float:
        command = [sys.executable, "-c", SCRIPT.format(names=names)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout)

    return measured


def measure(*, quick: bool) -> Iterator[Figure]:
    """The import of the package, and of what it builds on."""
    works = {"ours": seconds_to_import(OURS), "theirs": seconds_to_import(THEIRS)}
    for work in works.values():
        work()  # compiles what has no .pyc yet
    took = medians(works, 1 if quick else ROUNDS)
    yield Figure(SUBJECT, THEIRS, took["theirs"] * 1e3, "ms")
    yield Figure(SUBJECT, OURS, took["ours"] * 1e3, "ms")
    yield Figure(SUBJECT, "  times the former", took["ours"] / took["theirs"], "x", TARGET)
