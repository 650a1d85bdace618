"""What reaches the terminal: plain text and JSON lines, without control sequences.

Tools print what they like, and their words end up in messages. Before any of it is
shown, whatever a terminal would obey instead of show is taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from loopfsm.plain import plain

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


def json_line(value: Mapping[str, Any]) -> str:
    """One JSON object on one line, in ASCII: safe for a terminal too. See `plain`."""
    return json.dumps(plain(value), allow_nan=False)
