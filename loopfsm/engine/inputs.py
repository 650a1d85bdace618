"""What goes into `advance` and what comes out: inputs, and commands to perform.

Inputs are facts that have happened (a result came, a timer is due, a person answered);
commands are the only way in which the core reaches the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from loopfsm.errors import AnswerRefused
from loopfsm.model.failure import FailureKind
from loopfsm.ports import Judgement

# Inputs


@frozen
class Drive:
    """Somebody drives the run from now on: for the first time, or again."""

    resumed: bool = False
    """The process that drove it before has died: what it had under way is interrupted."""


@frozen
class Park:
    """Nobody drives the run any more: nothing starts, and no time is charged."""


@frozen(kw_only=True)
class Result:
    """An attempt ended. `failure` is None when the tool succeeded.

    A synchronous evaluator or verifier has judged already; None: ask for it.
    """

    step_id: str
    attempt: int
    output: Any = None
    failure: FailureKind | None = None
    message: str = ""
    evidence: Mapping[str, Any] = field(factory=dict)
    evaluation: Judgement | None = None
    verification: Judgement | None = None
    tokens: int = 0
    cost: float = 0.0


@frozen(kw_only=True)
class Judged:
    """An awaited evaluator or verifier answered."""

    step_id: str
    attempt: int
    evaluation: Judgement | None = None
    verification: Judgement | None = None
    tokens: int = 0
    cost: float = 0.0


@frozen
class Due:
    """The moment came that a step in RETRY_PENDING waits for."""

    step_id: str


@frozen
class Expired:
    """The deadline of a question has passed."""

    question_id: str


@frozen
class Prepared:
    """The preparation of a planned recovery ended: with a value, or with an error."""

    failure_id: str
    plan: int
    """Which planning of that failure was prepared."""
    value: Any = None
    error: str = ""
    evidence: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class Answer:
    """A person's word about a step, or about the run (`subject` = "run")."""

    subject: str
    choice: str
    token: str
    question: str = ""
    """The id of the question that is meant; empty: whichever is open about the subject."""
    said: str = ""
    raised_to: float | None = None


@frozen
class Cancel:
    """A person wants the run to stop: nothing new starts, what is under way ends."""

    reason: str = "cancelled"
    token: str = ""
    """Makes the word unique, as that of an answer does; empty: nobody waits for a reply."""


Input = Drive | Park | Result | Judged | Due | Expired | Prepared | Answer | Cancel

# Commands


@frozen
class CallTool:
    """Begin an attempt: resolve its args, call its tool, feed a `Result` back."""

    step_id: str
    attempt: int


@frozen
class Evaluate:
    """Ask the evaluator about the recorded output; feed `Judged` back."""

    step_id: str
    attempt: int


@frozen
class Verify:
    """Ask the verifier whether the world shows it; feed `Judged` back."""

    step_id: str
    attempt: int


@frozen
class Prepare:
    """Await the preparation of a planned recovery; feed `Prepared` back."""

    failure_id: str
    plan: int


@frozen
class WakeAt:
    """Feed `then` back at `at` (seconds of the run's clock)."""

    at: float
    then: Due | Expired


@frozen
class Accepted:
    """The word with this token is used, and durable."""

    token: str


@frozen
class Refuse:
    """The word with this token is refused, and changed nothing."""

    token: str
    error: AnswerRefused


Command = CallTool | Evaluate | Verify | Prepare | WakeAt | Accepted | Refuse
