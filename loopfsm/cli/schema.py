"""`loopfsm schema [NAME]`: the shapes of what `--json` prints."""

from __future__ import annotations

import argparse
import json

from loopfsm.cli.exits import BAD_INPUT, CLEAN
from loopfsm.cli.printing import one_line
from loopfsm.cli.shapes import SHAPES
from loopfsm.cli.streams import complain, say


def do(args: argparse.Namespace) -> int:
    """Print the shape `args.name`, or what shapes there are."""
    if args.name is None:
        for name, shape in SHAPES.items():
            say(f"{name:<12} {shape['title']}")
        return CLEAN
    if args.name not in SHAPES:
        complain(f"no shape {one_line(args.name)!r}; there are: {', '.join(SHAPES)}")
        return BAD_INPUT
    say(json.dumps(SHAPES[args.name], indent=2))
    return CLEAN
