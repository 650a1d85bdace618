"""Where a process dies, and what kills it there: a journal that counts commits, counted tools."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from attrs import define, frozen

from loopfsm.errors import ToolFailed
from loopfsm.model.event import Unit
from loopfsm.model.loop_state import RunState
from loopfsm.model.step import EMPTY
from loopfsm.ports import Journal, Lease, Tool, ToolContext

BEFORE, AFTER, DURING = "before", "after", "during"


@frozen(order=True)
class Kill:
    """Die right before or after the commit of that number, or during that call of a tool.

    Commits and calls are those of one process, and count from 1.
    """

    where: str
    number: int

    def __str__(self) -> str:
        return f"{self.where}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Kill:
        """What `str` wrote; `ValueError` for anything else."""
        where, _, number = text.partition(":")
        if where not in (BEFORE, AFTER, DURING):
            raise ValueError(f"found {text!r}, expected {BEFORE}:N, {AFTER}:N or {DURING}:N")
        return cls(where, int(number))


@define
class Killer:
    """Kills this very process when it comes to the place where it is to die."""

    kill: Kill | None = None
    commits: int = 0
    calls: int = 0

    def at(self, where: str, number: int) -> None:
        """This place is reached."""
        if self.kill == Kill(where, number):
            os.kill(os.getpid(), signal.SIGKILL)


# The journal


class KilledJournal:
    """A journal that delegates everything, and counts the commits of this process."""

    def __init__(self, journal: Journal, killer: Killer) -> None:
        self._journal = journal
        self._killer = killer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def acquire(
        self, run_id: str, now: float, lease_s: float, rows: Mapping[str, str] = EMPTY
    ) -> Lease:
        """A lease whose commits are counted."""
        lease = self._journal.acquire(run_id, now, lease_s, rows)
        return cast(Lease, KilledLease(lease, self._killer))


class KilledLease:
    """A lease that delegates everything, and dies before or after a commit."""

    def __init__(self, lease: Lease, killer: Killer) -> None:
        self._lease = lease
        self._killer = killer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lease, name)

    def append(
        self,
        units: Iterable[Unit],
        after: RunState,
        now: float,
        replies: Mapping[str, str] = EMPTY,
    ) -> None:
        """Commit, unless this process dies first."""
        self._killer.commits += 1
        self._killer.at(BEFORE, self._killer.commits)
        self._lease.append(units, after, now, replies)
        self._killer.at(AFTER, self._killer.commits)


# The tools


@frozen
class Calls:
    """A file outside the run that tells every call: it grows by whole lines, and never shrinks."""

    path: Path

    def note(self, what: str, tool: str, context: ToolContext) -> None:
        """Append one line; no other process can come between its beginning and its end."""
        line = f"{what} {tool} {context.step_id} {context.attempt}\n"
        descriptor = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def counted(self, what: str) -> Counter[tuple[str, str]]:
        """How often something is noted, by tool and step."""
        if not self.path.exists():
            return Counter()
        lines = map(str.split, self.path.read_text(encoding="utf-8").splitlines())
        return Counter((tool, step) for noted, tool, step, _ in lines if noted == what)


CALLED, REPORTED = "called", "reported"


@define(eq=False)
class CountedTool:
    """A tool whose calls are counted outside the run, and during which the process may die."""

    tool: Tool
    calls: Calls
    killer: Killer

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def timeout_s(self) -> float | None:
        return self.tool.timeout_s

    @property
    def read_only(self) -> bool:
        return self.tool.read_only

    @property
    def idempotent(self) -> bool:
        return self.tool.idempotent

    @property
    def returns(self) -> Any:
        """The type that the tool says it returns."""
        return getattr(self.tool, "returns", Any)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Count the call, make it, and die if this is the one."""
        self.killer.calls += 1
        number = self.killer.calls
        self.calls.note(CALLED, self.name, context)
        try:
            return await self.tool.call(args, context)
        except ToolFailed:
            self.calls.note(REPORTED, self.name, context)
            raise
        finally:
            self.killer.at(DURING, number)
