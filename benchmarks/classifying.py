"""How often the classifier is right: `python -m benchmarks.classifying FILE`.

FILE holds JSON lines with `tool`, `args`, `result` and `expect`, in one of two forms:

* real programs' outputs: `program`, and `expect` with `kind`, `also` (a list of other kinds
  that count as right), `subject`, `interactive`. Scored as a whole, per class, per kind and
  in five fifths by program, against the targets of `TARGETS`.
* results of one agent: `id`, and `expect` with `class`, `accept_kinds`, `accept_subjects`,
  `failed`, `refused`, `source`, `raises`. Every line is to be right in all of it.

No text of a result is ever printed. Exit code 1: a target was missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from attrs import frozen

from benchmarks.figures import medians, repeated
from benchmarks.situations import LITERAL
from loopfsm.model.situation import CLASS_OF, SituationClass, SituationKind
from loopfsm.situations.classify import classify_result

NONE = "none"
RAISED = "ValueError"
"""What is found in a line that was refused: its declared situation is malformed."""

FOLDS = 5
RIGHT, PRECISION, WRONG_CLAIMS = 0.97, 0.95, 1
"""Of the first form: the share of lines to be right; per blocker kind, the precision, or else
how many claims of it may be wrong. No blocker may be claimed where there is nothing."""

CLASSES = {kind.value: CLASS_OF[kind].value for kind in SituationKind}
BLOCKERS = [kind for kind, name in CLASSES.items() if name == SituationClass.BLOCKER.value]


@frozen(kw_only=True)
class Case:
    """One line of the file: the call, and what is expected of it."""

    id: str
    program: str
    """Empty in the second form, which names none."""
    tool: str
    args: Any
    result: Any
    kind: str
    accepted: frozenset[str]
    """The kinds that count as right; `kind` is one of them."""
    facts: Mapping[str, Any]
    """Of the second form: what else has to be as it says."""
    subjects: frozenset[str]
    """The subjects that count as right; empty: none is expected."""


@frozen
class Found:
    """What the classifier says of a case."""

    case: Case
    kind: str
    facts: Mapping[str, Any]
    subject: str

    @property
    def kind_is_right(self) -> bool:
        return self.kind in self.case.accepted

    @property
    def subject_is_right(self) -> bool:
        """Asked where a situation is found that may be found."""
        claims = self.kind not in (NONE, RAISED)
        return not claims or not self.case.subjects or self.subject in self.case.subjects

    @property
    def wrong_facts(self) -> tuple[str, ...]:
        facts = dict(self.case.facts)
        if self.kind != self.case.kind:  # another kind that counts as right has its own
            facts = {name: facts[name] for name in ("failed", "refused") if name in facts}
        wrong = [name for name, value in facts.items() if self.facts.get(name) != value]
        if self.case.facts and not self.subject_is_right:
            wrong.append("subject")
        return tuple(wrong)

    @property
    def is_right(self) -> bool:
        return self.kind_is_right and not self.wrong_facts

    @property
    def counted_as(self) -> str:
        """An accepted answer counts as the expected one."""
        return self.case.kind if self.kind_is_right else self.kind


def read(path: Path) -> list[Case]:
    """The cases of a file of either form."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [case_of(json.loads(line), number) for number, line in enumerate(lines, 1) if line]


def case_of(line: Mapping[str, Any], number: int) -> Case:
    """A line of either form as a case."""
    expect = line["expect"]
    facts: Mapping[str, Any] = {}
    kind = expect["kind"] or NONE
    if "also" in expect:
        others, subjects = expect["also"], [expect["subject"]]
    else:
        others, subjects = expect["accept_kinds"], expect["accept_subjects"]
        if expect["raises"]:
            kind, others = RAISED, ()
        else:
            told = ("class", "failed", "refused", "source", "interactive")
            facts = {name: expect[name] for name in told}
    return Case(
        id=line.get("id", f"line {number}"),
        program=line.get("program", ""),
        tool=line["tool"],
        args=line.get("args", {}),
        result=line["result"],
        kind=kind,
        accepted=frozenset({kind, *(other or NONE for other in others)}),
        facts=facts,
        subjects=frozenset(each.strip().casefold() for each in subjects if each),
    )


def judged(case: Case) -> Found:
    """The case, classified. Whatever else than `ValueError` is raised is a wrong answer."""
    try:
        found = classify_result(case.tool, case.args, case.result)
    except ValueError:
        return Found(case, RAISED, {}, "")
    except Exception as error:  # noqa: BLE001  # a broken classifier is what is to be seen here
        return Found(case, f"broken: {type(error).__name__}", {}, "")
    situation = found.situation
    facts: dict[str, Any] = {
        "class": found.class_name,
        "failed": found.failed,
        "refused": found.refused,
        "source": None if situation is None else str(situation.source),
        "interactive": False if situation is None else situation.interactive,
    }
    if situation is None:
        return Found(case, NONE, facts, "")
    return Found(case, situation.kind.value, facts, situation.subject.strip().casefold())


def fold_of(program: str) -> int:
    """The fifth that a program belongs to, from 1: the same in every file."""
    return int.from_bytes(hashlib.sha256(program.encode()).digest()[:8], "big") % FOLDS + 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Score a file, print the report; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classifying")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON lines")
    parser.add_argument(
        "--without",
        type=int,
        choices=range(1, FOLDS + 1),
        metavar="N",
        help="leave out this fifth, as whoever writes rules to be measured by it has to",
    )
    parser.add_argument(
        "--speed", action="store_true", help="also measure it, against one search for a literal"
    )
    options = parser.parse_args(arguments)
    cases = read(options.file)
    if options.without:
        cases = [each for each in cases if fold_of(each.program) != options.without]
    if not cases:
        parser.error(f"{options.file} has no line to score")
    found = [judged(each) for each in cases]
    has_facts = any(each.case.facts for each in found)
    missed = list(_missed_facts(found) if has_facts else _missed(found))
    for line in report(found):
        print(line)
    if options.speed:
        print("\n".join(["", *_speed(found)]))
    for each in missed:
        print(f"MISSED: {each}")
    return 1 if missed else 0


