"""Structured codes: what APIs, gRPC and operating systems call a failure by name.

They are written for programs, so that they mean the same in every language. A code that says
only that something was wrong (`invalid_request_error`) leaves open what, and the text decides.
"""

from __future__ import annotations

from loopfsm.model.situation import SituationKind as K
from loopfsm.situations.evidence.sign import ANY, Sign, Signs

CODES = Signs(
    (
        Sign(
            kind=K.QUOTA,
            phrases=(
                "insufficient quota",
                "…quota exceeded",
                "…rate limit(?:ed| exceeded| error)?",
                r"thrott\w+(?: exception)?",
                "resource exhausted",
                "too many requests…",
                "slow down",
                "request limit exceeded",
                "…limit exceeded",
                r"billing \w+(?: \w+)?",
                "payment required",
                "insufficient (?:funds|balance|credits?)",
                "credit balance…",
                "overloaded",
                "overloaded error",
            ),
            why="An API counts what an account has used and says when it is too much.",
        ),
        Sign(
            kind=K.AUTH,
            phrases=(
                "unauthenticated",
                "unauthorized",
                "unauthorised",
                "(?:not|invalid|no|need|bad) auth(?:ed|entication)?",
                "authentication (?:error|failed|required|failure)",
                "authentication exception",
                "(?:auth|access|security|id|refresh)? ?token (?:expired|revoked|invalid|missing|required)",
                "(?:invalid|expired|missing|no|incorrect|unrecognized|bad)…(?:token|credentials?|key|session|signature)(?: id| error| exception)?",
                "(?:request|session|login) (?:expired|required)",
                "signature does not match",
                "invalid grant",
                "account inactive",
                "eneedauth",
                "eotp",
            ),
            why="The API does not know, or no longer knows, who is calling.",
        ),
        Sign(
            kind=K.PERMISSION,
            phrases=(
                "…permissions? denied…",
                "access denied…",
                "…insufficient (?:permissions?|scopes?|privileges?)",
                "(?:access )?token scope insufficient",
                "missing (?:scope|permissions?)",
                "forbidden",
                r"restricted \w+",
                "not authorized…",
                "authorization (?:failed|error)",
                r"…not allowed(?: \w+)?",
            ),
            why="The API knows the caller and says no.",
            leaves_open=frozenset({K.QUOTA}),
        ),
        Sign(
            kind=K.OFFLINE,
            phrases=(
                "(?:service )?unavailable",
                "unreachable",
                "deadline exceeded",
                "(?:gateway|connect|connection|headers) timeout",
                "bad gateway",
            ),
            why="The service behind the API does not answer.",
            leaves_open=frozenset({K.AUTH, K.QUOTA, K.LOCKED, K.PERMISSION}),
        ),
        Sign(
            kind=K.LOCKED,
            phrases=(
                "(?:resource |file |database )?locked",
                "lock (?:timeout|conflict|held|not available)",
            ),
            why="Somebody else holds what is wanted.",
        ),
        Sign(
            kind=K.NOT_FOUND,
            phrases=(
                r"(?:\w+ ){0,3}not found(?: error| exception)?",
                r"no such \w+(?: \w+)?",
                "resource missing",
            ),
            why="The API has no such thing.",
            leaves_open=frozenset({K.AUTH, K.NOT_INSTALLED, K.OFFLINE, K.WRONG_CWD}),
        ),
        Sign(
            kind=K.BAD_ARGS,
            phrases=(
                r"(?:invalid|missing|bad|unknown|unprocessable) (?:\w+ )?(?:arguments?|param(?:eter)?s?|requests?|entity|input|field)(?: error| exception)?",
                r"validation(?: \w+)?",
                "request validation error",
            ),
            why="The API does not take the request as it is, and often says no more than that.",
            leaves_open=ANY,
        ),
    )
)
"""Read against the codes of a body whose structure says that it failed."""

_NETWORK = (
    "econnrefused econnreset enotfound etimedout ehostunreach enetunreach ehostdown eai "
    "econnaborted enetdown epipe dns err"
)

ERRNO = Signs(
    (
        Sign(
            kind=K.NOT_INSTALLED,
            phrases=(
                r"spawn [\w ]{1,60} enoent",
                "module not found ?error…",
                "class not found exception…",
            ),
            why="What could not be started or loaded is a program or a module: the noun decides.",
        ),
        Sign(
            kind=K.SYNTAX,
            phrases=(
                "syntax error…",
                "indentation error…",
                "(?:json|toml|yaml|xml|scanner|parser?|lexer) (?:decode|scanner|parse|syntax) ?(?:error|exception)…",
                "(?:scanner|parse|parser|lexer) (?:error|exception)…",
                "(?:json|toml|yaml|xml) decode ?error…",
                "mapping values are not allowed…",
                r"(?:unable to|cannot|could not|could not|failed to|error) pars(?:e|ing) (?:\w+ )?(?:yaml|json|toml|xml|html|csv)…",
            ),
            why="The parser of a language gives its error a name of its own.",
            leaves_open=frozenset({K.GARBLED}),
        ),
        Sign(
            kind=K.QUOTA,
            phrases=(
                "enospc",
                "edquot",
                "emfile",
                "enfile",
                "enomem",
            ),
            why="A limit of the machine is reached: disk, memory, handles.",
        ),
        Sign(
            kind=K.LOCKED,
            phrases=(
                "ebusy",
                "etxtbsy",
                "eaddrinuse",
                "edeadlk",
            ),
            why="Something that runs holds the file, device or port.",
        ),
        Sign(
            kind=K.OFFLINE,
            phrases=(
                "econnrefused",
                "econnreset",
                "enotfound",
                "etimedout",
                "ehostunreach",
                "enetunreach",
                "ehostdown",
                "enetdown",
                "econnaborted",
                "eai (?:again|noname|fail|nodata)",
                "und err (?:connect|headers|body) timeout",
                r"err (?:connection \w+(?: out)?|name not resolved|internet disconnected|address unreachable|timed out)",
            ),
            why="The kernel, or the resolver, names a network that does not answer.",
        ),
        Sign(
            kind=K.PERMISSION,
            phrases=(
                "eacces",
                "eperm",
                "erofs",
            ),
            why="The kernel refuses the caller.",
            leaves_open=frozenset({K.LOCKED, K.AUTH}),
        ),
        Sign(
            kind=K.AUTH,
            phrases=(
                "eneedauth",
                "eotp",
            ),
            why="A registry asks who is calling, by a code of errno form.",
        ),
        Sign(
            kind=K.BAD_ARGS,
            phrases=(
                "eisdir",
                "enotdir",
                "enametoolong",
                "eusage",
            ),
            why="The argument is of a kind that the call cannot take.",
        ),
        Sign(
            kind=K.SYNTAX,
            phrases=("ejsonparse",),
            why="A file does not parse, by a code of errno form.",
        ),
        Sign(
            kind=K.NOT_FOUND,
            phrases=(
                "enoent",
                "etarget",
            ),
            why="No such file, version or entry.",
            leaves_open=frozenset({K.NOT_INSTALLED, K.WRONG_CWD, K.OFFLINE}),
        ),
    )
)
"""Names of errno and their like, wherever a failing result prints them."""
