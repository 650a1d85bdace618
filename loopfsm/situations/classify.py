"""One result, three answers: did it fail, was it refused, does it carry a situation.

Precedence. A declaration in the result wins over everything (R7), then the declared situations
of the tool. What is inferred comes from the strongest evidence that names a kind: the structure
of the result and structured codes, then HTTP status and exit code, then what operating systems
print, then other words. Evidence may leave kinds open that it cannot tell apart; only among those
does weaker evidence decide, so that words alone never outvote a code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from loopfsm.model.situation import (
    CLASS_OF,
    Classification,
    Situation,
    SituationClass,
    SituationKind,
    Source,
)
from loopfsm.model.situation import SituationKind as K
from loopfsm.situations.contract import KEY, one_line, validate_situation
from loopfsm.situations.declared import Declared
from loopfsm.situations.evidence.codes import CODES, ERRNO
from loopfsm.situations.evidence.exit import EXITS
from loopfsm.situations.evidence.program import SEARCHES
from loopfsm.situations.evidence.sign import Folded, Signs, fold
from loopfsm.situations.evidence.status import SPOKEN, spoken_status, status_row
from loopfsm.situations.evidence.stderr import STDERR
from loopfsm.situations.evidence.text import REPORTS, TEXT
from loopfsm.situations.reading import WAIT_KEYS, Reading, read, without_warnings
from loopfsm.situations.subjects import Call, call_of, subject_of
from loopfsm.situations.success import of_success


@frozen
class Finding:
    """What one piece of evidence says."""

    kind: SituationKind | None
    evidence: str
    leaves_open: frozenset[SituationKind] = frozenset()


def classify_result(
    tool: str,
    args: Mapping[str, Any] | str | None,
    result: Any,
    *,
    declared: Sequence[Declared] = (),
) -> Classification:
    """What the result of one call says.

    `args` are those of the call, as a mapping or as the JSON text of one. `result` may have any
    shape and is not changed. `declared` are the situations that the tool or the plan declares.

    Raises ToolError, a ValueError that names the tool, when the result carries a malformed
    declaration (R4).
    """
    reading = read(result)
    if KEY in reading.fields and reading.fields[KEY] is not None:
        situation = validate_situation(tool, reading.fields[KEY])
        return Classification(
            failed=reading.failed or situation.is_blocker,
            refused=reading.refused,
            situation=situation,
        )
    call = call_of(tool, args)
    if reading.failed:
        for each in declared:
            if _is_seen(each, reading):
                return _classified(reading, _of_declared(each))
        found = _of_failure(reading, call)
    elif reading.refused:
        found = None
    else:
        seen = of_success(reading, call, result)
        found = Finding(*seen) if seen else None
    if found is None or found.kind is None:
        return Classification(failed=reading.failed, refused=reading.refused)
    return _classified(reading, _inferred(found, reading, call))


def _classified(reading: Reading, situation: Situation) -> Classification:
    return Classification(failed=reading.failed, refused=reading.refused, situation=situation)


# Declared in advance


def _is_seen(declared: Declared, reading: Reading) -> bool:
    when = declared.when
    if when.exit is not None:
        return reading.exit_code == when.exit
    if when.http is not None:
        return reading.http == when.http
    return (when.stderr or "").casefold() in reading.error.casefold()


def _of_declared(declared: Declared) -> Situation:
    return Situation(
        kind=declared.kind,
        subject=declared.subject,
        interactive=declared.interactive,
        source=Source.DECLARED,
        evidence=one_line(f"declared for {declared.when.shown}"),
        detail=declared.detail,
        unblock=declared.unblock,
        probe=declared.probe,
        retry_after_s=declared.retry_after_s,
        scope=declared.scope,
        allowed=declared.allowed,
    )


# Inferred


def _inferred(found: Finding, reading: Reading, call: Call) -> Situation:
    assert found.kind is not None  # its caller has asked
    kind = found.kind
    status = reading.fields.get("status")
    return Situation(
        kind=kind,
        subject=subject_of(kind, call, reading.error),
        interactive=kind is K.PERMISSION and status in ("denied", "declined"),
        evidence=one_line(found.evidence),
        retry_after_s=_wait(reading) if kind is K.QUOTA else None,
        scope=_scope(call) if CLASS_OF[kind] is SituationClass.BLOCKER else "",
        allowed=_allowed(reading.fields),
    )


def _scope(call: Call) -> str:
    """`gh@github.com`, where the call names a program and a host."""
    program, host = call.program, call.host or call.host_inside
    return f"{program}@{host}" if program and host else ""


def _allowed(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """What a refusal says is allowed: the lists under its keys `allowed...`."""
    found: list[str] = []
    for key, value in fields.items():
        if str(key).startswith("allowed") and isinstance(value, (list, tuple)):
            found += [one_line(each, 80) for each in value[:20] if isinstance(each, str)]
    return tuple(found)


_WAIT = re.compile(r"retry[- _]after['\"]?[:= ]{1,3}(\d{1,7}(?:\.\d{1,6})?)", re.IGNORECASE)


def _wait(reading: Reading) -> float | None:
    bodies = (each for each in (reading.fields, reading.body) if isinstance(each, Mapping))
    for body in bodies:
        for key in WAIT_KEYS:
            value = body.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
                return float(value)
    told = _WAIT.search(reading.error)
    return float(told[1]) if told else None


def _of_failure(reading: Reading, call: Call) -> Finding | None:
    """The strongest evidence, refined by weaker evidence only as far as it leaves open."""
    settled = _of_structure(reading, call)
    if settled is not None:
        return settled
    error = without_warnings(reading.error)
    found = _strongest(reading, call, error)
    if found is None and error is not reading.error:
        found = _strongest(reading, call, reading.error)
    return found


def _strongest(reading: Reading, call: Call, error: str) -> Finding | None:
    folded = fold(error, WORTH)
    if reading.refused:
        return _of_refusal(error, folded)
    failure = Failure(reading, call, folded)
    found: Finding | None = None
    for look in _LOOKS:
        each = look(failure, found.leaves_open if found else None)
        if each is not None:
            found = (
                each
                if found is None
                else evolve(each, leaves_open=found.leaves_open & each.leaves_open)
            )
        if found is not None and not found.leaves_open:
            break
    return found


def _of_structure(reading: Reading, call: Call) -> Finding | None:
    """What keys alone say."""
    fields = reading.fields
    if not call.tool.strip():
        return Finding(K.BAD_ARGS, "the call names no tool")
    if fields.get("error_type") == "invalid_arguments":
        return Finding(K.BAD_ARGS, "error_type: invalid_arguments")
    if fields.get("rate_limited") is True:
        return Finding(K.QUOTA, "rate_limited: true")
    if fields.get("status") in ("denied", "declined"):
        return Finding(K.PERMISSION, "status: denied")
    if fields.get("executed") is False and "tier" in fields:
        return Finding(K.PERMISSION, f"executed: false, tier: {fields['tier']}")
    if fields.get("timed_out") is True or fields.get("timeout") is True:
        remote = call.host or (None if call.command else call.host_inside)
        return Finding(K.OFFLINE if remote else None, "timed out")
    if reading.refused and reading.body is not None:
        return Finding(K.PERMISSION, "executed: false, and a verdict")
    if _is_silent_search(reading, call):
        return Finding(K.EMPTY, "exit code 1, and nothing printed")
    return None


def _is_silent_search(reading: Reading, call: Call) -> bool:
    program = (call.program or "").rpartition("/")[2]
    return reading.exit_code == 1 and not reading.error.strip() and program in SEARCHES


_GUARD = re.compile(
    r"\b(?:times|in a row|already (?:ran|made|failed)|same (?:call|error|arguments)"
    r"|repeat\w*|again|duplicate)\b",
    re.IGNORECASE,
)


def _of_refusal(error: str, folded: Folded) -> Finding | None:
    """A call that never ran: the loop speaks, and may quote an older error."""
    if _GUARD.search(error):
        return None
    for table in (STDERR, TEXT):
        found = table.first(folded, frozenset({K.PERMISSION, K.BAD_ARGS}))
        if found:
            return _finding(found)
    return None


def _finding(found: Any) -> Finding:
    row, match = found
    return Finding(row.kind, match[0], row.leaves_open)


@frozen
class Failure:
    """A failing result, ready to be read against the tables."""

    reading: Reading
    call: Call
    folded: Folded


Among = frozenset[SituationKind] | None
"""The kinds that are still open; None: all."""


def _report(failure: Failure, among: Among) -> Finding | None:
    return _in(REPORTS, failure, among)


def _codes(failure: Failure, among: Among) -> Finding | None:
    for code in failure.reading.codes:
        found = CODES.first(fold(code), among)
        if found:
            return _finding(found)
    return None


def _errno(failure: Failure, among: Among) -> Finding | None:
    return _in(ERRNO, failure, among)


def _status(failure: Failure, among: Among) -> Finding | None:
    http = failure.reading.http
    return _of_status(http, among) if http is not None else None


def _told_status(failure: Failure, among: Among) -> Finding | None:
    if failure.reading.http is not None or failure.folded.words.isdisjoint(SPOKEN):
        return None
    http = spoken_status(failure.folded)
    return _of_status(http, among) if http is not None else None


def _of_status(http: int, among: Among) -> Finding | None:
    row = status_row(http)
    if row is None or (among is not None and row.kind not in among):
        return None
    return Finding(row.kind, f"HTTP status {http}", row.leaves_open)


def _exit(failure: Failure, among: Among) -> Finding | None:
    code = failure.reading.exit_code
    row = EXITS.get(code) if code is not None else None
    if row is None or (among is not None and row.kind not in among):
        return None
    if code == 127 and _WRONG_PATH.search(failure.reading.error):
        return Finding(K.NOT_FOUND, "exit code 127 of a path")
    return Finding(row.kind, f"exit code {code}", row.leaves_open)


def _program(failure: Failure, among: Among) -> Finding | None:
    if among is not None and K.NOT_INSTALLED not in among:
        return None
    told = _NOT_FOUND_NAME.search(failure.reading.error)
    if told and told[1] not in _HEADLINES:
        return Finding(K.NOT_INSTALLED, told[0])
    if _program_is_missing(failure.reading, failure.call, failure.folded):
        return Finding(K.NOT_INSTALLED, "no such file, and it is the program")
    return None


def _stderr(failure: Failure, among: Among) -> Finding | None:
    return _in(STDERR, failure, among)


def _text(failure: Failure, among: Among) -> Finding | None:
    return _in(TEXT, failure, among)


def _lock_file(failure: Failure, among: Among) -> Finding | None:
    held = None if among is not None else _LOCK_FILE.search(failure.reading.error)
    return Finding(K.LOCKED, held[0]) if held else None


def _in(table: Signs, failure: Failure, among: Among) -> Finding | None:
    found = table.first(failure.folded, among)
    return _finding(found) if found else None


WORTH = REPORTS.worth | ERRNO.worth | STDERR.worth | TEXT.worth | SPOKEN
"""A line without one of these words says nothing to any table."""

_LOOKS = (
    _codes,
    _status,
    _exit,
    _report,
    _errno,
    _told_status,
    _program,
    _stderr,
    _text,
    _lock_file,
)
"""The precedence of specs/situations.md; each is asked only about what is still open."""

_NOT_FOUND_NAME = re.compile(
    r"^(?:\S{0,40}sh: )?(?:(?:line )?\d{1,5}: )?([\w.+-]{1,60}): not found$", re.MULTILINE
)
"""How shells without bash's words say it: the name, a colon, two words, and nothing else."""