def report(found: Sequence[Found]) -> Iterator[str]:
    """Everything there is to say, line by line."""
    yield f"right       {_share(found, lambda each: each.is_right)}"
    claims = [each for each in found if each.case.subjects and each.kind_is_right]
    claims = [each for each in claims if each.kind != NONE]
    yield f"subject     {_share(claims, lambda each: each.subject_is_right)} of the right claims"
    yield ""
    yield from _scores("class", found, lambda kind: CLASSES.get(kind, kind))
    yield ""
    yield from _scores("kind", found, lambda kind: kind)
    yield ""
    yield from _confusion(found)
    if any(each.case.program for each in found):
        yield ""
        yield "by program, in fifths; no program is in two of them"
        for fold in range(1, FOLDS + 1):
            part = [each for each in found if fold_of(each.case.program) == fold]
            programs = len({each.case.program for each in part})
            right = _share(part, lambda each: each.is_right)
            yield f"  fifth {fold}   {right}, {programs} programs"
    yield ""
    yield from _wrong(found)


def _share(found: Iterable[Found], good: Callable[[Found], bool]) -> str:
    told = [good(each) for each in found]
    return f"{sum(told)} of {len(told)} ({_percent(sum(told), len(told))})"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _scores(title: str, found: Sequence[Found], named: Callable[[str], str]) -> Iterator[str]:
    """Precision: how many claims of it are right. Recall: how many of it are found."""
    yield f"{title:<22}{'precision':>20}{'recall':>20}"
    names = [named(each.case.kind) for each in found] + [named(each.kind) for each in found]
    for name in sorted(set(names)):
        claimed = [each for each in found if named(each.kind) == name]
        expected = [each for each in found if named(each.case.kind) == name]
        cells = [
            f"{sum(good)}/{len(good)} {_percent(sum(good), len(good))}"
            for good in (
                [named(each.counted_as) == named(each.case.kind) for each in claimed],
                [named(each.counted_as) == name for each in expected],
            )
        ]
        yield f"{name:<22}{cells[0]:>20}{cells[1]:>20}"


def _confusion(found: Sequence[Found]) -> Iterator[str]:
    """A row per expected kind, a column per found one; what is accepted counts as expected."""
    counts = Counter((each.case.kind, each.counted_as) for each in found)
    names = sorted({name for pair in counts for name in pair})
    letters = {name: f"{number:>4}" for number, name in enumerate(names, 1)}
    yield f"{'expected, found':<26}" + "".join(letters.values())
    for name in names:
        cells = "".join(f"{counts[name, other] or '.':>4}" for other in names)
        yield f"{letters[name]} {name:<21}{cells}"


def _wrong(found: Sequence[Found]) -> Iterator[str]:
    wrong = [each for each in found if not each.is_right]
    yield f"wrong lines: {len(wrong)}"
    for each in wrong:
        case = each.case
        expected = " or ".join([case.kind, *sorted(case.accepted - {case.kind})])
        facts = f" ({', '.join(each.wrong_facts)})" if each.wrong_facts else ""
        yield (
            f"  {case.id:<28} {case.program or case.tool:<24} "
            f"expected {expected}, found {each.kind}{facts}"
        )


def _speed(found: Sequence[Found]) -> Iterator[str]:
    """Medians over the lines. A short text is searched in no time: see `benchmarks.situations`."""
    groups: dict[str, list[tuple[int, float]]] = {"succeeded": [], "failed": []}
    for each in found:
        case, text = each.case, json.dumps(each.case.result)
        if not each.facts:  # it was refused
            continue
        times = {
            "search": repeated(lambda text=text: re.search(LITERAL, text), 50),  # type: ignore[misc]
            "classify": repeated(lambda case=case: judged(case), 50),  # type: ignore[misc]
        }
        took = medians(times, 3, collecting=False)
        group = groups["failed" if each.facts["failed"] else "succeeded"]
        group.append((len(text), took["classify"] / took["search"]))
    for name, measured in groups.items():
        if measured:
            size, ratio = (median(column) for column in zip(*measured, strict=True))
            yield f"{name:<12}{ratio:.0f} times one re.search, medians of {len(measured)} results"
            yield f"{'':<12}{size:.0f} characters of JSON"


def _missed(found: Sequence[Found]) -> Iterator[str]:
    right = sum(each.is_right for each in found)
    if right < RIGHT * len(found):
        yield f"right: {_percent(right, len(found))}, at least {_percent(97, 100)}"
    for kind in BLOCKERS:
        claims = [each for each in found if each.kind == kind]
        wrong = sum(not each.kind_is_right for each in claims)
        if wrong > WRONG_CLAIMS and len(claims) - wrong < PRECISION * len(claims):
            yield f"{kind}: {wrong} of {len(claims)} claims are wrong"
    false = [each for each in found if each.case.kind == NONE and each.kind in BLOCKERS]
    false = [each for each in false if not each.kind_is_right]
    if false:
        yield f"a blocker where there is nothing: {', '.join(each.case.id for each in false)}"


def _missed_facts(found: Sequence[Found]) -> Iterator[str]:
    wrong = sum(not each.is_right for each in found)
    if wrong:
        yield f"{wrong} of {len(found)} lines are wrong, and every one is to be right"


if __name__ == "__main__":
    sys.exit(main())
