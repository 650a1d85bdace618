"""The exit codes: one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loopfsm.model.loop_state import LoopState

EXIT_OF: Mapping[LoopState, int] = MappingProxyType(
    {
        LoopState.COMPLETED: 0,
        LoopState.FAILED: 1,
        LoopState.WAITING_FOR_HUMAN: 3,
        LoopState.ABSTAINED: 4,
        LoopState.PARTIALLY_COMPLETED: 5,
    }
)
"""What a command that drives or watches a run ends with for each state in which a driver
returns."""

CLEAN = 0
FOUND_SOMETHING = 1
"""What `prove` ends with when it has found something; `classify` when a line was an error; a run
when it broke; instead of 0, any command when its output could not be written."""
BAD_INPUT = 2
"""Nothing was started, nothing was changed; or an answer came too late."""
INTERRUPTED = 130
"""The run rests before its end, and nobody drives it."""

MEANINGS = """\
exit codes:
  0    COMPLETED (prove: clean; answer: a live driver took it, or it is
       recorded for the program that began the run; cancel: it stands, or
       is recorded; runs, show, trace, schema: shown; classify: every line)
  1    FAILED (prove: found something; classify: a line was no tool result),
       or all went well but the output could not be written
  2    bad input: nothing was started; an answer or cancel was refused
  3    WAITING_FOR_HUMAN: a question is open
  4    ABSTAINED
  5    PARTIALLY_COMPLETED: some step was skipped
  130  interrupted: the run can be resumed (watch: nobody drives it)"""
