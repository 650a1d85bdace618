"""What durability costs: syncs and time per step, commits of many at once, and reopening.

Measured on the disk that holds the temporary directory; the raw commits that a durable step is
compared with write as many bytes, to the same disk, in turns with it.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from statistics import median

from attrs import evolve

from benchmarks.figures import Figure, medians
from benchmarks.growth import nothing
from benchmarks.plans import apart, chain
from loopfsm.engine.loop import Loop
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.journals.sqlite.schema import CHECKPOINT_PAGES
from loopfsm.model.plan import Plan, Policy
from loopfsm.tools.registry import tool

SUBJECT = "durable"
ROOT = Path(__file__).resolve().parents[1]
SYNCS, CHAIN, TOGETHER, REOPEN = 1.0, 1.5, 5.0, 5.0
"""Targets: syncs per step; times a raw commit; commits of 500 at once; times reading raw."""


def begun(directory: Path, plan: Plan, name: str) -> tuple[SqliteJournal, Loop]:
    """A run in a new journal with the default durability, that nobody has driven yet."""
    journal = SqliteJournal(directory / f"{name}.db")
    return journal, Loop(plan, tools=[nothing], journal=journal, run_id="run")


# Syncs, counted by the system


def drive_chain(directory: Path, steps: int) -> None:
    """Run a chain durably, in a process of its own that somebody traces."""
    journal, loop = begun(directory, chain(steps), f"chain{steps}")
    loop.run_sync()
    journal.close()


def syncs(directory: Path, steps: int) -> int:
    """How often a process that runs a chain asks the system to write to the disk."""
    log = directory / f"syncs{steps}"
    trace = ["strace", "-f", "-o", str(log), "-e", "trace=fsync,fdatasync"]
    command = [*trace, sys.executable, "-m", "benchmarks.durable", str(directory), str(steps)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    return len(re.findall(r"\bf(?:data)?sync\(", log.read_text(encoding="utf-8")))


def measure_syncs(directory: Path, steps: int) -> Iterator[Figure]:
    """The syncs that a step more costs, with the default keys of a plan."""
    if shutil.which("strace") is None:
        print("strace is not installed: syncs are not counted", file=sys.stderr)
        return
    fewer, more = syncs(directory, steps), syncs(directory, 2 * steps)
    yield Figure(SUBJECT, "syncs per step of a chain", (more - fewer) / steps, "", SYNCS)


# Time per step


def bytes_per_commit(path: Path) -> int:
    """How many bytes of text and numbers a commit of the journal wrote, on average."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT sum(length(units) + length(hash)), count(*) FROM commits"
        (written, commits), *_ = connection.execute(query).fetchall()
        steps = connection.execute("SELECT * FROM steps").fetchall()
        heads = connection.execute("SELECT * FROM heads").fetchall()
    rows = sum(len(json.dumps(row)) for row in steps) // len(steps)
    return int(written // commits) + 2 * rows + len(json.dumps(heads[0]))


class RawCommits:
    """A database with one table, and the settings of a journal: what a commit costs at least."""

    def __init__(self, path: Path, size: int) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._body = "x" * size
        self.took: list[float] = []
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        ):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE raw (number INTEGER PRIMARY KEY, body TEXT)")

    def commit(self) -> None:
        """Commit one row, and note how long it took."""
        started = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO raw (body) VALUES (?)", (self._body,))
        self._connection.execute("COMMIT")
        self.took.append(time.perf_counter() - started)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def chain_with_raw_commits(directory: Path, steps: int, size: int) -> tuple[float, float]:
    """Seconds per durable step of a chain, and per raw commit made between its steps."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        raw = RawCommits(Path(name) / "raw.db", size)

        @tool(name="nothing", idempotent=True)
        async def commits_raw(n: int) -> Mapping[str, int]:
            raw.commit()
            return {"n": n}

        journal = SqliteJournal(Path(name) / "journal.db")
        loop = Loop(chain(steps), tools=[commits_raw], journal=journal, run_id="run")
        with closing(journal), closing(raw):
            started = time.perf_counter()
            loop.run_sync()
            whole = time.perf_counter() - started
        return (whole - sum(raw.took)) / steps, sum(raw.took) / steps


def measure_chain(directory: Path, steps: int, rounds: int) -> Iterator[Figure]:
    """A step of a durable chain against a raw commit, and against the same step in memory."""
    journal, loop = begun(directory, chain(steps), "sized")
    with closing(journal):
        loop.run_sync()
    size = bytes_per_commit(directory / "sized.db")

    def in_memory() -> float:
        loop = Loop(chain(steps), tools=[nothing], run_id="run")
        started = time.perf_counter()
        loop.run_sync()
        return (time.perf_counter() - started) / steps

    took = [chain_with_raw_commits(directory, steps, size) for _ in range(rounds)]
    step, commit = median(pair[0] for pair in took), median(pair[1] for pair in took)
    ratio = median(step / commit for step, commit in took)
    yield Figure(SUBJECT, f"raw commit of {size} bytes, between steps", commit * 1e6, "us")
    yield Figure(SUBJECT, "step of a chain, durable", step * 1e6, "us")
    yield Figure(SUBJECT, "  times a raw commit", ratio, "x", CHAIN)
    memory = medians({"memory": in_memory}, rounds)["memory"]
    yield Figure(SUBJECT, "step of a chain, in memory", memory * 1e6, "us")


# Many at once


def measure_together(directory: Path, steps: int) -> Iterator[Figure]:
    """The commits that it takes to record many steps which end together."""
    gate = asyncio.Event()
    waiting = 0

    @tool(name="nothing", idempotent=True)
    async def together(n: int) -> int:
        nonlocal waiting
        waiting += 1
        if waiting == steps:
            gate.set()
        await gate.wait()
        return n

    plan = evolve(apart(steps), policy=Policy(max_parallel=steps))
    journal = SqliteJournal(directory / "together.db")
    with closing(journal):
        Loop(plan, tools=[together], journal=journal, run_id="run").run_sync()
        commits = journal.header("run").commits - 1  # the first one starts them all
    yield Figure(SUBJECT, f"commits of {steps} steps that end together", commits, "", TOGETHER)


# Reopening


def half_done(directory: Path, steps: int) -> Path:
    """The journal of a chain of which half is done."""
    path = directory / "half.db"
    done = 0

    @tool(name="nothing", idempotent=True)
    async def counted(n: int) -> Mapping[str, int]:
        nonlocal done
        done += 1
        if done == steps // 2:
            loop.stop()
        return {"n": n}

    journal = SqliteJournal(path, durability="process")
    with closing(journal):
        loop = Loop(chain(steps), tools=[counted], journal=journal, run_id="run")
        loop.run_sync()
    return path


def reading_raw(path: Path) -> float:
    """Seconds to read every column of the settled steps."""
    started = time.perf_counter()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT * FROM steps WHERE run = 1 AND state = 'VERIFIED_COMPLETED'"
        connection.execute(query).fetchall()
    return time.perf_counter() - started


def reopening(path: Path) -> float:
    """Seconds from opening the journal to the call of the next step's tool."""
    copied = path.with_name("reopened.db")
    for left in path.parent.glob("reopened.db*"):
        left.unlink()
    shutil.copy(path, copied)
    called: list[float] = []

    @tool(name="nothing", idempotent=True)
    async def first(n: int) -> None:
        called.append(time.perf_counter())
        loop.stop()

    started = time.perf_counter()
    journal = SqliteJournal(copied)
    with closing(journal):
        loop = Loop.resume("run", journal=journal, tools=[first])
        loop.run_sync()
    return called[0] - started


