"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from attrs import define, field

from loopfsm.tools.python import SHARED

QUIET_PASSES = 50
"""Passes of the event loop without other work, after which nothing more is coming."""

LOOK_AGAIN_S = 0.001
"""Real seconds between two looks at a thread that is still at work."""


@define(order=False, eq=False)
class FakeTimer:
    """A callback that waits for its moment."""

    due: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """Forget the callback; harmless when it already ran."""
        self.cancelled = True


@define(eq=False)
class FakeClock:
    """A `Clock` whose time moves only by `advance`.

    With `auto=True` waiting costs nothing: after `call_later` the clock watches the event
    loop and, once nothing else has been ready for `QUIET_PASSES` passes, jumps to the
    earliest timer; and so on until no timer is pending. A tool at work on the event loop, or
    in the library's shared threads, holds the clock back, so that its timeout does not jump
    ahead of it. What the clock cannot see is real I/O: a timer ends the wait for a socket, a
    child process or a thread of somebody else at once. Advance by hand in such a test.
    """

    start: float = 0.0
    auto: bool = field(default=False, kw_only=True)
    _now: float = field(init=False)
    _timers: list[tuple[float, int, FakeTimer]] = field(init=False, factory=list)
    _order: itertools.count[int] = field(init=False, factory=itertools.count)
    _watching: asyncio.AbstractEventLoop | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._now = self.start

    def now(self) -> float:
        """Seconds, from `start`."""
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        """Run `callback` when time has been advanced by `delay_s`."""
        timer = FakeTimer(self._now + max(0.0, delay_s), callback)
        heapq.heappush(self._timers, (timer.due, next(self._order), timer))
        if self.auto:
            self._watch()
        return timer

    @property
    def next_due(self) -> float | None:
        """The moment of the earliest pending timer."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    @property
    def pending(self) -> int:
        """How many timers wait."""
        return sum(not timer.cancelled for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Move time on, running each due callback at its own moment, earliest first.

        Callbacks of the same moment run in the order in which they were asked for. One that
        sets a timer within the span has that timer run too.
        """
        if seconds < 0:
            raise ValueError(f"time does not go back: advance({seconds!r})")
        target = self._now + seconds
        while (due := self.next_due) is not None and due <= target:
            _, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            timer.callback()
        self._now = max(self._now, target)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._watching is not loop:  # a loop that was closed meanwhile watches no more
            self._watching = loop
            loop.call_soon(self._look, loop, QUIET_PASSES)

    def _look(self, loop: asyncio.AbstractEventLoop, passes: int) -> None:
        if self.next_due is None:
            self._watching = None
        elif SHARED.awaited:
            loop.call_later(LOOK_AGAIN_S, self._look, loop, QUIET_PASSES)
        elif getattr(loop, "_ready", ()):  # asyncio has no public way to see other work
            loop.call_soon(self._look, loop, QUIET_PASSES)
        elif passes:
            loop.call_soon(self._look, loop, passes - 1)
        else:
            loop.call_soon(self._look, loop, QUIET_PASSES)  # first: a callback may raise
            self.advance(max(0.0, self.next_due - self._now))
