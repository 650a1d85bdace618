"""HTTP statuses: what each says on its own, and what it leaves to the words beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from loopfsm.model.situation import SituationKind as K
from loopfsm.situations.evidence.sign import ANY, Folded


@frozen
class Status:
    """One HTTP status, or a hundred of them."""

    kind: K | None
    why: str
    leaves_open: frozenset[K] = frozenset()


_WHO = frozenset({K.AUTH, K.PERMISSION, K.QUOTA})

STATUS: Mapping[int, Status] = {
    400: Status(K.BAD_ARGS, "A bad request; what was bad is in the words.", ANY),
    401: Status(K.AUTH, "Who are you? (R11)"),
    402: Status(K.QUOTA, "Payment is required."),
    403: Status(K.AUTH, "Forbidden: rate words make it quota, refusals permission (A19).", _WHO),
    404: Status(K.NOT_FOUND, "Not here, or not for you.", frozenset({K.AUTH, K.PERMISSION})),
    405: Status(K.BAD_ARGS, "The address does not take this method."),
    406: Status(K.BAD_ARGS, "The form that is asked for does not exist."),
    407: Status(K.AUTH, "The proxy asks who is calling."),
    408: Status(K.OFFLINE, "No answer in time."),
    409: Status(None, "A conflict; with what is in the words.", frozenset({K.LOCKED})),
    410: Status(K.NOT_FOUND, "Gone for good."),
    411: Status(K.BAD_ARGS, "The length is missing."),
    413: Status(K.BAD_ARGS, "The request is too large.", frozenset({K.QUOTA})),
    414: Status(K.BAD_ARGS, "The address is too long."),
    415: Status(K.BAD_ARGS, "This type of content is not taken."),
    422: Status(K.BAD_ARGS, "Well formed and still wrong.", ANY),
    423: Status(K.LOCKED, "Somebody holds the resource."),
    429: Status(K.QUOTA, "Too many requests (R9)."),
    451: Status(K.PERMISSION, "Withheld for legal reasons."),
    500: Status(None, "The server broke; why may be in the words.", ANY),
    502: Status(K.OFFLINE, "The server behind the gateway does not answer."),
    503: Status(K.OFFLINE, "Not available now.", frozenset({K.QUOTA, K.LOCKED})),
    504: Status(K.OFFLINE, "The server behind the gateway does not answer in time."),
    507: Status(K.QUOTA, "No storage left."),
    509: Status(K.QUOTA, "The bandwidth is used up."),
    511: Status(K.AUTH, "The network wants a login."),
    522: Status(K.OFFLINE, "No connection in time."),
    523: Status(K.OFFLINE, "The origin cannot be reached."),
    524: Status(K.OFFLINE, "The origin does not answer in time."),
    529: Status(K.QUOTA, "Overloaded: come back later.", frozenset({K.OFFLINE})),
}

OTHER_4XX = Status(K.BAD_ARGS, "The request is at fault.", ANY)
OTHER_5XX = Status(None, "The server is at fault.", ANY)


def status_row(status: int) -> Status | None:
    """What an HTTP status says; None for one that is no failure."""
    if not 400 <= status <= 599:
        return None
    return STATUS.get(status) or (OTHER_4XX if status < 500 else OTHER_5XX)


_WORDS_BEFORE = re.compile(
    r" (?:http(?: 1 1| 2 0| 2)?|status|error|code|responded|returned|err|rest api"
    r")(?: code| error| is| with| with code| with status| code is| status| status code)? ([45]\d\d)(?= )"
)
_WORDS_AFTER = re.compile(
    r" ([45]\d\d) (?:client error|server error|unauthori[sz]ed|forbidden|not found|bad request"
    r"|too many requests|bad gateway|service unavailable|service temporarily|gateway time|internal server"
    r"|payment required|proxy auth|conflict|locked|unprocessable|request timeout|gone|method not"
    r"|rate limit|api rate)"
)

_CODE_WORD = re.compile(r" e([45]\d\d) ")

SPOKEN = frozenset(
    [
        "http",
        "status",
        "error",
        "code",
        "responded",
        "returned",
        "err",
        "api",
        "e",
        "client",
        "server",
        "unauthorized",
        "unauthorised",
        "forbidden",
        "found",
        "request",
        "requests",
        "gateway",
        "unavailable",
        "temporarily",
        "internal",
        "payment",
        "proxy",
        "conflict",
        "locked",
        "unprocessable",
        "timeout",
        "gone",
        "method",
        "rate",
    ]
)


def spoken_status(folded: Folded) -> int | None:
    """The HTTP status that a text tells: `HTTP 401`, `status code: 403`, `429 Client Error`."""
    for line, words in folded.lines:
        if any(word[-3:].isdecimal() and word[-3] in "45" for word in words if 3 <= len(word) <= 4):
            found = (
                _WORDS_AFTER.search(line) or _WORDS_BEFORE.search(line) or _CODE_WORD.search(line)
            )
            if found:
                return int(found[1])
    return None
