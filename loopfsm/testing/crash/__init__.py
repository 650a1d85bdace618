"""Does a run survive the death of its process? Real processes, a real journal, real SIGKILLs.

    python -m loopfsm.testing.crash                   every kill of every scenario
    python -m loopfsm.testing.crash --sample 10       some of them, drawn from a seed

A kill is placed by journal position: right before or right after a commit, or during a call
of a tool, once it has acted. `scenarios.py` says what is run, `worker.py` is the process that
kills itself, `matrix.py` starts it, takes the run up again and says what must have held.
POSIX only.
"""

from __future__ import annotations

from loopfsm.testing.crash.kills import Kill
from loopfsm.testing.crash.matrix import Case, Seen, kills_of, report, run_case, uncrashed
from loopfsm.testing.crash.scenarios import MATRIX, SCENARIOS, Scenario

__all__ = [
    "MATRIX",
    "SCENARIOS",
    "Case",
    "Kill",
    "Scenario",
    "Seen",
    "kills_of",
    "report",
    "run_case",
    "uncrashed",
]
