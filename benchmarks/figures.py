"""What a benchmark brings: figures, each with its target, and the table they are printed as."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from attrs import frozen


@frozen
class Figure:
    """One number. `target`: what it may be at most; None: for information."""

    subject: str
    what: str
    value: float
    unit: str = ""
    target: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "OK" if self.value <= self.target else "MISSED"


def medians(
    works: Mapping[str, Callable[[], float]], rounds: int, *, collecting: bool = True
) -> dict[str, float]:
    """The median of what each work returns, the works taking turns in every round.

    Whatever else the machine is doing hits all of them alike, so that their ratios stand.
    `collecting=False` switches the garbage collector off meanwhile.
    """
    measured: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            gc.collect()
            if not collecting:
                gc.disable()
            try:
                measured[name].append(work())
            finally:
                gc.enable()
    return {name: median(values) for name, values in measured.items()}


def repeated(work: Callable[[], object], times: int) -> Callable[[], float]:
    """A measurement: seconds for one `work()`, of `times` in a row."""

    def measured() -> float:
        started = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - started) / times

    return measured


HEADER = ("subject", "figure", "value", "target", "")


def table(figures: Iterable[Figure]) -> str:
    """The figures in columns, the target beside each value."""
    rows: list[Sequence[str]] = [HEADER]
    for each in figures:
        target = "" if each.target is None else f"<= {_number(each.target)} {each.unit}".rstrip()
        value = f"{_number(each.value)} {each.unit}".rstrip()
        rows.append((each.subject, each.what, value, target, each.verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    widths[2], widths[3] = -widths[2], -widths[3]
    lines = ["  ".join(_padded(*cell) for cell in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _padded(text: str, width: int) -> str:
    return text.rjust(-width) if width < 0 else text.ljust(width)


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
