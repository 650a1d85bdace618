"""A question to a person: about one step, or about the run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any

from attrs import field, frozen


class QuestionState(Enum):
    """Where a question stands."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"


class Choice(StrEnum):
    """What a person can order."""

    RETRY = "retry"
    SKIP = "skip"
    STOP = "stop"
    RAISE = "raise"
    """Raise the spent budget, to a number that comes with the answer."""


@frozen(kw_only=True)
class Question:
    """What is asked, about what, with which choices, and what came of it."""

    number: int
    """Counts the questions of the run from 1."""
    subject: str
    """The id of the step, or `RUN`."""
    failure_id: str
    text: str
    choices: Mapping[str, str]
    """Each choice with one line that says what it does."""
    context: Mapping[str, Any] = field(factory=dict)
    asked_at: float
    deadline: float | None = None
    state: QuestionState = QuestionState.OPEN
    choice: str | None = None
    said: str = ""
    raised_to: float | None = None
    token: str | None = None
    """The unique token of the answer that was accepted."""
    answered_at: float | None = None

    @property
    def id(self) -> str:
        return f"Q{self.number}"
