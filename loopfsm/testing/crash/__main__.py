"""`python -m loopfsm.testing.crash`: the matrix; `drive` and `answer` are its processes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from loopfsm.testing.crash import matrix, worker
from loopfsm.testing.crash.kills import Kill, Killer
from loopfsm.testing.crash.scenarios import MATRIX, SCENARIOS


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    words = argparse.ArgumentParser(
        prog="python -m loopfsm.testing.crash",
        description="Kill runs before and after every commit and during every call, take them"
        " up again, and compare them with a run that nobody killed.",
    )
    words.add_argument("--sample", type=int, metavar="N", help="only N cases, drawn from the seed")
    words.add_argument("--seed", type=int, default=1, metavar="S", help="(default: %(default)s)")
    words.add_argument(
        "--scenario", choices=[each.name for each in MATRIX], help="only this one (default: all)"
    )
    commands = words.add_subparsers(dest="command")
    driven = commands.add_parser("drive", help="drive one run in this process")
    driven.add_argument("directory", type=Path)
    driven.add_argument("scenario", choices=SCENARIOS)
    driven.add_argument("--resume", action="store_true", help="take the run up")
    driven.add_argument("--ask", action="store_true", help="stop when a person is asked")
    driven.add_argument("--kill", type=Kill.parse, metavar="WHERE:N", help="where to die")
    driven.add_argument(
        "--fault", action="append", default=[], metavar="MODULE:FUNCTION", help="what to break"
    )
    answered = commands.add_parser("answer", help="answer one question once a line comes in")
    answered.add_argument("directory", type=Path)
    answered.add_argument("scenario", choices=SCENARIOS)
    for name in ("subject", "choice", "token"):
        answered.add_argument(name)
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    options = parser().parse_args(arguments)
    if options.command is None:
        return run_matrix(options)
    scenario = SCENARIOS[options.scenario]
    if options.command == "answer":
        words = (options.subject, options.choice, options.token)
        return worker.answer(options.directory, scenario, *words)
    for fault in options.fault:
        module, _, function = fault.partition(":")
        getattr(importlib.import_module(module), function)()
    return worker.drive(
        options.directory,
        scenario,
        Killer(options.kill),
        resume=options.resume,
        ask=options.ask,
    )


def run_matrix(options: argparse.Namespace) -> int:
    """Run the cases, print the table; 1 when something did not hold."""
    scenarios = [each for each in MATRIX if options.scenario in (None, each.name)]
    expected = {scenario: matrix.uncrashed(scenario) for scenario in scenarios}
    cases: matrix.Cases = {
        each: matrix.kills_of(seen, options.seed) for each, seen in expected.items()
    }
    if options.sample is not None:
        cases = matrix.sampled(cases, options.sample, options.seed)
    results = matrix.run_all(cases, expected)
    text, clean = matrix.report(results, expected)
    print(text)
    return 0 if clean else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    if sys.argv[1:2] in (["drive"], ["answer"]):
        os._exit(code)  # threads of tools that were given up are not waited for
    sys.exit(code)
