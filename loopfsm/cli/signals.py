"""Ctrl-C, SIGTERM and a terminal that is closed: the same, and in the same order every time.

`asyncio.run` raises the second Ctrl-C wherever the program happens to be, in the middle of
ending a tool, too. Here each signal waits for its turn on the event loop.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

REACHED_S = 0.1
"""Within that time, every task that was cancelled has heard of it."""
MOST_WAITING = 2
"""Signals that wait for their turn; one more, and something holds the event loop up."""


def run_interruptibly(work: Callable[[], Awaitable[T]], stop: Callable[[], None]) -> T:
    """Do as `asyncio.run` does; Ctrl-C, SIGTERM and SIGHUP end it, the more the harder.

    The first one calls `stop`, on the event loop: the work ends by itself, soon. The second
    one cancels it: the tools are asked to end, and killed when they do not. The third one
    waits no longer: the process groups of the tools are killed at once, as `asyncio.run` then
    cancels whatever is left, and the wait for a tool that ignores even that is ended.
    """
    task: asyncio.Task[Any] | None = None
    waiting = taken = 0

    async def main() -> T:
        nonlocal task
        task = asyncio.current_task()
        return await work()

    def take(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal waiting, taken
        waiting -= 1
        taken += 1
        if task is None or task.done():
            loop.call_later(REACHED_S, _interrupt)
        elif taken == 1:
            stop()
        else:
            task.cancel()
            if taken > 2:
                task.add_done_callback(lambda _: loop.call_later(REACHED_S, _interrupt))

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal waiting
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # before the work, or after it
            raise KeyboardInterrupt from None
        if waiting >= MOST_WAITING:
            raise KeyboardInterrupt
        waiting += 1
        loop.call_soon_threadsafe(take, loop)

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        numbers.append(signal.SIGINT)  # else somebody ignores it, as a shell does in a script's `&`
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)  # else somebody ignores it, as `nohup` does
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        return asyncio.run(main())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt() -> None:
    raise KeyboardInterrupt
