"""The two streams of the command, and what happens when nothing can be written to them.

The run matters more than its report. When standard output fails (a full disk, a closed
stream), one line on standard error says so, the rest of the output is dropped, the run goes
on, and the command ends with 1 where it would have ended with 0. A reader that has left
(`| head`) has read enough: that is no failure, and there is no complaint.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO


class _Own:
    """What this command writes to."""

    process: bool = False
    """The whole process is this command; otherwise some program has called `main`."""
    is_apart: bool = False
    """`sys.stdout` is that of the tools now."""
    stdout: TextIO | None = None
    """While it is: the real standard output; None when that is closed."""
    is_dead: bool = False
    """Nothing more is written to standard output."""
    has_lost: bool = False
    """Something that was to be read by somebody was not written."""


def prepare_streams(*, own_process: bool) -> None:
    """A character that the terminal's encoding lacks is shown escaped, never a traceback."""
    _Own.process, _Own.is_apart, _Own.stdout = own_process, False, None
    _Own.is_dead = _Own.has_lost = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Print a line now. When that cannot be done, go on."""
    _write(f"{line}\n")


def somebody_reads() -> bool:
    """Whether what is said can still reach anybody."""
    return not _Own.is_dead


def output_was_lost() -> bool:
    """Write what is still held back; whether something could not be written."""
    _write("")
    return _Own.has_lost


def complain(line: str) -> None:
    """Print a line to the error stream, if that can be done; never raises."""
    if sys.stderr is None:  # `print` would take standard output instead
        return
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _to_nowhere(sys.stderr)


@contextmanager
def stdout_of_our_own() -> Iterator[None]:
    """What anybody else prints goes to standard error; `say` alone reaches standard output.

    In a process of our own that holds for the programs that tools start, too, and until its
    end: a thread of a tool that was given up may print even after the last line.
    """
    private = _private() if _Own.process else None
    _Own.is_apart, _Own.stdout = True, private or sys.stdout
    if private is not None:
        sys.stdout = sys.stderr
        yield
        return
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _Own.is_apart, _Own.stdout = False, None


def _private() -> TextIO | None:
    """A stream to what is file descriptor 1 now, which becomes standard error; None: impossible."""
    real = sys.stdout
    try:
        if real is None or sys.stderr is None or real.fileno() != 1:
            return None
        real.flush()
        private = os.fdopen(os.dup(1), "w", encoding=real.encoding, errors=real.errors)
        os.dup2(sys.stderr.fileno(), 1)
    except (OSError, ValueError):
        return None
    return private


def _write(text: str) -> None:
    out = _Own.stdout if _Own.is_apart else sys.stdout
    if _Own.is_dead:
        return
    try:
        if out is None:
            if not text:
                return
            raise ValueError("it is closed")
        out.write(text)
        out.flush()
    except BrokenPipeError:
        _Own.is_dead = True
    except (OSError, ValueError) as error:
        _Own.is_dead = _Own.has_lost = True
        why = getattr(error, "strerror", None) or str(error)
        complain(f"standard output cannot be written: {why}; the rest of the output is lost")
    if _Own.is_dead:
        _to_nowhere(out)


def _to_nowhere(stream: TextIO | None) -> None:
    """What the stream still holds must not fail once more when the interpreter ends."""
    with suppress(OSError, ValueError):
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, stream.fileno())
            finally:
                os.close(nowhere)
