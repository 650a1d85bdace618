"""What a journal knows of a run beside its nouns: who drives it, what people sent, what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from attrs import field, frozen

from loopfsm.model.failure import RUN, Failure
from loopfsm.model.loop_state import LoopState, Map, Run, StoredSteps
from loopfsm.model.plan import Plan
from loopfsm.model.question import Question
from loopfsm.model.step import EMPTY, Step


@frozen(kw_only=True)
class Holder:
    """The process that holds the lease of a run."""

    host: str
    boot: str
    """Identifies the boot of the host (and its process namespace): pids mean nothing elsewhere."""
    pid: int
    started: str
    """When the process started, in the host's own words: pids are used again."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@frozen(kw_only=True)
class Hold:
    """Who drives a run, and until when it may be silent."""

    holder: Holder
    epoch: int
    """Rises by one with every driver the run has had."""
    until: float


class Word(Enum):
    """What anyone may say to a run."""

    ANSWER = "answer"
    CANCEL = "cancel"


@frozen(kw_only=True)
class Message:
    """A person's word on its way to whoever drives the run."""

    token: str
    """Makes the word unique within its run: it is used once, however often it is sent."""
    word: Word
    subject: str = RUN
    """The step that an answer is about, or `RUN`."""
    question: str = ""
    """The id of the question that is answered; empty: whichever is open about the subject."""
    choice: str = ""
    said: str = ""
    raised_to: float | None = None
    sent_at: float = 0.0
    reply: str | None = None
    """None: not read yet; empty: accepted, and durable; else why it was refused."""

    @property
    def accepted(self) -> bool:
        """It was taken, and its effect is durable."""
        return self.reply == ""


@frozen(kw_only=True)
class Origin:
    """Where a run comes from. Whoever resumes it finds here what the plan itself does not say."""

    path: str = ""
    """The plan file, as it was named."""
    directory: str = ""
    """Where the plan file stood: tools are imported from there."""
    text: str = ""
    """The plan file itself, so that a later edit of the file changes nothing here."""


@frozen(kw_only=True)
class Header:
    """One run of a journal, as a list of runs shows it."""

    run_id: str
    goal: str
    state: LoopState
    created_at: float
    changed_at: float
    """When the last commit was made."""
    steps: int
    events: int
    commits: int
    hash: str
    """The end of the chain: it stands for every event before it."""
    origin: Origin = field(factory=Origin)
    hold: Hold | None = None
    """None: nobody drives it."""
    version: str = ""
    """The version of the library that created the run."""


@frozen(kw_only=True)
class Record:
    """A run read back: its nouns, and the rows it has used."""

    run: Run
    plan: Plan
    steps: Map[str, Step] | StoredSteps
    failures: Iterable[Failure] = ()
    questions: Iterable[Question] = ()
    spent: Mapping[str, float] = field(default=EMPTY)
    rows: Mapping[str, str] = field(default=EMPTY)
    """The id of every row that the run has used, with its fingerprint."""
    tools: Mapping[str, int] = field(default=EMPTY)
    """The tools that unfinished steps need, each with the position of the first such step."""
    epoch: int = 0


Restore = Callable[[str, Any], Any]
"""`restore(tool, data)`: what a tool returned, in the type that the tool says it returns."""
