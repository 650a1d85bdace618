"""The commands: which there are, what they take, who does them."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib import import_module

from loopfsm.cli.exits import BAD_INPUT, CLEAN, FOUND_SOMETHING, MEANINGS
from loopfsm.cli.refusing import guarded
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
        args = _parsed(parser, argv)
    except SystemExit as ended:  # help and version end in 0, a wrong command line in 2
        return BAD_INPUT if ended.code else CLEAN
    if args.version:
        say(f"loopfsm {sys.modules[__name__.partition('.')[0]].__version__}")
        return CLEAN
    if args.module is None:
        complain(parser.format_help().rstrip())
        return BAD_INPUT

    def work() -> int:
        # what a command needs takes its time to load
        return int(import_module(f"loopfsm.cli.{args.module}").do(args))

    return guarded(
        work, subject=args.subject(args), as_json=args.json, calls_tools=args.calls_tools
    )


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    args, more = parser.parse_known_args(argv)
    if hasattr(args, "words"):
        # `answer RUN send --say "go on" retry`: argparse takes no word after an option
        args.words += [_text(word) for word in more if not word.startswith("-")]
        more = [word for word in more if word.startswith("-")]
        if not more and not 1 <= len(args.words) <= 2:
            parser.error(f"answer takes RUN [STEP] CHOICE, found {len(args.words) + 1} words")
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    return args


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loopfsm",
        description="Run plans of steps that recover, stop or ask, within declared budgets.",
        epilog=MEANINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    parser.set_defaults(module=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_what_drives(commands)
    _add_what_looks(commands)
    _add_what_needs_no_run(commands)
    return parser


Commands = argparse._SubParsersAction  # argparse has no public name for it


def _add_what_drives(commands: Commands[argparse.ArgumentParser]) -> None:
    run = _command(
        commands,
        "run",
        "run a plan file",
        "Runs a plan file until it ends or waits for a person, and tells what happens.",
        calls_tools=True,
        places=_PLACES_OF_A_PLAN,
    )
    run.add_argument("plan", metavar="PLAN", help="the plan file (TOML)")
    run.add_argument(
        "--max-parallel",
        type=_at_least_one,
        metavar="N",
        help="run at most N steps at once (default: what the plan says)",
    )
    run.set_defaults(subject=lambda args: args.plan)

    _about_a_run(
        commands,
        "resume",
        "go on with a run",
        "Takes a run up where it stands, and drives it until it ends or waits for a person.",
        calls_tools=True,
    )
    answer = _about_a_run(
        commands,
        "answer",
        "answer a question of a run",
        "Answers an open question of a run; where nobody drives the run, it goes on with it.",
        calls_tools=True,
    )
    answer.usage = (
        "loopfsm answer RUN [STEP] CHOICE [--say TEXT] [--to N] [--token T] [--journal PATH] "
        "[--json]"
    )
    answer.add_argument(
        "words",
        type=_text,
        nargs="*",
        metavar="[STEP] CHOICE",
        help="the choice; before it the step, or `run`, when several questions are open",
    )
    answer.add_argument(
        "--say", type=_text, default="", metavar="TEXT", help="your words, kept with it"
    )
    answer.add_argument("--to", type=_number, metavar="N", help="the new limit, for `raise`")
    answer.add_argument("--token", type=_token, metavar="T", help="answers once, whoever sends it")
    cancel = _about_a_run(
        commands,
        "cancel",
        "give a run up",
        "Gives a run up: the steps under way are finished first, and nothing more is started.",
        calls_tools=True,
    )
    cancel.add_argument(
        "--say", type=_text, default="", metavar="TEXT", help="why, kept with the run"
    )


def _add_what_looks(commands: Commands[argparse.ArgumentParser]) -> None:
    runs = _command(
        commands,
        "runs",
        "list the runs of a journal",
        "Lists the runs of a journal, oldest first, with who drives them.",
    )
    runs.add_argument("--prune", action="store_true", help="forget the runs that have ended")
    show = _about_a_run(
        commands,
        "show",
        "show how a run, or one of its steps, stands",
        "Shows how a run stands, what is asked and what to do next; or all about one step.",
    )
    show.add_argument(
        "step", type=_text, nargs="?", metavar="STEP", help="everything about this step"
    )
    _about_a_run(
        commands,
        "trace",
        "list every event of a run",
        "Lists every event of a run in order, each with the id of its row in specs/machines/.",
    )
    _about_a_run(
        commands,
        "watch",
        "follow a run while somebody drives it",
        "Tells what has happened in a run, and what happens for as long as somebody drives it; "
        "it changes nothing.",
    )


def _add_what_needs_no_run(commands: Commands[argparse.ArgumentParser]) -> None:
    prove = commands.add_parser(
        "prove", help="walk the machines of this version exhaustively", allow_abbrev=False
    )
    prove.add_argument("--json", action="store_true", help="one JSON object")
    _done_by(prove, "prove")
    schema = commands.add_parser(
        "schema", help="print the JSON Schema of what `--json` prints", allow_abbrev=False
    )
    schema.add_argument("name", nargs="?", metavar="NAME", help="a `type` (default: list them)")
    schema.set_defaults(json=False)
    _done_by(schema, "schema")
    classify = commands.add_parser(
        "classify",
        help="say what happened in tool results, one JSON object per line in and out",
        description='Reads lines {"tool": ..., "args": ..., "result": ...}.',
        allow_abbrev=False,
    )
    classify.add_argument(
        "file",
        type=_filled,
        nargs="?",
        default="-",
        metavar="FILE",
        help="where the lines are (default: standard input)",
    )
    classify.add_argument(
        "--plan", type=_filled, metavar="PLAN", help="a plan file whose tools declare situations"
    )
    classify.add_argument("--json", action="store_true", default=True, help="its only form")
    _done_by(classify, "classify", calls_tools=True)


_PLACES = "the journal that holds the runs (default: LOOPFSM_JOURNAL, then your data directory)"
_PLACES_OF_A_PLAN = (
    "where the run is kept; `memory`: nowhere (default: LOOPFSM_JOURNAL, then what the plan says, "
    "then your data directory)"
)


def _command(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    says: str,
    does: str,
    *,
    calls_tools: bool = False,
    places: str = _PLACES,
) -> argparse.ArgumentParser:
    """A command that uses a journal."""
    parser = commands.add_parser(name, help=says, description=does, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument(
        "--journal",
        type=_filled,
        metavar="PATH",
        help=places,
    )
    _done_by(parser, name, calls_tools=calls_tools)
    return parser


def _about_a_run(
    commands: Commands[argparse.ArgumentParser],
    name: str,
    says: str,
    does: str,
    *,
    calls_tools: bool = False,
) -> argparse.ArgumentParser:
    """A command about one run of a journal."""
    parser = _command(commands, name, says, does, calls_tools=calls_tools)
    parser.add_argument(
        "run", type=_text, metavar="RUN", help="its id, the beginning of it, or `last`"
    )
    parser.set_defaults(subject=lambda args: _asked(name, args))
    return parser


def _asked(name: str, args: argparse.Namespace) -> str:
    """What was asked of a run, without the options."""
    step = getattr(args, "step", None)
    words = getattr(args, "words", [] if step is None else [step])
    return " ".join(("loopfsm", name, args.run, *words))


def _done_by(parser: argparse.ArgumentParser, name: str, *, calls_tools: bool = False) -> None:
    parser.set_defaults(module=name, calls_tools=calls_tools, subject=lambda _: f"loopfsm {name}")


def _at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number of at least 1")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number")
    return number


def _filled(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("found nothing, expected a text")
    return text


def _token(text: str) -> str:
    return _text(_filled(text))


def _text(text: str) -> str:
    """What was typed, as a text that a journal can keep: bytes that are no text are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
