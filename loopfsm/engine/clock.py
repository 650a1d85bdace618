"""The real clock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from attrs import frozen

from loopfsm.ports import Timer

_lock = threading.Lock()
_latest = 0.0
"""The latest moment any clock of this process has told."""


@frozen
class SystemClock:
    """Wall-clock time that never goes backwards within a process.

    When the machine's clock is set back, time stands still until it has caught up; timers
    are unaffected, they run on the event loop's own monotonic time.
    """

    def now(self) -> float:
        """Seconds since the epoch."""
        global _latest  # shared by all instances, so that they agree
        with _lock:
            _latest = max(_latest, time.time())
            return _latest

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running event loop; a delay below 0 counts as 0."""
        return asyncio.get_running_loop().call_later(max(0.0, delay_s), callback)
