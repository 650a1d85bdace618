"""Doing something on an event loop that another thread runs, and waiting until it is done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future

LOOK_AGAIN_S = 0.2
"""Real seconds after which the caller looks whether the event loop is still there."""


def call_in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    """Do `work` on `loop` and wait for it; here, when that loop was closed meanwhile.

    What `work` raises is raised here.
    """
    done: Future[None] = Future()

    def there() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            work()
            done.set_result(None)
        except BaseException as error:  # raised again where it was asked for
            done.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed already
        loop.call_soon_threadsafe(there)
    while True:
        try:
            return done.result(timeout=LOOK_AGAIN_S)
        except TimeoutError:
            if done.done():
                raise  # it was the work that raised it
            if loop.is_closed() and done.cancel():
                return work()
