"""Orders to the agent inside fetched data: what makes them injections (R20).

An order counts when it is given to whoever reads by machine, and leaves the task: it overrides
what was asked, keeps something from the person, hands out secrets, or dictates the answer. A
program that says "please run" talks to the person who ran it; an article about such attacks
quotes them.
"""

from __future__ import annotations

import re

from attrs import frozen

MOST_TEXT = 24_000
"""Characters that are read for orders: most of them from the beginning."""

CUES = (
    "instruction",
    "assistant",
    "language model",
    "if you are a",
    "the user",
    "disregard",
    "ignore ",
    "credential",
    "agent",
    "token",
    "your re",
    " ai",
)
"""Without one of these no order holds; most texts cost only these looks."""

_NAMES = ("assistant", "agent", "llm", " ai", "model", "chatgpt", "copilot", "bot", "crawler")

_MACHINE = (
    r"(?:ai|llm|language|automated|autonomous|coding)[ -](?:assistants?|agents?|models?|bots?|systems?|crawlers?|tools?)"
    r"|ai|llms?|assistants?|language models?|chatgpt|copilot"
)
_SECRETS = (
    r"(?:tokens?|credentials?|passwords?|api keys?|secrets?|private keys?|ssh keys?|env(?:ironment)? variables?"
    r"|\.env|conversation|chat history|system prompt|all messages|user'?s (?:last )?(?:message|request|data|files?))"
)
_ORDER = (
    r"(?:you (?:must|should|have to|need to|are required to)|must|should|please|immediately|always|never|do not|don't|run|execute|call|ignore|include|add|append"
    r"|send|record|remember|recommend|rate|treat|mark|fetch|visit|open|download|install|delete|reply|respond|report|say|tell|print|output|summari[sz]e|forward|stop)"
)


@frozen
class Order:
    """One form of order, how much it weighs, and why. Two points make an injection."""

    weight: int
    needs: tuple[str, ...]
    """Pieces of lower-case text, one of which has to be there."""
    pattern: re.Pattern[str]
    why: str


def _order(weight: int, needs: tuple[str, ...], pattern: str, why: str) -> Order:
    return Order(weight, needs, re.compile(pattern), why)


