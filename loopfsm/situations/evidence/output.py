"""What a whole output, or a line of its own in it, says about itself.

These are the only words of a successful result that count: they say that there is less than it
seems. A word inside an output is just what the output is about.
"""

from __future__ import annotations

import re

# What nobody looked for: "no errors found" is an answer, and a good one.
_VERDICTS = (
    r"error|errors|problem|problems|vulnerabilit\w+|warning|warnings|conflict|conflicts|change|changes"
    r"|difference|differences|update|updates|upgrades|issues found|failures|regressions|leaks"
)

NOTHING_FOUND = re.compile(
    rf"\W*(?:(?:there (?:are|is|were|was) )?(?:no|zero|0)(?! (?:{_VERDICTS})\b)(?: [^\n]{{1,60}})?"
    r" (?:found|match(?:es|ed|ing)?|results?|rows?(?: in set)?|entries|items|records|hits|documents|files|available"
    r"|returned|to show|to display|reported|exist|in (?:this |the )?[^\n ]{1,60})(?![^\n]{0,20} affected)[^\n]{0,120}"
    r"|(?:there (?:are|were) )no [a-z ]{1,40} in [^\n]{1,60}"
    r"|(?:no|zero|0) (?:results?|matches|rows|hits|records|entries|items|documents)\W*"
    r"|no (?:open |closed )?[a-z ]{1,40} match(?:ed)? (?:your|the) [^\n]{1,80}"
    r"|(?:nothing|none)(?: was| were)?(?: found| matched| to show)?\W*"
    r"|empty (?:set|result|results)\b[^\n]{0,40}|not? (?:found|match)\W*"
    r"|(?:found )?0 (?:results?|matches|hits|files|documents|items)[^\n]{0,60}"
    r"|your search[^\n]{0,80}(?:did not match|no results)[^\n]{0,80}"
    r"|no (?:more|further|other|additional) (?:content|results?|pages?|data|items|entries|output)[^\n]{0,40}"
    r"|\[\s*\]|\{\s*\})\s*(?:\n(?:time|elapsed)[^\n]{0,40})?\s*",
    re.IGNORECASE,
)
"""Matched against the whole of a short output (R13)."""

NO_ROWS = re.compile(r"\(?0 rows?(?: in set)?[^\n]{0,20}\)?", re.IGNORECASE)
"""The last line of a table without rows."""

MOST_NOTHING = 300
"""Characters of an output that may be a no-results line."""

TRUNCATED = re.compile(
    r"^[^\w\n]{0,12}(?:warning: )?(?:(?:\d[\d,.]* |more |output |content |response |file |result |text |lines? |the |was |is |has |been |chars? |characters )*truncat(?:ed|ion|ing)?\b"
    r"|showing (?:lines?|first|last|only)\b[^\n]{0,60}(?:full output|of \d|\d[kmb]{1,2}\b)"
    r"|line \d+ is [\d.]+ ?[kmg]b, exceeds\b|\d[\d,]* (?:more )?(?:lines?|characters|chars|bytes|tokens|items|rows|results)(?: were)? (?:omitted|truncated|elided|hidden|skipped|not shown)\b"
    r"|(?:output|response|content|file|result)s? (?:too (?:large|long)|exceed(?:s|ed)|limited to|cut)\b|snip(?:ped)?\b\W*$|(?:file|output|result) has (?:\d+ )?more (?:lines|content|results))"
    r"[^\n]{0,200}$"
    r"|(?:\.\.\.|…|\[|\(|（|【)\W{0,3}(?:已?截断|内容过长|已省略|以下省略|tronqué|truncado|troncato|gekürzt|abgeschnitten|обрезано|省略されました)"
    r"|^error: [^\n]{0,120}exceeds maximum allowed (?:tokens|size|characters)|(?:\.\.\.|…) ?[\[(<][^\n]{0,20}truncated[^\n]{0,30}[\])>]"
    r"|[\[(<](?:output |content |response )?truncated[^\n]{0,60}[\])>]\W*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Matched against the lines of an output that have one of TRUNCATED_CUES (R14)."""

TRUNCATED_CUES = ("trunc", "omitted", "showing", "exceed", "too large", " more ", "[snip")
FOREIGN_CUES = ("截断", "省略", "过长", "tronqu", "troncat", "gekürzt", "geschnitten", "обрезан")

HAND_CUT = re.compile(r"-{2,} ?truncated ?-{2,}", re.IGNORECASE)
"""A cut that somebody made by hand in a quotation says nothing about this output."""

MOJIBAKE = re.compile("[ÂÃâÐÑ][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|[åæçéè][\u0080-\u00bf]")
"""Two bytes of UTF-8 that were read as one-byte letters."""

BINARY_MATCH = re.compile(
    r"\s*(?:grep: )?(?:binary file .{1,200} matches|\[binary[^\n]{0,80}\])\W*", re.IGNORECASE
)
"""A search that found something it will not show, or a placeholder for bytes."""
