"""Every figure of the package that has a target, in one run: `python -m benchmarks`.

Figures are ratios wherever they can be, measured in turns and as medians, so that they
mean the same on any machine. Exit code 1: a target was missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from benchmarks import durable, growth, importing, memory, situations, transition
from benchmarks.figures import Figure, table

SUBJECTS: Mapping[str, Callable[..., Iterator[Figure]]] = {
    "transition": transition.measure,
    "import": importing.measure,
    "memory": memory.measure,
    "durable": durable.measure,
    "situations": situations.measure,
    **{name: partial(growth.measure, name) for name in growth.SUBJECTS},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for, print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help=f"{', '.join(SUBJECTS)} (default: all)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="only show that it runs: figures mean nothing, exit 0"
    )
    options = parser.parse_args(arguments)
    unknown = set(options.subjects).difference(SUBJECTS)
    if unknown:
        parser.error(f"no subject {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    figures: list[Figure] = []
    for subject in options.subjects or SUBJECTS:
        print(f"measuring {subject} ...", file=sys.stderr, flush=True)
        figures.extend(SUBJECTS[subject](quick=options.quick))
    print(table(figures))
    missed = any(each.verdict == "MISSED" for each in figures)
    return 1 if missed and not options.quick else 0


if __name__ == "__main__":
    sys.exit(main())
