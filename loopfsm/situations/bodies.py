"""Structured bodies: a text that is JSON may say itself that it failed, and by which code (R17)."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

MOST_JSON = 64_000
"""Characters of a text that is still taken apart as JSON."""

REFUSED_WORDS = frozenset(
    {
        "denied",
        "deny",
        "refused",
        "rejected",
        "blocked",
        "forbidden",
        "declined",
    }
)

CODE_KEYS = frozenset(
    {
        "code",
        "type",
        "status",
        "reason",
        "error",
        "error_code",
        "errorcode",
        "error_type",
        "error_subtype",
        "name",
        "kind",
        "grpc_status",
        "state",
        "category",
    }
)
MOST_PYTHON = 2_000
"""Characters of a text that is still read as a Python literal."""


def http_of(result: Mapping[str, Any]) -> int | None:
    """The HTTP status of a result or body, under any of its usual names."""
    for key in ("status_code", "http_status", "statusCode", "status", "code"):
        value = result.get(key)
        if isinstance(value, str) and len(value) == 3 and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return value
    return None


def as_json(text: str, *, prose_may_lead: bool = False) -> Any:
    """The text as JSON, or None; with `prose_may_lead`, also behind some words and a colon."""
    if len(text) > MOST_JSON:
        return None
    start = text[:100].lstrip()[:1]
    if start not in ("{", "["):
        brace = (
            text.find("{", 0, 400) if prose_may_lead and text[-100:].rstrip()[-1:] == "}" else -1
        )
        if brace < 0 or ":" not in text[max(0, brace - 8) : brace]:
            return None
        text = text[brace:]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _as_python(text)


def _as_python(text: str) -> Any:
    """A mapping as Python prints it, or None."""
    if len(text) > MOST_PYTHON or not text.startswith("{'"):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def body_failed(body: Mapping[str, Any]) -> bool:
    """Whether the structure of a body says that it is a failure (R17)."""
    if body.get("ok") is False or body.get("success") is False or says_no(body):
        return True
    if body.get("type") == "error" or body.get("status") in ("error", "failed", "failure"):
        return True
    error = body.get("error")
    if isinstance(error, Mapping):
        return bool({"code", "type", "status", "reason", "message"} & set(error))
    if isinstance(error, str) and error.strip():
        return not ({"data", "result", "results", "items"} & set(body))
    return isinstance(body.get("code"), int) and "message" in body and (http_of(body) or 0) >= 400


def says_no(body: Mapping[str, Any]) -> bool:
    """Nothing ran, because somebody said no."""
    return body.get("executed") is False and any(
        isinstance(value, str) and value.lower() in REFUSED_WORDS for value in body.values()
    )


def codes_of(body: Mapping[str, Any], depth: int = 4) -> Iterator[str]:
    """The codes in a failing body: short texts under the names that APIs give them."""
    for key, value in list(body.items())[:40]:
        if isinstance(value, str):
            if str(key).lower() in CODE_KEYS and 0 < len(value) <= 60 and value.count(" ") <= 3:
                yield value
        elif isinstance(value, Mapping) and depth:
            yield from codes_of(value, depth - 1)
        elif isinstance(value, list) and depth:
            for each in value[:10]:
                if isinstance(each, Mapping):
                    yield from codes_of(each, depth - 1)
