"""One row of a table of evidence, and the folded text that rows are read against.

Folding takes a text apart into words, also inside names: `PermissionDenied`, `permission_denied`
and `permission-denied` are all `permission denied`. Lines stay lines; all other punctuation goes.

A row has phrases: patterns over folded words, in which `…` stands for up to some eight words of
the same line. Of each phrase the words that it cannot do without are worked out once, so that
most phrases cost nothing: their word is not in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from attrs import field, frozen

from loopfsm.model.situation import SituationKind

ANY: frozenset[SituationKind] = frozenset(SituationKind)

_INSIDE = re.compile(r"[A-Z](?:(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]))")
"""Where a name that is written in one starts its next word."""

_OTHER = "«»“”„‘’‚‹›…–—·：，。；、（）【】「」！？｜│└├─×▸●✗❌✖"
_SPACES = str.maketrans(
    {chr(n): " " for n in range(128) if not chr(n).isalnum() and chr(n) != "\n"}
    | dict.fromkeys(_OTHER, " ")
)


@frozen
class Folded:
    """A text in folded form: its lines, each with its words, and the words of all of them."""

    lines: tuple[tuple[str, frozenset[str]], ...]
    words: frozenset[str]

    def __contains__(self, words: str) -> bool:
        return any(words in line for line, _ in self.lines)


_NOTHING: frozenset[str] = frozenset()


def fold(text: str, worth: frozenset[str] | None = None) -> Folded:
    """The words of a text, in lower case, one space around each, a line end around each line.

    With `worth`, only lines that have one of these words are kept. `doesn't` is `does not`,
    and `can't` is `ca not`.
    """
    if "n't" in text or "n’t" in text:
        text = text.replace("n't", " not").replace("n’t", " not")
    lines = []
    for line in _INSIDE.sub(r" \g<0>", text).translate(_SPACES).lower().split("\n"):
        words = line.split()
        if worth is None or not worth.isdisjoint(words):
            lines.append((f" \n {' '.join(words)} \n ", frozenset(words)))
    return Folded(tuple(lines), _NOTHING.union(*(words for _, words in lines)))


GAP = r"\b[^\n]{0,48}\b"
"""What `…` in a phrase means."""

_COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "cannot",
        "could",
        "error",
        "failed",
        "for",
        "from",
        "has",
        "have",
        "in",
        "invalid",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "unable",
        "was",
        "with",
        "you",
        "your",
    ]
)
"""Words that many failures have: a phrase is better known by another of its words."""

_PLAIN = re.compile(r"[^\W\d_]+(?:s\?)?")
_LOOKING_ON = re.compile(r"\(\?[=!].*\)$")
_ENDINGS = re.compile(r"([^\W\d_]+)\(\?:([^\W\d_]+(?:\|[^\W\d_]+)*)\)(\??)")


@frozen
class Phrase:
    """One pattern, and the words that a text must have."""

    text: str
    needs: tuple[frozenset[str], ...]
    """Of each of these sets a text must have a word; the rarest set comes first."""


@frozen(kw_only=True)
class Sign:
    """One row: a text in which one of the phrases stands looks like `kind`."""

    kind: SituationKind | None
    """None: it looks like a failure of which nothing more can be said."""
    phrases: tuple[str, ...]
    why: str
    leaves_open: frozenset[SituationKind] = frozenset()
    """Kinds that weaker evidence may still name, because this row cannot tell them apart."""


@frozen
class Signs:
    """A table in its order: the first row that holds wins."""

    rows: tuple[Sign, ...]
    _phrases: tuple[tuple[int, Phrase], ...] = field(init=False, repr=False)
    _by_word: Mapping[str, tuple[int, ...]] = field(init=False, repr=False)
    _always: tuple[int, ...] = field(init=False, repr=False)
    worth: frozenset[str] = field(init=False, repr=False)
    """The words of which a line must have one to say anything."""

    def __attrs_post_init__(self) -> None:
        phrases = [
            (place, phrase)
            for place, row in enumerate(self.rows)
            for text in row.phrases
            for phrase in map(phrase_of, alternatives(text))
        ]
        index: dict[str, list[int]] = {}
        always: list[int] = []
        for number, (_, phrase) in enumerate(phrases):
            if not phrase.needs:
                always.append(number)
            for word in phrase.needs[0] if phrase.needs else ():
                index.setdefault(word, []).append(number)
        object.__setattr__(self, "_phrases", tuple(phrases))
        object.__setattr__(self, "_by_word", {k: tuple(v) for k, v in index.items()})
        object.__setattr__(self, "_always", tuple(always))
        object.__setattr__(self, "worth", frozenset(index))

    def first(
        self,
        folded: Folded,
        among: frozenset[SituationKind] | None = None,
    ) -> tuple[Sign, re.Match[str]] | None:
        """The first row that holds for the text, and what it matched."""
        words = folded.words
        numbers = set(self._always)
        for word in words & self._by_word.keys():
            numbers.update(self._by_word[word])
        for number in sorted(numbers):
            place, phrase = self._phrases[number]
            row = self.rows[place]
            if among is not None and row.kind not in among:
                continue
            found = _found(phrase, folded)
            if found:
                return row, found
        return None


def _found(phrase: Phrase, folded: Folded) -> re.Match[str] | None:
    """Where the phrase stands: in one line, which has a word of each set that it needs."""
    for needed in phrase.needs:
        if folded.words.isdisjoint(needed):
            return None
    for line, words in folded.lines:
        for needed in phrase.needs:
            if words.isdisjoint(needed):
                break
        else:
            found = compiled(phrase.text).search(line)
            if found:
                return found
    return None


@cache
def compiled(phrase: str) -> re.Pattern[str]:
    """A phrase as a pattern over folded text; made when first needed, which most never are."""
    return re.compile(rf" (?:{phrase.replace('…', GAP)})(?= )")


# The words that a phrase needs


def phrase_of(text: str) -> Phrase:
    """A phrase with the words that it cannot do without."""
    return Phrase(text, tuple(sorted(_needed(text), key=_cost)))


def _cost(words: frozenset[str]) -> tuple[int, int]:
    return len(words & _COMMON), len(words)


def alternatives(text: str) -> list[str]:
    """The phrase at its outermost `|`."""
    found, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "|" and depth == 0:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]]


def _needed(text: str) -> Iterator[frozenset[str]]:
    """For each part that must be there: the words of which it needs one."""
    for each in _parts(text):
        part = _without_optional(_LOOKING_ON.sub("", each))
        if _PLAIN.fullmatch(part):
            yield _forms(part)
        elif _ENDINGS.fullmatch(part):
            yield _with_endings(part)
        elif part.startswith("(?:") and _closing(part) == len(part) - 1:
            ways = [_one_of(way) for way in alternatives(part[3:-1])]
            if all(ways):
                yield _NOTHING.union(*ways)
        elif part.startswith("(?:") and part.endswith(")s?"):
            ways = [_one_of(way) for way in alternatives(part[3:-3])]
            if all(ways):
                yield _NOTHING.union(*ways, *({word + "s" for word in way} for way in ways))


def _without_optional(part: str) -> str:
    """What is left behind optional groups that end with a space: `(?:the )?host` -> `host`."""
    while part.startswith("(?:"):
        end = _closing(part)
        if part[end + 1 : end + 2] != "?" or part[end - 1] != " ":
            break
        part = part[end + 2 :]
    return part


def _closing(part: str) -> int:
    """The place of the parenthesis that closes the first one."""
    depth = 0
    for place, char in enumerate(part):
        depth += (char == "(") - (char == ")")
        if char == ")" and depth == 0:
            return place
    return -1


def _one_of(way: str) -> frozenset[str]:
    """The word by which one way through a group is known; none: it is not known."""
    return min(_needed(way), key=_cost, default=frozenset())


def _forms(word: str) -> frozenset[str]:
    return frozenset({word[:-2], word[:-1]}) if word.endswith("s?") else frozenset({word})


def _with_endings(word: str) -> frozenset[str]:
    """`exceed(?:ed|s)?` -> exceed, exceeded, exceeds."""
    found = _ENDINGS.fullmatch(word)
    assert found is not None  # its caller has asked
    stem, endings, optional = found[1], found[2].split("|"), found[3]
    return frozenset({stem + ending for ending in endings} | ({stem} if optional else set()))


def _parts(text: str) -> Iterator[str]:
    """The phrase at its outermost spaces and gaps."""
    depth, part = 0, ""
    for place, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        optional = text[place + 1 : place + 2] == "?"
        if depth == 0 and char in " …" and not optional:
            yield part
            part = ""
        else:
            part += char
    yield part
