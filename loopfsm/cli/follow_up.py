"""The commands that a person can give next, as they are typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from attrs import frozen

from loopfsm.cli.place import Place
from loopfsm.model.question import Choice, Question

NEW_LIMIT = "N"
"""Stands for the number that a person has to choose."""


@frozen
class Offer:
    """One answer that a question takes: the choice, what it does, the command that gives it."""

    choice: str
    does: str
    command: str


@frozen
class FollowUp:
    """What can be said to one run, in one journal."""

    run_id: str
    place: Place

    @property
    def is_possible(self) -> bool:
        """Another process can take the run up."""
        return self.place.path is not None

    @property
    def resume(self) -> str:
        """The command that goes on with the run."""
        return self.command("resume")

    def command(self, name: str, *words: str, options: Sequence[str] = ()) -> str:
        """A command about the run; `--journal` is in it when it has to be."""
        if not self.place.is_usual:
            options = (*options, "--journal", str(self.place))
        said = (self.run_id, *words)
        # options first: a name that begins with a dash is no option after `--`
        if any(word.startswith("-") for word in said):
            return shlex.join(("loopfsm", name, *options, "--", *said))
        return shlex.join(("loopfsm", name, *said, *options))

    def offers(self, question: Question) -> tuple[Offer, ...]:
        """Every answer that the question takes; none when nobody could take it."""
        if not self.is_possible:
            return ()
        return tuple(
            Offer(choice, _told(question, choice, does), self._answer(question, choice))
            for choice, does in question.choices.items()
        )

    def _answer(self, question: Question, choice: str) -> str:
        to = ("--to", NEW_LIMIT) if choice == Choice.RAISE else ()
        return self.command("answer", question.subject, choice, options=to)


def _told(question: Question, choice: str, does: str) -> str:
    spent = question.context.get("spent")
    if choice == Choice.RAISE and spent is not None:
        return f"{does} ({NEW_LIMIT}: above {spent:g})"
    return does
