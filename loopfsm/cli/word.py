"""A person's word to a run: left in its journal, taken by whoever drives it, else by us."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import frozen

from loopfsm.cli.drive import GOES_ON, CodeOf, Drive, finished_first, tell_run
from loopfsm.cli.exits import BAD_INPUT, CLEAN, INTERRUPTED
from loopfsm.cli.finding import driver_told, is_driven
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import changed
from loopfsm.cli.printing import clean, json_line, one_line
from loopfsm.cli.refusing import tell_left
from loopfsm.cli.resume import changed_plan_of, taken_up
from loopfsm.cli.streams import complain, say
from loopfsm.engine.loop import Loop
from loopfsm.engine.state import state_from
from loopfsm.errors import LeaseHeld
from loopfsm.model.loop_state import ENDED
from loopfsm.model.record import Header, Message, Word
from loopfsm.ports import Journal

LOOK_EVERY_S = 0.2
"""How often one looks for the reply of a live driver."""

PATIENCE_S = 2.0
"""After that time without a reply, one says what is waited for."""


def send(message: Message, follow_up: FollowUp, *, code_of: CodeOf, as_json: bool) -> int:
    """Leave the word, and see to it that somebody takes it; the exit code comes back.

    `code_of` says what an accepted word ends with, when this process has driven the run on.

    Raises:
        AnswerRefused: the token was used before; nothing has changed.
        DriveRefused: nobody drives the run, and it cannot be taken up here.
    """
    with changed(follow_up.place) as journal:
        header = journal.header(follow_up.run_id)
        if header.origin.text and not is_driven(header):
            taken_up(journal, header)  # else the word would lie there, and nobody could take it
        journal.send(follow_up.run_id, message)
        try:
            return _Sent(journal, message, follow_up, code_of, as_json).settled()
        except KeyboardInterrupt:
            says = "the word stays in the journal, for whoever drives the run next"
            run_id, resume = follow_up.run_id, follow_up.resume
            tell_left(as_json=as_json, run_id=run_id, says=says, resume=resume)
            return INTERRUPTED


@frozen
class _Sent:
    """A word on its way."""

    journal: Journal
    message: Message
    follow_up: FollowUp
    code_of: CodeOf
    as_json: bool

    def settled(self) -> int:
        """Wait for the reply while somebody drives the run; else drive it, if that can be."""
        says_at, has_said = time.monotonic() + PATIENCE_S, False
        while True:
            header = self.journal.header(self.follow_up.run_id)  # before the reply is looked for
            if self._reply() is not None:
                return self._told(driver_told(header))
            if is_driven(header):
                if not has_said and time.monotonic() > says_at:
                    complain(f"waiting for {clean(driver_told(header))} to take the word")
                    has_said = True
                time.sleep(LOOK_EVERY_S)
                continue
            if header.state in ENDED:
                return self._told("", f"refused: the run has ended as {header.state.value}")
            if not header.origin.text:
                return self._recorded()
            code = self._driven(header)
            if code is not None:
                return code

    def _driven(self, header: Header) -> int | None:
        """Take the run up and drive it on; None: somebody else was faster."""
        loop, changed_plan = taken_up(self.journal, header), changed_plan_of(header.origin)
        if loop.state.ending is not None:
            return None
        drive = Drive(
            loop,
            self.follow_up,
            self.as_json,
            begun=self._begun(loop, changed_plan),
            code_of=lambda state: BAD_INPUT if self._reply() else self.code_of(state),
        )
        try:
            return drive.to_the_end()
        except LeaseHeld:
            return None

    def _begun(self, loop: Loop, changed_plan: str) -> Callable[[], None]:
        def begun() -> None:
            tell_run(
                loop.state,
                self.follow_up,
                as_json=self.as_json,
                becomes=GOES_ON,
                changed_plan=changed_plan,
            )
            if self._reply() is not None:
                self._told("")

        return begun

    def _reply(self) -> str | None:
        message = self.journal.message(self.follow_up.run_id, self.message.token)
        return None if message is None else message.reply

    def _told(self, driver: str, refusal: str = "") -> int:
        """Tell what became of the word."""
        refusal = refusal or self._reply() or ""
        code = BAD_INPUT if refusal else CLEAN
        if self.as_json:
            self._tell_reply(accepted=not refusal, reason=refusal)
        elif refusal:
            complain(one_line(refusal))
        else:
            by = f" by {one_line(driver)}" if driver else ""
            say(f"accepted{by}{self._first(driver)}")
        return code

    def _recorded(self) -> int:
        """Only the program that began the run has its tools: the word stays in the inbox."""
        says = "the program that began the run takes it when it drives the run on"
        if self.as_json:
            self._tell_reply(accepted=None, reason=says)
        else:
            say(f"recorded: {says}")
        return CLEAN

    def _tell_reply(self, *, accepted: bool | None, reason: str) -> None:
        data = {
            "type": "reply",
            "run_id": self.follow_up.run_id,
            "token": self.message.token,
            "accepted": accepted,
            "reason": reason,
        }
        say(json_line(data))

    def _first(self, driver: str) -> str:
        """What a live driver does before a cancel takes effect, in words."""
        if not driver or self.message.word is not Word.CANCEL:
            return ""
        running = tuple(state_from(self.journal.load(self.follow_up.run_id)).in_flight)
        return f": {one_line(finished_first(running))}" if running else ""
