"""What reaches the terminal: plain text and JSON lines, without control sequences.

Tools print what they like, and their words end up in messages. Before any of it is
shown, whatever a terminal would obey instead of show is taken out.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from loopfsm.model.step import EnvironmentValue, Output

_SEQUENCES = re.compile(
    # OSC, DCS and the like, with all they hold
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"  # two-character ones
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LONGEST_LINE = 300


def clean(text: object) -> str:
    """`text` without what a terminal would obey; line ends and tabs stay."""
    lines = str(text).replace("\r\n", "\n")
    return _CONTROLS.sub("", _SEQUENCES.sub("", lines))


def one_line(text: object, longest: int = _LONGEST_LINE) -> str:
    """`text`, clean, on one line, cut at `longest` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def plain(value: Any) -> Any:
    """A noun, or whatever a tool returned, as JSON-like data."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return str(value)
        case Output():
            return {"from": str(value)}
        case EnvironmentValue():
            return {"env": value.name}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
    if attrs.has(type(value)):
        names = [each.name for each in attrs.fields(type(value)) if not each.name.startswith("_")]
        if hasattr(value, "id") and "id" not in names:
            names.insert(0, "id")
        return {name: plain(getattr(value, name)) for name in names}
    return repr(value)


def json_line(value: Mapping[str, Any]) -> str:
    """One JSON object on one line, in ASCII: safe for a terminal too."""
    return json.dumps(plain(value))


def prepare_streams() -> None:
    """A character that the terminal's encoding lacks is shown escaped, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Print a line now. When nobody reads any more, go on in silence."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # the run matters more than who watches it; later lines go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(line: str) -> None:
    """Print a line to the error stream."""
    print(line, file=sys.stderr, flush=True)
