"""What a situation is about: the program, host, path or tool that would have to change.

The call says most of it; the words of a failure name what is missing or closed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from loopfsm.model.situation import SituationKind as K
from loopfsm.situations.contract import key_of

COMMAND_KEYS = ("command", "cmd", "argv", "command_line", "script")
URL_KEYS = ("url", "uri", "endpoint", "href", "base_url", "host", "hostname")
PATH_KEYS = ("file_path", "path", "filename", "file", "filepath", "directory", "dir", "folder")
CODE_KEYS = ("code", "source", "python", "script")
QUERY_KEYS = (
    "query",
    "pattern",
    "q",
    "search",
    "keyword",
    "keywords",
    "glob",
    "file_pattern",
    "regex",
    "search_term",
)

MOST_ARG = 4_000
"""Characters of an argument that are looked at."""
MOST_SUBJECT = 200

_URL_HOST = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,12}://(?:[^/\s@'\"]{1,80}@)?([\w.-]{1,120})", re.IGNORECASE
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BEFORE_PROGRAM = frozenset({"sudo", "env", "time", "nohup", "exec", "command", "doas", "nice"})
_SHELLS = re.compile(r"(?:ba|z|da|k|fi)?sh|powershell(?:\.exe)?|pwsh|cmd(?:\.exe)?")

_MISSING_PROGRAM = (
    re.compile(r"[Tt]he term '([^'\n]{1,120})' is not"),
    re.compile(r"'([^'\n]{1,120})' (?:is not recogni[sz]ed|不是)"),
    re.compile(r"command not found: ?(\S{1,120})"),
    re.compile(r"exec: \"([^\"\n]{1,120})\""),
    re.compile(r"[Nn]o module named '?([\w.]{1,120})"),
    re.compile(r"[Nn]o such file or directory: '([^'\n]{1,200})'"),
    re.compile(r"(?:^|\n)[^\n]{0,80}?: (?:line )?\d{1,5}: (\S{1,120}): "),
    re.compile(r"(?:^|\n)(?:-?\S{0,30}sh|sudo|env|nohup|xargs): ([^:\n]{1,120}): "),
    re.compile(r"(?:^|\n)(\S{1,120}): (?:command )?not found"),
)
_TOLD_HOST = (
    re.compile(r"host(?:name)?:? '?([\w-]{1,63}(?:\.[\w-]{1,63}){1,6})", re.IGNORECASE),
    re.compile(r"(?:ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT) ([\w.-]{3,120})"),
    re.compile(
        r"connect(?:ing)? to (?:host )?'?([\w-]{1,63}(?:\.[\w-]{1,63}){1,6})", re.IGNORECASE
    ),
)
_PATH = re.compile(r"(?:(?<=['\"`\s(])|^)((?:/|~/|\./|\.\./|[A-Za-z]:\\)[^'\"`\s:;,)]{1,200})")
_QUOTED = re.compile(r"['\"`‘“«]([^'\"`’”»\n]{1,120})['\"`’”»]")


@frozen(kw_only=True)
class Call:
    """What was called, as far as subjects need it."""

    tool: str
    args: Mapping[str, Any] = field(factory=dict)

    @property
    def command(self) -> str | None:
        """The command line, or the argv as one."""
        for key in COMMAND_KEYS:
            value = self.args.get(key)
            if isinstance(value, str) and value.strip():
                return value[:MOST_ARG]
            if isinstance(value, Sequence) and value and not isinstance(value, (str, bytes)):
                return " ".join(str(part) for part in value[:50])[:MOST_ARG]
        return None

    @property
    def program(self) -> str | None:
        """The first program of the command line."""
        return program_of(self.command or "")

    @property
    def host(self) -> str | None:
        """The host that an argument names, or that stands in a URL of a command or code."""
        for key in URL_KEYS:
            value = self.args.get(key)
            if isinstance(value, str) and value.strip():
                found = _URL_HOST.match(value[:MOST_ARG])
                return found[1] if found else value.partition("/")[0].strip() or None
        return None

    @property
    def host_inside(self) -> str | None:
        """The host of the first URL in the command line or in the code."""
        for key in (*COMMAND_KEYS, *CODE_KEYS):
            value = self.args.get(key)
            if isinstance(value, str):
                found = _URL_HOST.search(value[:MOST_ARG])
                if found:
                    return found[1]
        return None

    @property
    def path(self) -> str | None:
        return self._text(PATH_KEYS)

    @property
    def searches(self) -> bool:
        """Whether it looks for something: what a search is, is a matter of its arguments."""
        return self._text(QUERY_KEYS) is not None

    @property
    def starts_programs(self) -> bool:
        """Whether its code starts programs of its own."""
        code = self._text(CODE_KEYS)
        return code is not None and bool(
            re.search(r"subprocess|Popen|spawn|os\.exec|os\.system", code)
        )

    def _text(self, keys: Sequence[str]) -> str | None:
        for key in keys:
            value = self.args.get(key)
            if isinstance(value, str) and value.strip():
                return value[:MOST_ARG]
        return None


def call_of(tool: str, args: Mapping[str, Any] | str | None) -> Call:
    """The call, its arguments given as a mapping or as the JSON text of one."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            args = {}
    return Call(tool=tool, args=args if isinstance(args, Mapping) else {})


def program_of(command: str) -> str | None:
    """`sudo FOO=1 git add .` -> `git`."""
    for word in command.split()[:20]:
        if _ASSIGNMENT.match(word) or word in _BEFORE_PROGRAM or word.startswith("-"):
            continue
        return word.strip("\"'();&|") or None
    return None


def subject_of(kind: K, call: Call, error: str) -> str:
    """The subject of an inferred situation: never empty."""
    find = _FIND.get(kind, _default)
    found = find(call, error) or call.tool.strip() or "the call"
    return key_of(found[:MOST_SUBJECT]) or "the call"


def _default(call: Call, error: str) -> str | None:
    return call.host or call.program or call.path or call.host_inside


def _host(call: Call, error: str) -> str | None:
    return call.host or call.host_inside or _first(_TOLD_HOST, error) or call.program or call.path


def _first(patterns: Sequence[re.Pattern[str]], text: str) -> str | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return found[1]
    return None


def _missing_program(call: Call, error: str) -> str | None:
    return _first(_MISSING_PROGRAM, error) or call.program or call.path


def _denied(call: Call, error: str) -> str | None:
    told = _PATH.search(error)
    if told and not (call.program and _SHELLS.fullmatch(call.program)):
        return told[1]
    return _default(call, error) or (told[1] if told else None)


def _missing_thing(call: Call, error: str) -> str | None:
    told = _PATH.search(error)
    if call.path or call.host:
        return call.path or call.host
    quoted = _QUOTED.search(error)
    return (told and told[1]) or (quoted and quoted[1]) or _default(call, error)


def _place(call: Call, error: str) -> str | None:
    return call.path or call.program or call.host or call.host_inside


def _answer(call: Call, error: str) -> str | None:
    return call.path or call.host or call.program


_FIND: Mapping[K, Callable[[Call, str], str | None]] = {
    K.NOT_INSTALLED: _missing_program,
    K.OFFLINE: _host,
    K.PERMISSION: _denied,
    K.NOT_FOUND: _missing_thing,
    K.SYNTAX: _place,
    K.LOCKED: _place,
    K.WRONG_CWD: _place,
    K.TRUNCATED: _answer,
    K.GARBLED: _answer,
    K.EMPTY: _answer,
    K.INJECTED_INSTRUCTION: _answer,
}
