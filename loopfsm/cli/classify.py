"""`loopfsm classify [FILE]`: what happened, for each tool result of a stream of JSON lines.

One line in, one line out, at once and in order. A line that cannot be classified is told as
such and stops no other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from loopfsm.cli.exits import CLEAN, FOUND_SOMETHING
from loopfsm.cli.printing import json_line, one_line
from loopfsm.cli.streams import say, somebody_reads
from loopfsm.errors import DefinitionError
from loopfsm.model.situation import Classification
from loopfsm.planfile import load
from loopfsm.situations.classify import classify_result
from loopfsm.situations.declared import Declared
from loopfsm.tools.registry import ToolRegistry

LONGEST_LINE = 64 << 20
"""Bytes that a line may have; the rest of a longer one is passed over, not kept."""

STDIN = "-"


class _Unusable(Exception):
    """Why a line cannot be classified."""


def do(args: argparse.Namespace) -> int:
    """Classify every line of `args.file`, or of standard input."""
    tools = load(args.plan).tools if args.plan else ToolRegistry()
    code = CLEAN
    for number, line in _lines(args.file):
        if not line.strip():
            continue
        try:
            said = _classified(line, tools.situations_of)
        except _Unusable as why:
            said, code = _error(number, why), FOUND_SOMETHING
        except Exception as error:  # noqa: BLE001  # our own defect: the other lines are good
            told = f"loopfsm itself is broken, please report it: {type(error).__name__}: {error}"
            said, code = _error(number, told), FOUND_SOMETHING
        say(json_line(said))
        if not somebody_reads():
            break
    return code


def _error(number: int, why: object) -> dict[str, Any]:
    return {"error": one_line(f"line {number}: {why}")}


def _lines(name: str) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a file, each as soon as it is there."""
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise ValueError("it is closed")
            yield from enumerate(_bounded(sys.stdin.buffer), 1)
        else:
            with Path(name).open("rb") as file:
                yield from enumerate(_bounded(file), 1)
    except (OSError, ValueError) as error:  # ValueError: no name of a file, a closed stream
        says = getattr(error, "strerror", None) or str(error)
        raise DefinitionError(f"{one_line(name)!r} cannot be read: {says}") from error


def _bounded(file: BinaryIO) -> Iterator[bytes]:
    """Lines; of one that is too long, the first `LONGEST_LINE` + 1 bytes."""
    while line := file.readline(LONGEST_LINE + 1):
        rest = line
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE + 1)
        yield line


def _classified(line: bytes, declared_by: Callable[[str], tuple[Declared, ...]]) -> dict[str, Any]:
    call = _call(line)
    tool = call["tool"]
    try:
        found = classify_result(
            tool, call.get("args", {}), call["result"], declared=declared_by(tool)
        )
    except ValueError as error:
        raise _Unusable(error) from error
    return classification_data(found)


def _call(line: bytes) -> Mapping[str, Any]:
    """What a line says: at least `tool` and `result`."""
    if len(line) > LONGEST_LINE:
        raise _Unusable(f"it is longer than {LONGEST_LINE >> 20} MiB")
    try:
        call = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _Unusable(f"it is no UTF-8: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise _Unusable(f"it is no JSON: {error}") from error
    except RecursionError as error:
        raise _Unusable("it is nested too deeply") from error
    if not isinstance(call, dict):
        raise _Unusable('it is no JSON object; expected {"tool": ..., "args": ..., "result": ...}')
    missing = [name for name in ("tool", "result") if name not in call]
    if missing:
        raise _Unusable(f"it has no {' and no '.join(map(repr, missing))}")
    if not isinstance(call["tool"], str) or not call["tool"].strip():
        raise _Unusable("its 'tool' is not the name of a tool")
    if not isinstance(call.get("args"), dict | str | None):
        raise _Unusable("its 'args' are neither an object nor a text that holds one")
    return call


def classification_data(found: Classification) -> dict[str, Any]:
    """What the classifier says of a result, as data."""
    said = found.situation
    probe = None
    if said is not None and said.probe is not None:
        probe = {"tool": said.probe.tool, "args": said.probe.args}
    return {
        "class": found.class_name,
        "kind": None if said is None else said.kind,
        "subject": None if said is None else said.subject,
        "interactive": said is not None and said.interactive,
        "source": None if said is None else said.source,
        "failed": found.failed,
        "refused": found.refused,
        "unblock": None if said is None else said.unblock,
        "probe": probe,
        "evidence": None if said is None else said.evidence,
    }
