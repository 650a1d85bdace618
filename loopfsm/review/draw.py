"""The command that writes `diagrams/`: every machine as DOT and as Mermaid text.

python -m loopfsm.review.draw            write them
python -m loopfsm.review.draw --check    say what is stale; exit 1 if anything is
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from loopfsm.diagrams import stale, write_all
from loopfsm.recovery.registry import MACHINES

DIRECTORY = Path("diagrams")
"""Where they are, seen from the root of the repository."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pictures, or compare them; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m loopfsm.review.draw",
        description="Write every machine as DOT and as Mermaid text.",
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, default=DIRECTORY, help="where (default: %(default)s)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file is stale"
    )
    options = parser.parse_args(arguments)
    if not options.check:
        write_all(MACHINES, options.directory)
    complaints = stale(MACHINES, options.directory)
    for complaint in complaints:
        print(options.directory / complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
