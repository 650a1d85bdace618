"""`loopfsm cancel RUN`: nothing new starts, what is under way ends, the run is given up."""

from __future__ import annotations

import argparse
import time
import uuid

from loopfsm.cli.exits import CLEAN
from loopfsm.cli.finding import find_run
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import looked_at, place_of
from loopfsm.cli.word import send
from loopfsm.errors import DriveRefused
from loopfsm.model.loop_state import ENDED
from loopfsm.model.record import Message, Word


def do(args: argparse.Namespace) -> int:
    """Cancel the run `args.run`; 0: the cancel stands, whoever carries it out."""
    place = place_of(args.journal)
    with looked_at(place) as journal:
        header = find_run(journal, args.run)
    if header.state in ENDED:
        problem = f"the run {header.run_id} has ended as {header.state.value}"
        raise DriveRefused(problem, "There is nothing left to cancel")
    message = Message(token=uuid.uuid4().hex, word=Word.CANCEL, said=args.say, sent_at=time.time())
    follow_up = FollowUp(header.run_id, place)
    return send(message, follow_up, code_of=lambda _: CLEAN, as_json=args.json)