ORDERS = (
    _order(
        2,
        _NAMES,
        rf"\b(?:note|notice|message|attention|instructions?|important|reminder|hint)s?[ :]{{1,3}}(?:to|for)(?: all| any| the)? (?:{_MACHINE})\b[^\n]{{0,120}}",
        "A note addressed to machines.",
    ),
    _order(
        2,
        _NAMES,
        rf"\bfor (?:{_MACHINE})(?:\b[^\n.]{{0,60}})?[:,]\s{{0,4}}[^\n]{{0,60}}\b{_ORDER}\b",
        "Addressed to machines, and an order follows.",
    ),
    _order(
        2,
        _NAMES,
        rf"\bif you(?:'re| are) (?:an? )?(?:{_MACHINE}|agent)\b[^\n.]{{0,80}}\b{_ORDER}\b",
        "A condition that only a machine meets, and an order.",
    ),
    _order(
        2,
        _NAMES,
        rf"(?:^|[\n.!#>*\-\"] {{0,4}})(?:{_MACHINE})[^\n.:,]{{0,40}}[:,] {{0,3}}(?:{_ORDER})\b",
        "Machines are called by name, and an order follows.",
    ),
    _order(
        2,
        ("ignore", "disregard", "forget", "override", "bypass"),
        r"\b(?:ignore|disregard|forget|override|bypass) (?:all |any |the |your |these |of )*(?:previous|prior|above|earlier|preceding|existing|system|original) (?:[a-z]+ )?(?:instructions?|prompts?|rules|guidelines|directions|directives|context|messages?|emails?|orders|tasks?|constraints)",
        "What was asked is to be forgotten.",
    ),
    _order(
        2,
        ("ignore", "disregard", "forget"),
        r"\b(?:ignore|disregard|forget) (?:everything|all|anything) (?:above|before|you (?:were|have been) told|previously|prior)",
        "What was asked is to be forgotten.",
    ),
    _order(
        2,
        ("do not", "don't", "never"),
        r"\b(?:do not|don't|never) (?:mention|tell|reveal|disclose|inform|notify|show|report|alert)[^\n.]{0,40}\b(?:user|human|operator|summary|anyone|person|developer)",
        "The person is not to know.",
    ),
    _order(
        1,
        ("your ",),
        r"\bin your (?:final )?(?:response|reply|answer|summary|output|report)\b|\b(?:end|begin|start) your (?:answer|reply|response|summary)\b|\byour (?:reply|response|answer) (?:must|should|backward|in|using|with)\b",
        "The answer is dictated.",
    ),
    _order(
        1,
        ("reply", "your ", "base64", "rot13", "backward"),
        r"\breply (?:only )?(?:using|with|in)\b|\bwrite your (?:reply|answer|response)\b|\b(?:base64|rot13|backwards?)\b",
        "The form of the answer is dictated.",
    ),
    _order(
        2,
        (
            "token",
            "credential",
            "password",
            "key",
            "secret",
            "env",
            "conversation",
            "history",
            "prompt",
            "message",
            "user",
        ),
        rf"\b(?:read|send|post|forward|upload|e-?mail|append|exfiltrate|leak|print|copy|transmit|submit|share|collect|give)\b[^\n.]{{0,60}}\b{_SECRETS}[^\n]{{0,80}}\b(?:to (?:https?:|this|the following|[\w.+-]+@|attacker|an? |that |my |our )|into this|as a (?:query|comment|reply))",
        "Secrets are to be handed out.",
    ),
    _order(
        2,
        ("user", "owner", "admin", "operator"),
        r"\b(?:user|owner|admin\w*|operator) (?:has |have )?(?:already )?(?:approved|authorized|authorised|consented|confirmed|given permission|granted)\b",
        "A leave is forged.",
    ),
    _order(
        1,
        ("post(", "curl "),
        r"\brequests?\.post\(|\bcurl [^\n]{0,80}\| {0,2}(?:ba|z)?sh\b|\bpost\(.{0,60}(?:open\(|read\()",
        "Code that hands something out or runs what it fetched.",
    ),
    _order(
        1,
        ("instructions", "from now on", "you are now", "in every "),
        r"\b(?:new|updated|additional|special|hidden) (?:system )?instructions? ?:|\bfrom now on\b|\byou are now (?:in|a|an)\b|\bin every (?:reply|response|answer|message)\b",
        "New orders are given in the place of those of the person.",
    ),
    _order(
        1,
        ("system", "developer", "assistant", "admin", "<important>"),
        r"^\W{0,6}(?:system|developer|assistant|admin)\W{0,3}[:,\]]|\n\W{0,6}(?:system|developer|assistant)\W{0,2}[:\]]|<(?:important|system)>",
        "It speaks in the name of the system, or to the assistant.",
    ),
    _order(
        1,
        ("user ", "without "),
        r"\buser (?:has )?(?:asked|told|wants|instructed|requested|ordered) you\b|\bwithout (?:any )?(?:confirmation|asking|approval|permission|telling)\b",
        "A person's order or leave is forged.",
    ),
    _order(
        1,
        ("add the following", "you must", "you should", "system prompt"),
        r"\badd the following\b[^\n]{0,60}\b(?:response|reply|answer)|\byou (?:must|should) (?:now )?(?:call|run|execute|invoke|add|use the)\b|\b(?:print|reveal|show|output|repeat|send)[^\n.]{0,20} system prompt\b",
        "An order to act.",
    ),
)

ABOUT = re.compile(
    r"\b(?:prompt[- ]injections?|injection attacks?|jailbreaks?|attackers?|adversar\w+|payloads?|red[- ]team\w*|vulnerabilit\w+ scanner|security (?:scanner|research)\w*|such as|for example|e\.g\.|people (?:like,? )?say|called|phrases? like|detects?)\b",
)
"""A text about such orders."""

AROUND_BEFORE, AROUND_AFTER = 200, 400
"""Characters around a cue that are read for orders."""

QUOTES = "“”\"'`‘’«»"
