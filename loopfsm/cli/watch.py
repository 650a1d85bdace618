"""`loopfsm watch RUN`: follow a run from its beginning, for as long as somebody drives it."""

from __future__ import annotations

import argparse
import time

from loopfsm.cli.drive import is_at_rest, tell_outcome, tell_run
from loopfsm.cli.exits import EXIT_OF, INTERRUPTED
from loopfsm.cli.finding import find_run, how_to_go_on, is_driven
from loopfsm.cli.follow_up import FollowUp
from loopfsm.cli.place import looked_at, place_of
from loopfsm.cli.printing import clean
from loopfsm.cli.progress import JsonProgress, PlainProgress
from loopfsm.cli.refusing import tell_left
from loopfsm.cli.streams import say
from loopfsm.cli.summary import standing_lines
from loopfsm.engine.outcome import outcome_of
from loopfsm.engine.state import state_from
from loopfsm.model.loop_state import ENDED, RunState
from loopfsm.model.record import Header

LOOK_EVERY_S = 0.3
"""How often one looks for new events."""


def do(args: argparse.Namespace) -> int:
    """Tell what happens in the run `args.run` until it ends, or nobody drives it any more."""
    place = place_of(args.journal)
    with looked_at(place) as journal:
        run_id = find_run(journal, args.run).run_id
        follow_up = FollowUp(run_id, place)
        state = state_from(journal.load(run_id))
        tell_run(state, follow_up, as_json=args.json)
    try:
        return _followed(follow_up, as_json=args.json)
    except KeyboardInterrupt:
        says = "nobody watches now; the run goes on as it was"
        tell_left(as_json=args.json, run_id=run_id, says=says, resume=follow_up.resume)
        return INTERRUPTED


def _followed(follow_up: FollowUp, *, as_json: bool) -> int:
    """Tell the events as they come, and at the end how the run is left."""
    progress = JsonProgress(say) if as_json else PlainProgress(say)
    run_id, told = follow_up.run_id, 0
    while True:
        # The journal is opened anew: whoever drives the run may come and go meanwhile.
        with looked_at(follow_up.place) as journal:
            header = journal.header(run_id)  # before its events: they are at least as new
            for event in journal.events(run_id, after=told):
                told += 1
                progress.event(event, told)
            if header.state in ENDED or not is_driven(header):
                progress.end()
                state = state_from(journal.load(run_id))
                return _left(header, state, follow_up, as_json=as_json)
        time.sleep(LOOK_EVERY_S)


def _left(header: Header, state: RunState, follow_up: FollowUp, *, as_json: bool) -> int:
    if not is_at_rest(state):
        return _nobody(header, state, follow_up, as_json=as_json)
    code = EXIT_OF[state.run.state]
    tell_outcome(outcome_of(state), state, follow_up, code=code, as_json=as_json)
    return code


def _nobody(header: Header, state: RunState, follow_up: FollowUp, *, as_json: bool) -> int:
    says = "nobody drives it"
    if as_json:
        tell_left(as_json=True, run_id=follow_up.run_id, says=says, resume=follow_up.resume)
    else:
        for line in standing_lines(outcome_of(state), state, follow_up):
            say(line)
        say(clean(f"{says}; {how_to_go_on(header, follow_up)}"))
    return INTERRUPTED
