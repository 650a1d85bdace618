"""The commands: which there are, what they take, who does them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from loopfsm.cli.exits import BAD_INPUT, CLEAN, FOUND_SOMETHING, MEANINGS
from loopfsm.cli.printing import clean, json_line
from loopfsm.cli.streams import complain, output_was_lost, prepare_streams, say


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks; the exit code comes back.

    It is at least 1 when something that was to be printed could not be; see `cli.streams`.
    """
    prepare_streams(own_process=argv is None)
    code = _do(argv)
    return FOUND_SOMETHING if output_was_lost() and code == CLEAN else code


def _do(argv: Sequence[str] | None) -> int:
    parser = _parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as ended:  # help and version end in 0, a wrong command line in 2
        return BAD_INPUT if ended.code else CLEAN
    if args.version:
        say(f"loopfsm {sys.modules[__name__.partition('.')[0]].__version__}")
        return CLEAN
    if args.does is None:
        complain(parser.format_help().rstrip())
        return BAD_INPUT
    return int(args.does(args))


def run_command(args: argparse.Namespace) -> int:
    """`loopfsm run PLAN`."""
    from loopfsm.cli.run import run  # noqa: PLC0415  # what a run needs takes its time to load

    return run(args.plan, as_json=args.json, max_parallel=args.max_parallel)


def prove_command(args: argparse.Namespace) -> int:
    """`loopfsm prove`."""
    prove = import_module("loopfsm.review.prove")  # loaded when asked for, like a run
    text, is_clean = prove.report()
    if args.json:
        say(json_line({"type": "proof", "clean": is_clean, "report": text}))
    else:
        say(clean(text))
    return CLEAN if is_clean else FOUND_SOMETHING


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loopfsm",
        description="Run plans of steps that recover, stop or ask, within declared budgets.",
        epilog=MEANINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    parser.set_defaults(does=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    run = commands.add_parser("run", help="run a plan file", allow_abbrev=False)
    run.add_argument("plan", metavar="PLAN", help="the plan file (TOML)")
    run.add_argument("--json", action="store_true", help="one JSON object per line")
    run.add_argument(
        "--max-parallel",
        type=_at_least_one,
        metavar="N",
        help="run at most N steps at once (default: what the plan says)",
    )
    run.set_defaults(does=run_command)

    prove = commands.add_parser(
        "prove", help="walk the machines of this version exhaustively", allow_abbrev=False
    )
    prove.add_argument("--json", action="store_true", help="one JSON object")
    prove.set_defaults(does=prove_command)
    return parser


def _at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number of at least 1")
    return int(text)
