"""One driver's hold on one run: the lease, its renewal, the commits, and what people sent."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from loopfsm.engine.inputs import Accepted, Answer, Cancel, Command, Refuse
from loopfsm.errors import JournalRefused, LeaseLost
from loopfsm.model.event import Unit
from loopfsm.model.loop_state import RunState
from loopfsm.model.record import Message, Origin, Word
from loopfsm.ports import Clock, Journal, Lease

log = logging.getLogger("loopfsm")

LOOK_EVERY_S = 0.5
"""How often a driver looks whether somebody sent a word: it notices within a second."""

RENEWALS = 3
"""How often a lease is renewed in the time that it lasts."""


class Tenure:
    """The right of one `Loop` to drive its run, taken for each drive and given back after it."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        rows: Mapping[str, str],
        origin: Origin,
        *,
        epoch: int | None,
    ) -> None:
        self.journal = journal
        self._clock = clock
        self._rows = rows
        self._origin = origin
        self._epoch = epoch
        """The epoch of which the state at hand is; None: the journal does not know the run yet."""
        self._lease: Lease | None = None
        self._lease_s = 0.0
        self._renewed_at = 0.0

    def enter(self, state: RunState) -> bool:
        """Take the lease of the run; whether somebody else has driven it since `state`.

        Raises:
            LeaseHeld: somebody else drives it.
        """
        now, run_id = self._clock.now(), state.run.id
        if self._epoch is None:
            self.journal.create(state, now, self._origin)
            self._epoch = 0
        self._lease_s = state.plan.policy.lease_s
        self._lease = self.journal.acquire(run_id, now, self._lease_s, self._rows)
        self._renewed_at = now
        others = self._lease.epoch != self._epoch + 1
        self._epoch = self._lease.epoch
        return others

    def commit(
        self, units: Sequence[Unit], after: RunState, now: float, commands: Iterable[Command]
    ) -> None:
        """Make one commit of the units, with the replies to those who sent a word.

        Raises:
            LeaseLost: another driver has taken the run over; nothing was written.
        """
        assert self._lease is not None  # whoever commits has entered
        replies = {
            command.token: "" if isinstance(command, Accepted) else str(command.error)
            for command in commands
            if isinstance(command, (Accepted, Refuse))
        }
        if units or replies:
            self._lease.append(units, after, now, replies)
            self._renewed_at = now

    def look(self) -> list[Answer | Cancel]:
        """What people sent since; the lease is renewed when it is time.

        Raises:
            LeaseLost: another driver has taken the run over.
        """
        assert self._lease is not None  # whoever looks has entered
        now = self._clock.now()
        if now - self._renewed_at >= self._lease_s / RENEWALS:
            self._lease.renew(now)
            self._renewed_at = now
        return [input_of(message) for message in self._lease.messages()]

    def leave(self) -> None:
        """Give the lease back, as far as that can be done."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            lease.release(self._clock.now())
        except (JournalRefused, LeaseLost) as error:
            log.warning("the lease was not given back: %s", error)


def input_of(message: Message) -> Answer | Cancel:
    """What a message says to the core."""
    if message.word is Word.CANCEL:
        return Cancel(message.said or "cancelled", message.token)
    return Answer(
        subject=message.subject,
        question=message.question,
        choice=message.choice,
        token=message.token,
        said=message.said,
        raised_to=message.raised_to,
    )
