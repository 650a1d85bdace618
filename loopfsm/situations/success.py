"""Successful results: whether there is less than it seems, or somebody gives orders.

No word in them makes a blocker (R17). What is degenerate follows from their structure, or from
what the whole output or a line of its own says about it; only orders are found in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopfsm.model.situation import SituationKind as K
from loopfsm.situations.evidence.orders import (
    ABOUT,
    AROUND_AFTER,
    AROUND_BEFORE,
    CUES,
    MOST_TEXT,
    ORDERS,
    QUOTES,
)
from loopfsm.situations.evidence.output import (
    BINARY_MATCH,
    FOREIGN_CUES,
    HAND_CUT,
    MOJIBAKE,
    MOST_NOTHING,
    NO_ROWS,
    NOTHING_FOUND,
    TRUNCATED,
    TRUNCATED_CUES,
)
from loopfsm.situations.reading import Reading, bounded
from loopfsm.situations.subjects import Call

EDGE = 250
"""Characters at either end in which the rarer markers of a cut stand."""

MOST_TRUNCATED = 1_500
"""Characters at either end in which an output may say that it was cut."""

COUNT_KEYS = frozenset(
    {
        "count",
        "total",
        "total_count",
        "total_matches",
        "totalcount",
        "n",
        "num_results",
        "match_count",
        "hits",
        "result_count",
        "size",
        "length",
        "matches_found",
    }
)

Found = tuple[K, str]
"""A kind, and what was seen."""


def of_success(reading: Reading, call: Call, result: Any) -> Found | None:
    """The degenerate or adversarial kind of a successful result, and what was seen."""
    fields = reading.fields
    if fields.get("truncated") is True or fields.get("output_truncated") is True:
        return K.TRUNCATED, "truncated: true"
    if isinstance(reading.body, Mapping) and _says_cut(reading.body):
        return K.TRUNCATED, "truncated: true"
    if fields.get("is_binary") is True:
        return K.GARBLED, "is_binary: true"
    text = reading.output
    if text:
        found = _of_text(text)
        if found:
            return found
    return _empty(reading, call, result)


def _says_cut(body: Mapping[str, Any], depth: int = 2) -> bool:
    """Whether a body says of itself that it was cut."""
    if any(body.get(key) is True for key in ("truncated", "is_truncated", "output_truncated")):
        return True
    inner = (value for value in body.values() if isinstance(value, Mapping))
    return depth > 0 and any(_says_cut(each, depth - 1) for each in inner)


def _of_text(text: str) -> Found | None:
    ends = (
        text
        if len(text) <= 2 * MOST_TRUNCATED
        else f"{text[:MOST_TRUNCATED]}\n{text[-MOST_TRUNCATED:]}"
    )
    if len(text) <= MOST_NOTHING:
        nothing = NOTHING_FOUND.fullmatch(_last_line(text)) or NOTHING_FOUND.fullmatch(text)
        if nothing:
            return K.EMPTY, text
    if (not text.isascii() or "\x00" in ends) and _garbled(text):
        return K.GARBLED, text[:200]
    lowered = ends.lower()
    edges = lowered if len(lowered) <= 2 * EDGE else lowered[:EDGE] + lowered[-EDGE:]
    if (
        "truncat" in lowered
        or _any_in(TRUNCATED_CUES, edges)
        or (not ends.isascii() and _any_in(FOREIGN_CUES, lowered))
    ):
        cut = None if HAND_CUT.search(ends) else TRUNCATED.search(ends)
        if cut:
            return K.TRUNCATED, cut[0]
    if len(text) <= MOST_NOTHING and BINARY_MATCH.fullmatch(text):
        return K.GARBLED, text
    return orders_in(text, lowered if ends is text else None)


def _last_line(text: str) -> str:
    """The last line of a table without rows, or the one below a heading; else the whole."""
    stripped = text.strip()
    end = stripped.rpartition("\n")[2]
    if NO_ROWS.fullmatch(end) and "affected" not in end:
        return end
    head, _, last = stripped.partition(":\n")
    line = last if last and "\n" not in last and "\n" not in head else text
    return _TAG.sub("", line)


_TAG = re.compile(r"</?[a-z]{1,20}>")


def _garbled(text: str) -> bool:
    """Replacement characters, NULs, or letters that are two bytes of one."""
    part = bounded(text)
    if part.count("\ufffd") >= 2 or "\x00" in part:
        return True
    return sum(1 for _ in zip(MOJIBAKE.finditer(part), range(3), strict=False)) >= 2


def _any_in(cues: Sequence[str], lowered: str) -> bool:
    for cue in cues:  # noqa: SIM110  # `any` with a generator takes twice as long
        if cue in lowered:
            return True
    return False


def orders_in(text: str, lowered: str | None = None) -> Found | None:
    """Orders to the agent that leave the task (R20)."""
    if lowered is None:
        if len(text) > MOST_TEXT:
            text = f"{text[: MOST_TEXT // 2]}\n{text[-MOST_TEXT // 2 :]}"
        lowered = text.lower()
    cues = [cue for cue in CUES if cue in lowered]
    if not cues:
        return None
    near = _around(cues, lowered)
    weight, seen = 0, ""
    for order in ORDERS:
        found = order.pattern.search(near) if _any_in(order.needs, near) else None
        if found and not _is_quoted(near, found.start()):
            weight += order.weight
            seen = seen or found[0]
    if weight >= 2 and not (weight < 4 and ABOUT.search(near)):
        return K.INJECTED_INSTRUCTION, seen
    return None


def _around(cues: Sequence[str], lowered: str) -> str:
    """The text around its cues: all of a short one, some of a long one."""
    if len(lowered) <= AROUND_BEFORE + AROUND_AFTER:
        return lowered
    places = sorted(place for cue in cues for place in _places(cue, lowered))
    pieces: list[str] = []
    end = 0
    for place in places:
        start = max(end, place - AROUND_BEFORE)
        if start > end:
            pieces.append(" … ")
        if place + AROUND_AFTER > end:
            end = place + AROUND_AFTER
            pieces.append(lowered[start:end])
    return "".join(pieces)


def _places(cue: str, lowered: str, most: int = 40) -> Iterator[int]:
    place = lowered.find(cue)
    while place >= 0 and most:
        yield place
        place = lowered.find(cue, place + len(cue))
        most -= 1


def _is_quoted(text: str, start: int) -> bool:
    """Whether the words stand in quotation marks: a text that shows them does not give them."""
    before = text[max(0, start - 3) : start].strip()
    return bool(before) and before[-1] in QUOTES


def _empty(reading: Reading, call: Call, result: Any) -> Found | None:
    """Nothing where something was looked for (R13)."""
    fields = reading.fields
    if fields.get("status") == "no_documents":
        return K.EMPTY, "status: no_documents"
    where = reading.body if isinstance(reading.body, Mapping) else fields
    lists, counts = [], []
    for key, value in where.items():
        if isinstance(value, (list, tuple)):
            lists.append(value)
        elif type(value) is int and str(key).lower() in COUNT_KEYS:
            counts.append(value)
    if counts and not any(counts) and not any(lists) and (lists or call.searches):
        return K.EMPTY, "a count of 0"
    if lists and not any(lists) and call.searches:
        return K.EMPTY, "an empty list"
    if call.searches and result in ("", [], ()):
        return K.EMPTY, "nothing"
    if isinstance(result, str) and len(result) <= MOST_TEXT and not result.strip():
        return K.EMPTY, "an empty text"
    return None
