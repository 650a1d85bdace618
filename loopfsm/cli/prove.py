"""`loopfsm prove`: the explorer, at the terminal."""

from __future__ import annotations

import argparse

from loopfsm.cli.exits import CLEAN, FOUND_SOMETHING
from loopfsm.cli.printing import clean, json_line
from loopfsm.cli.streams import say
from loopfsm.review import prove


def do(args: argparse.Namespace) -> int:
    """Walk the machines of this version, and tell what was found."""
    text, is_clean = prove.report()
    if args.json:
        say(json_line({"type": "proof", "clean": is_clean, "report": text}))
    else:
        say(clean(text))
    return CLEAN if is_clean else FOUND_SOMETHING