def measure_reopening(directory: Path, steps: int, rounds: int) -> Iterator[Figure]:
    """Taking a long run up again against reading its settled steps and doing nothing."""
    path = half_done(directory, steps)
    took = medians({"raw": lambda: reading_raw(path), "ours": lambda: reopening(path)}, rounds)
    yield Figure(SUBJECT, f"reading {steps // 2:,} settled steps raw", took["raw"] * 1e3, "ms")
    yield Figure(SUBJECT, "reopening, to the next call", took["ours"] * 1e3, "ms")
    yield Figure(SUBJECT, "  times reading raw", took["ours"] / took["raw"], "x", REOPEN)


def measure(*, quick: bool) -> Iterator[Figure]:
    """All of it, in one temporary directory."""
    rounds, steps = (1, 20) if quick else (9, 200)
    with tempfile.TemporaryDirectory(prefix="loopfsm-durable-") as name:
        directory = Path(name)
        if not quick:
            yield from measure_syncs(directory, steps)
        yield from measure_chain(directory, steps, rounds)
        yield from measure_together(directory, 20 if quick else 500)
        yield from measure_reopening(directory, 100 if quick else 10_000, rounds)


if __name__ == "__main__":
    drive_chain(Path(sys.argv[1]), int(sys.argv[2]))
