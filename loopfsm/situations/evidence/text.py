"""What people and programs write about a failure: the weakest evidence, tried last.

The order is the law of the table. The deepest cause beats the headline: words about an account,
a holder, a credential or a refusal stand before words about a connection, and those before words
about something missing. Rate words need an account to count against; a holder makes a lock; of
what was not found the noun decides.
"""

from __future__ import annotations

from loopfsm.model.situation import SituationKind as K
from loopfsm.situations.evidence.sign import Sign, Signs
from loopfsm.situations.evidence.text_closed import CLOSED
from loopfsm.situations.evidence.text_missing import MISSING

REPORTS = Signs(
    (
        Sign(
            kind=None,
            phrases=(
                "assertion error…",
                r"\n fail(?= [^\n]{0,80}(?:test|spec))",
                r"\d+ (?:tests? )?(?:failed|failing)(?= .{0,20}passed)",
                "waiting for (?:function|selector|element)…",
                "test failures?",
                "tests? failed",
                r"failed [\w ]{0,80}py test…",
                r"assert \d+…",
                r"expected [\w ]{1,40} to (?:equal|be|match|contain|have|include|throw|eql)…",
                r"timeout of \w+ exceeded…",
            ),
            why="A test that failed reports what it tested, which may be any failure at all.",
            leaves_open=frozenset({K.OFFLINE}),
        ),
        Sign(
            kind=None,
            phrases=(
                "type check(?:ing)? (?:failed|error)…",
                r"ts\d{4} error…",
                r"error ts\d{4}…",
                r"found \d+ errors?…",
                "incompatible (?:types?|return)…",
                "cannot find (?:value|type|function|name|symbol|identifier|trait|macro|method|struct)…",
                "undefined (?:reference|variable|symbol|identifier|name|method|function)…",
                "(?:undeclared|unused) (?:identifier|variable|import|symbol|parameter|name)…",
                r"name \w+ is not defined",
                "mismatched types…",
                "not in this scope…",
            ),
            why="What a type checker complains about is the program, not the machine it runs on.",
            leaves_open=frozenset({K.SYNTAX}),
        ),
        Sign(
            kind=None,
            phrases=(
                "integrity check(?:sum)? failed…",
                r"(?:hash|checksum|digest|sha|integrity) (?:check )?mismatch…",
                "not match…(?:hash|checksum|digest)…",
                "(?:hash|checksum|digest)…not match…",
            ),
            why="What was fetched is not what was expected: nobody can be asked for that.",
        ),
    )
)
"""A report of tests: asked before anything else, since it may quote any failure at all."""

TEXT = Signs((*CLOSED, *MISSING))
"""Read against the words of a failing result, in this order."""