_HEADLINES = frozenset(
    {"error", "remote", "fatal", "warning", "failed", "err", "message", "reason", "status"}
)

_WRONG_PATH = re.compile(
    r"(?:^|\n|: )(?:\.{1,2}|~)?/(?!usr/bin/env)[^:\n]{1,200}: [^:\n]{1,60}$", re.MULTILINE
)
"""A program that was called by its path, not by its name."""

_LOCK_FILE = re.compile(r"[/\\][\w.-]{0,80}\.lock['\"»“”’]")
"""A path that ends in `.lock`, quoted: language-free, and asked when no words are known."""

_OPERAND = re.compile(r"(?:directory|specified|ENOENT)[^\n'\"]{0,12}['\"]([^'\"\n]{1,200})['\"]")


def _program_is_missing(reading: Reading, call: Call, folded: Folded) -> bool:
    """Errno 2 about a program, not a file: the noun decides."""
    if "no such file" not in folded and "cannot find the file" not in folded:
        return False
    operand = _OPERAND.search(reading.error)
    named = operand[1] if operand else None
    if named is None:
        return reading.bare and call.command is not None and "cannot access" not in folded
    if named == call.program and reading.bare:
        return True
    plain = not any(mark in named for mark in "/\\. ")
    return plain and (call.starts_programs or "subprocess" in folded or "spawn" in folded)
