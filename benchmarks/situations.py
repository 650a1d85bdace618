"""What it costs to classify a result, on results of our own making.

A result that succeeded and one that failed, against one `re.search` for a literal text in the
same words; and how the cost grows with the result, also where somebody wishes that it grew.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.figures import Figure, medians, repeated
from loopfsm.situations.classify import classify_result

SUBJECT = "situations"
SUCCESS, FAILURE, DOUBLING = 30.0, 250.0, 2.2
SIZE = 2048
"""Characters of a small result."""
SMALLEST, LARGEST = 1 << 20, 16 << 20
"""Characters of a large one, doubled from the one to the other."""
LITERAL = "Permission denied"
"""What is searched for, and is in none of the texts."""

SENTENCES = (
    "2024-05-01T10:00:00Z INFO  worker 3 took job 8812 from the queue in 12 ms",
    "src/model/order.py:118: note: the total is computed once per order, see docs/orders.md",
    "Compiling crate_a v0.3.1 (/home/somebody/work/crate_a)",
    '{"id": 4411, "name": "north wing", "rooms": [101, 102, 103], "open": true}',
    "downloaded 34 of 120 packages; the cache holds 2.1 GB; 3 were up to date",
    "The reader opens the archive, skips its header and returns the entries in order.",
)
ENDS: Mapping[str, str] = {
    "unknown reason": "worker: assertion `left == right` did not hold, left: 3, right: 4",
    "missing file": "cat: notes/2024.txt: No such file or directory",
    "no network": "fatal: unable to access 'https://git.example/': Could not resolve host",
    "usage": "error: unexpected argument '--frobnicate' found",
}
"""The last line of failing outputs."""

ADVERSARIAL: Mapping[str, Callable[[int], str]] = {
    "spaces": lambda size: " " * size,
    "blank lines": lambda size: "\n" * size,
    "brackets": lambda size: "[" * size,
    "open objects": lambda size: '{"error":' * (size // 9),
    "almost matches": lambda size: (
        "could not resolve hos permission denie command not foun " * (size // 56)
    ),
    "digits": lambda size: "4" * size,
    "one word": lambda size: "a" * size,
    "quotes": lambda size: "'\"`" * (size // 3),
    "paths": lambda size: "/a" * (size // 2),
    "errors": lambda size: "error: " * (size // 7),
}
"""Texts in which a careless pattern starts over and over again."""


def prose(size: int, end: str = "") -> str:
    """`size` characters of ordinary output."""
    lines = "\n".join(SENTENCES) + "\n"
    return (lines * (size // len(lines) + 1))[: size - len(end)] + end


def ran(text: str, code: int) -> dict[str, Any]:
    """The result of a program."""
    return {
        "status": "success" if code == 0 else "error",
        "command": "make all",
        "stdout": text if code == 0 else "",
        "stderr": text if code else "",
        "return_code": code,
        "has_errors": code != 0,
        "duration_seconds": 1.5,
    }


def successes(size: int) -> Mapping[str, Any]:
    """Results that succeeded, of several shapes."""
    text = prose(size)
    return {
        "program": ran(text, 0),
        "file": {"status": "success", "file_path": "notes.md", "content": text, "line_count": 30},
        "page": {"status_code": 200, "url": "https://x.example/", "body": text},
        "text": text,
        "protocol": {"content": [{"type": "text", "text": text}], "isError": False},
        "list": text.splitlines(),
    }


def failures(size: int) -> Mapping[str, Any]:
    """Results that failed, of several shapes and for several reasons."""
    programs = {f"program, {why}": ran(prose(size, end), 1) for why, end in ENDS.items()}
    text = prose(size)
    return programs | {
        "page": {"status_code": 500, "url": "https://x.example/", "body": text},
        "protocol": {"content": [{"type": "text", "text": text}], "isError": True},
        "message": {"status": "error", "error": text},
    }


def measure(*, quick: bool) -> Iterator[Figure]:
    """Cost of small results, then growth."""
    yield from _small(quick=quick)
    yield from _growth(quick=quick)


def _small(*, quick: bool) -> Iterator[Figure]:
    rounds, times = (1, 3) if quick else (7, 200)
    text = prose(SIZE)
    works: dict[str, Callable[[], float]] = {
        "search": repeated(lambda: re.search(LITERAL, text), 10 * times)
    }
    groups = {"succeeded": successes(SIZE), "failed": failures(SIZE)}
    for group, results in groups.items():
        for name, result in results.items():
            works[f"{group}: {name}"] = repeated(_classifying(result), times)
    took = medians(works, rounds, collecting=False)
    yield Figure(SUBJECT, f"re.search, {SIZE} characters", took["search"] * 1e6, "us")
    for group, target in (("succeeded", SUCCESS), ("failed", FAILURE)):
        ratios = {
            name: value / took["search"] for name, value in took.items() if name.startswith(group)
        }
        worst = max(ratios, key=lambda name: ratios[name])
        yield Figure(SUBJECT, f"  {group}, median of shapes", median(ratios.values()), "x", target)
        yield Figure(SUBJECT, f"  slowest ({worst})", ratios[worst], "x")


def _classifying(result: Any) -> Callable[[], object]:
    return lambda: classify_result("run", {"command": "make all"}, result)


def _growth(*, quick: bool) -> Iterator[Figure]:
    """The worst doubling of each text, and what the largest one costs."""
    largest = 2 * SMALLEST if quick else LARGEST
    for group, code in (("succeeded", 0), ("failed", 1)):
        doublings: dict[str, float] = {}
        slowest: dict[str, float] = {}
        for name, text in {"prose": prose, **ADVERSARIAL}.items():
            took = _took(text, code, largest, quick=quick)
            doublings[name] = max(after / before for before, after in pairwise(took))
            slowest[name] = max(took)
        worst = max(doublings, key=lambda name: doublings[name])
        longest = max(slowest, key=lambda name: slowest[name])
        megabytes = largest >> 20
        yield Figure(
            SUBJECT, f"{group}, doubled to {megabytes} MB: {worst}", doublings[worst], "x", DOUBLING
        )
        yield Figure(SUBJECT, f"  slowest: {longest}", slowest[longest] * 1e3, "ms")


def _took(text: Callable[[int], str], code: int, largest: int, *, quick: bool) -> list[float]:
    """Seconds for a text of each size, from the smallest to the largest."""
    sizes = [SMALLEST]
    while sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    works = {}
    for size in sizes:
        work = _classifying(ran(text(size), code))
        started = time.perf_counter()
        work()
        once = time.perf_counter() - started
        # long enough to be measured, short enough to be waited for
        works[str(size)] = repeated(work, 1 if quick else max(1, min(100, int(0.02 / once))))
    took = medians(works, 1 if quick else 5, collecting=False)
    return [took[str(size)] for size in sizes]
