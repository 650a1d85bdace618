"""What the structure of a result says, before any of its words are read.

Results have every shape: mappings of a dozen agents, texts, lists, None, the content lists of
MCP, exceptions. `read` brings them into one; nothing here knows a tool by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from loopfsm.errors import ToolFailed
from loopfsm.situations.bodies import as_json, body_failed, codes_of, http_of, says_no

MOST_HEAD = 3_000
MOST_TAIL = 5_000
"""Characters that are read of a long text: causes stand at its ends."""

MOST_SHORT = 200
"""Characters of a body that may be one code with some words before it."""

FAILED_WORDS = frozenset(
    {
        "error",
        "failed",
        "failure",
        "fail",
        "fatal",
        "denied",
        "exception",
        "rejected",
        "refused",
        "forbidden",
        "timeout",
        "timed_out",
        "errored",
        "crashed",
        "aborted",
        "unauthorized",
        "unauthenticated",
    }
)
FINE_WORDS = frozenset(
    {
        "success",
        "ok",
        "completed",
        "done",
        "succeeded",
        "duplicate",
        "no_documents",
    }
)
EXIT_KEYS = ("return_code", "returncode", "exit_code", "exitCode", "exit_status")
ERROR_KEYS = ("error", "error_brief", "stderr", "error_message", "exception")
SPOKEN_KEYS = (
    "detail",
    "reason",
    "message",
    "body",
    "content",
    "text",
    "output",
    "response",
    "result",
    "data",
)
"""Where a failing result speaks when it has none of the keys for errors."""

WAIT_KEYS = (
    "retry_after",
    "retry_after_s",
    "retry_after_seconds",
    "retryAfter",
    "wait_time_seconds",
)


@frozen(kw_only=True)
class Reading:
    """One result, as far as its structure says."""

    failed: bool
    refused: bool = False
    fields: Mapping[str, Any] = field(factory=dict)
    """The mapping that the result is, or that stands in it; else empty."""
    exit_code: int | None = None
    http: int | None = None
    codes: tuple[str, ...] = ()
    """Structured codes of a failing body, as they were written."""
    error: str = ""
    """What a failing result says, at most some thousand characters."""
    output: str | None = None
    """The text that a successful result is, or holds."""
    body: Any = None
    """What the output is as JSON, where it is JSON."""
    bare: bool = False
    """Nothing says that the call ever ran: no exit code, no status, an error alone."""


def bounded(text: str) -> str:
    """Both ends of a long text."""
    if len(text) <= MOST_HEAD + MOST_TAIL:
        return text
    return f"{text[:MOST_HEAD]}\n{text[-MOST_TAIL:]}"


def read(result: Any) -> Reading:
    """The structure of a result of any shape."""
    if isinstance(result, Mapping):
        return _of_mapping(result)
    if isinstance(result, str):
        return _of_text(result)
    if isinstance(result, ToolFailed):
        return _of_tool_failed(result)
    if isinstance(result, BaseException):
        told = f"{type(result).__name__}: {bounded(str(result))}"
        return Reading(failed=True, error=told, bare=True)
    if isinstance(result, (list, tuple)) and result and _is_content(result):
        return _of_mapping({"content": result})
    return Reading(failed=False, body=result if isinstance(result, (list, tuple)) else None)


# Mappings


def _of_mapping(result: Mapping[str, Any]) -> Reading:
    status = result.get("status")
    code = _exit_code(result)
    http = http_of(result)
    executed = result.get("executed")
    word = status.lower() if isinstance(status, str) else ""
    denied = word in ("denied", "declined")
    throttled = result.get("rate_limited") is True
    refused = denied or executed is False or throttled
    said = result.get("error")
    says_error = said not in (None, "", False, (), [], {}) and word not in FINE_WORDS
    failed = word != "duplicate" and (
        word in FAILED_WORDS
        or bool(code)
        or (http or 0) >= 400
        or result.get("has_errors") is True
        or result.get("success") is False
        or result.get("ok") is False
        or result.get("isError") is True
        or result.get("is_error") is True
        or result.get("timed_out") is True
        or result.get("timeout") is True
        or says_error
        or (executed is False and "status" in result and word not in FINE_WORDS)
        or throttled
    )
    if executed is False and not failed and word != "duplicate":
        refused = False  # nothing says no: a rehearsal
    if failed:
        return _failing(result, refused=refused, code=code, http=http)
    return _succeeding(result, refused=refused, code=code, http=http)


def _failing(
    result: Mapping[str, Any], *, refused: bool, code: int | None, http: int | None
) -> Reading:
    error = result.get("error")
    structured = [each for each in (error,) if isinstance(each, Mapping)]
    spoken = "\n".join(_spoken(result))
    body = as_json(spoken)
    if isinstance(body, Mapping):
        structured.append(body)
        http = http or http_of(body)
    codes = tuple(code for each in (*structured, _own_codes(result)) for code in codes_of(each))
    return Reading(
        failed=True,
        refused=refused or (isinstance(body, Mapping) and says_no(body)),
        fields=result,
        exit_code=code,
        http=http,
        codes=codes,
        error=bounded(spoken),
        body=body,
        bare=code is None and http is None and "content" not in result,
    )


def _succeeding(
    result: Mapping[str, Any], *, refused: bool, code: int | None, http: int | None
) -> Reading:
    content = result.get("content")
    if isinstance(content, (list, tuple)) and _is_content(content):
        text = _text_of_content(content)
        return _of_payload(text, result, prose_may_lead=True)
    if "body" in result and isinstance(result["body"], str):
        body = result["body"]
        reading = _of_payload(body, result, prose_may_lead=True, http=http)
        if http is None and not reading.failed:
            told = _CODE_AT_THE_END.search(body) if len(body) <= MOST_SHORT else None
            if told or begins_with_error(body):
                codes = (told[1],) if told else ()
                return Reading(failed=True, fields=result, error=bounded(body), codes=codes)
        return reading
    if "stdout" in result and isinstance(result["stdout"], str):
        return _of_payload(result["stdout"], result, refused=refused, code=code)
    output = next((result[key] for key in SPOKEN_KEYS if isinstance(result.get(key), str)), None)
    return Reading(
        failed=False, refused=refused, fields=result, exit_code=code, http=http, output=output
    )


def _of_payload(
    text: str,
    fields: Mapping[str, Any],
    *,
    prose_may_lead: bool = False,
    refused: bool = False,
    code: int | None = None,
    http: int | None = None,
) -> Reading:
    """A text that may be a structured body, and then says itself whether it failed (R17)."""
    body = as_json(text, prose_may_lead=prose_may_lead)
    if isinstance(body, Mapping) and body_failed(body):
        return Reading(
            failed=True,
            refused=says_no(body),
            fields=fields,
            http=http if (http or 0) >= 400 else http_of(body),
            codes=tuple(codes_of(body)),
            error=bounded(text),
            body=body,
        )
    return Reading(
        failed=False,
        refused=refused,
        fields=fields,
        exit_code=code,
        http=http,
        output=text,
        body=body,
    )


def _of_text(result: str) -> Reading:
    if begins_with_error(result):
        return Reading(failed=True, error=bounded(result), body=as_json(result))
    return _of_payload(result, {}, prose_may_lead=True)


def _of_tool_failed(failed: ToolFailed) -> Reading:
    """Our own tools raise: what they hand over is the result."""
    return _failing(
        {"error": failed.message, **failed.evidence},
        refused=False,
        code=_exit_code(failed.evidence),
        http=http_of(failed.evidence),
    )


# Pieces


_CODE_AT_THE_END = re.compile(r": ([a-z]{2,20}(?:_[a-z]{2,20}){1,4})\W?$")
"""A short body without a status that ends in a code: `...: invalid_auth`."""

_WARNING = re.compile(r"^\W{0,3}warn(?:ing)?\b[^\n]*\n?", re.IGNORECASE | re.MULTILINE)
_ERROR = re.compile(r"^\W{0,3}(?:error|fatal|e)\b", re.IGNORECASE | re.MULTILINE)


def without_warnings(text: str) -> str:
    """A failing text without its warnings, where errors stand beside them."""
    if ("arn" not in text and "ARN" not in text) or not _ERROR.search(text):
        return text
    return _WARNING.sub("", text)


def begins_with_error(text: str) -> bool:
    """Whether a text that is all there is says at once that it is an error."""
    head = text[:120].lstrip("[ \n\t*✗❌").lower()
    if head.startswith("api error"):
        head = head[4:]
    if not head.startswith(("error", "fatal:", "failed to ", "failure:")):
        return False
    first = head.partition("\n")[0]
    lead, colon, _ = first.partition(":")
    return head.startswith("failed to ") or (bool(colon) and len(lead.split()) <= 6)


def _exit_code(result: Mapping[str, Any]) -> int | None:
    for key in EXIT_KEYS:
        code = result.get(key)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return None


def _spoken(result: Mapping[str, Any]) -> Iterator[str]:
    """The texts in which a failing result says why, its errors before its output."""
    found = False
    for key in ERROR_KEYS:
        value = result.get(key)
        if isinstance(value, Mapping):
            found = True
            yield from (each for each in value.values() if isinstance(each, str))
        elif isinstance(value, str) and (bounded(value).strip()):
            found = True
            yield bounded(value)
    for key in SPOKEN_KEYS if not found else ():
        value = result.get(key)
        if isinstance(value, str) and (bounded(value).strip()):
            found = True
            yield bounded(value)
        elif isinstance(value, (list, tuple)) and _is_content(value):
            found = True
            yield bounded(_text_of_content(value))
    stdout = result.get("stdout")
    if not found and isinstance(stdout, str):
        yield bounded(stdout)


def _own_codes(result: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: result[key] for key in ("error_type", "code", "error_code") if key in result}


def _is_content(value: Any) -> bool:
    return any(isinstance(each, Mapping) and "text" in each for each in value[:20])


def _text_of_content(value: Any) -> str:
    texts = (each.get("text") for each in value if isinstance(each, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
