"""Where in the text of a plan a place such as `steps[3].needs` stands.

The standard TOML parser gives values without positions. This reader walks over the
statements of a text that is known to parse, and notes the line of each header and key;
what is written inside an inline table or a list is found at the line of its key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")
_ONE_KEY = re.compile(_KEY)
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''(?:.|\n)*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]"
    r"|[^\[\]{}\n\"'#]+",
    re.DOTALL,
)
_LAST_PART = re.compile(r"\[\d+\]$|\.[^.\[\]]*$")


def join(place: str, key: str) -> str:
    """The place of `key` inside `place`."""
    return f"{place}.{key}" if place else key


def lines_of(text: str) -> Mapping[str, int]:
    """The line, counted from 1, of every header and key of a TOML text that parses."""
    found: dict[str, int] = {}
    lengths: dict[str, int] = {}
    table = ""
    position, line = 0, 1
    while position < len(text):
        header = _HEADER.match(text, position)
        assignment = None if header else _ASSIGNMENT.match(text, position)
        if header:
            table = _header_place(header.group(1) == "[[", _parts(header.group(2)), lengths)
            found.setdefault(table, line)
        elif assignment:
            place = table
            for part in _parts(assignment.group(1)):
                place = join(place, part)
                found.setdefault(place, line)
        end = _end_of_statement(text, assignment.end() if assignment else position)
        line += text.count("\n", position, end)
        position = end
    return found


def line_of(place: str, lines: Mapping[str, int]) -> int | None:
    """The line of `place`, or of the nearest thing around it; None: it is nowhere."""
    while place:
        if place in lines:
            return lines[place]
        shorter = _LAST_PART.sub("", place)
        place = shorter if shorter != place else ""
    return None


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _ONE_KEY.findall(dotted)]


def _header_place(is_list: bool, parts: list[str], lengths: dict[str, int]) -> str:
    """The place a header opens; a header below `[[steps]]` belongs to the last of them."""
    place = ""
    for depth, part in enumerate(parts, start=1):
        place = join(place, part)
        if is_list and depth == len(parts):
            lengths[place] = lengths.get(place, 0) + 1
        if place in lengths:
            place = f"{place}[{lengths[place] - 1}]"
    return place


def _end_of_statement(text: str, position: int) -> int:
    """The position after the newline that ends the statement at `position`."""
    depth = 0
    while token := _TOKEN.match(text, position):
        position = token.end()
        match token.group():
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth <= 0:
                return position
    return len(text)
