"""Every kill of a scenario: start, kill, look into the journal, take up, compare."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import cpu_count
from pathlib import Path

from attrs import field, frozen

from loopfsm.engine.outcome import outcome_of
from loopfsm.engine.state import state_from
from loopfsm.errors import UnknownRun
from loopfsm.model.loop_state import LoopState, RunState
from loopfsm.model.question import Choice
from loopfsm.model.step import StepState
from loopfsm.testing.crash.kills import AFTER, BEFORE, CALLED, DURING, REPORTED, Kill
from loopfsm.testing.crash.scenarios import Scenario, calls_in
from loopfsm.testing.crash.worker import RUN_ID, journal_in

PATIENCE_S = 60
"""Seconds that a process may take before it is said to hang."""

MEASURED = ("duration_seconds",)
"""What a tool says that is another number each time."""

MOST_SHOWN = 50
"""Violations that a report lists."""

RECORDED = (StepState.EXECUTED, StepState.EVALUATED, StepState.VERIFIED_COMPLETED)
"""Where a step stands whose result is on record: its tool is not called again."""


@frozen(kw_only=True)
class Seen:
    """A run between two processes: what its journal says, and what was called outside it."""

    state: LoopState | None = None
    """None: the journal does not know the run yet."""
    stands: Mapping[str, StepState] = field(factory=dict)
    outputs: Mapping[str, str] = field(factory=dict)
    """Those of the verified steps, as JSON, without what is measured or named anew each time."""
    commits: int = 0
    calls: Counter[str] = field(factory=Counter)
    """How often the tool of a step was called. The calls of its verifier are not counted."""
    harmless: Counter[str] = field(factory=Counter)
    """How many of them reported a failure which, says the author, leaves nothing behind."""
    granted: Counter[str] = field(factory=Counter)
    """How often a person ordered the step to be repeated."""
    calls_of_all_tools: int = 0
    idempotent: frozenset[str] = frozenset()

    @property
    def running(self) -> tuple[str, ...]:
        """The steps with an attempt whose outcome the journal does not know."""
        return tuple(id for id, state in self.stands.items() if state is StepState.RUNNING)


def look(directory: Path) -> Seen:
    """What can be seen of the run in that directory, from outside."""
    journal = journal_in(directory, read_only=True)
    try:
        state = state_from(journal.load(RUN_ID))
        return _seen(directory, state, journal.header(RUN_ID).commits)
    except UnknownRun:
        return Seen()
    finally:
        journal.close()


def _seen(directory: Path, state: RunState, commits: int) -> Seen:
    called, reported = (calls_in(directory).counted(what) for what in (CALLED, REPORTED))
    specs = state.plan.steps
    trusted = [spec for spec in specs if spec.max_retries is not None]
    outputs = outcome_of(state).outputs
    return Seen(
        state=state.run.state,
        stands={spec.id: state.step(spec.id).state for spec in specs},
        outputs={name: _comparable(value, directory) for name, value in outputs.items()},
        commits=commits,
        calls=Counter({spec.id: called[spec.tool, spec.id] for spec in specs}),
        harmless=Counter({spec.id: reported[spec.tool, spec.id] for spec in trusted}),
        granted=_granted(state),
        calls_of_all_tools=called.total(),
        idempotent=frozenset(spec.id for spec in specs if spec.idempotent),
    )


def _comparable(output: object, directory: Path) -> str:
    if isinstance(output, Mapping):
        output = {key: item for key, item in output.items() if key not in MEASURED}
    text = json.dumps(output, sort_keys=True, default=repr)
    return text.replace(str(directory), "DIRECTORY")


def _granted(state: RunState) -> Counter[str]:
    return Counter(q.subject for q in state.questions.values() if q.choice == Choice.RETRY)


# What must hold


def violations(uncrashed: Seen, killed: Iterable[Seen], end: Seen) -> Iterator[str]:
    """Everything that a run, taken up after its kills, did not do as one that nobody killed."""
    if end.state is not uncrashed.state:
        yield f"it ends as {end.state}, not as {uncrashed.state}"
    if end.stands != uncrashed.stands:
        others = {id: s.name for id, s in end.stands.items() if uncrashed.stands.get(id) is not s}
        yield f"steps end otherwise: {others}"
    for step_id in {**uncrashed.outputs, **end.outputs}:
        expected, found = uncrashed.outputs.get(step_id), end.outputs.get(step_id)
        if found != expected:
            yield f"the output of {step_id} is {found}, not {expected}"
    for number, seen in enumerate(killed, 1):
        for step_id, state in seen.stands.items():
            if state in RECORDED and end.calls[step_id] > seen.calls[step_id]:
                yield f"{step_id} was {state.name} after kill {number}, and was called again"
    for step_id, calls in end.calls.items():
        acts, granted = calls - end.harmless[step_id], end.granted[step_id]
        if step_id not in end.idempotent and acts > 1 + granted:
            yield f"{step_id} is not idempotent and acted {acts} times, with {granted} grants"


# One case


@frozen(kw_only=True)
class Case:
    """A run that was killed, once or more, and then taken up to its end."""

    kills: tuple[Kill, ...]
    seen: tuple[Seen, ...]
    """After each kill that was reached."""
    end: Seen
    violations: tuple[str, ...]

    def __str__(self) -> str:
        return ", then ".join(map(str, self.kills))


def uncrashed(scenario: Scenario, faults: Sequence[str] = ()) -> Seen:
    """The run as it is when nobody kills it."""
    case = run_case(scenario, (), Seen(), faults)
    if case.end.state is None or not case.end.commits:
        raise RuntimeError(f"the scenario {scenario.name} does not run: {case.violations}")
    return case.end


def run_case(
    scenario: Scenario, kills: Sequence[Kill], expected: Seen, faults: Sequence[str] = ()
) -> Case:
    """Begin the run, kill it at each of `kills` in turn, take it up for good, and compare.

    A kill that is not reached (the run ended first) is passed over. `faults` name functions,
    as `module:function`, that every process of the run calls first: a test of this harness
    breaks something with them.
    """
    seen: list[Seen] = []
    told: list[str] = []
    with tempfile.TemporaryDirectory(prefix="loopfsm-crash-", ignore_cleanup_errors=True) as name:
        directory = Path(name).resolve()
        begun = False
        for kill in (*kills, None):
            code, said = _process(directory, scenario, kill, faults, resume=begun)
            found = look(directory)
            begun = found.state is not None
            if code == -signal.SIGKILL and kill is not None:
                seen.append(found)
            else:
                told = [] if code == 0 else [f"the process ended with {code}: {said}"]
                break
        told += violations(expected, seen, found) if kills else ()
    return Case(kills=tuple(kills), seen=tuple(seen), end=found, violations=tuple(told))


def _process(
    directory: Path, scenario: Scenario, kill: Kill | None, faults: Sequence[str], *, resume: bool
) -> tuple[int, str]:
    """Drive the run in a process of its own; how that ended, and what it said last."""
    argv = [sys.executable, "-m", "loopfsm.testing.crash", "drive", str(directory), scenario.name]
    argv += ["--resume"] if resume else []
    argv += ["--kill", str(kill)] if kill else []
    argv += [word for fault in faults for word in ("--fault", fault)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"nothing for {PATIENCE_S} s"
    said = (done.stderr or done.stdout).strip().splitlines()
    return done.returncode, said[-1] if said else "nothing"


# Many


Cases = Mapping[Scenario, Sequence[tuple[Kill, ...]]]
"""What is done to each scenario: where the first process dies, where the second one does."""


def kills_of(seen: Seen, seed: int) -> Sequence[tuple[Kill, ...]]:
    """Every kill of a run that went as `seen`, alone and followed by one that is drawn."""
    draw = random.Random(seed)
    commits = range(1, seen.commits + 1)
    places = [Kill(where, number) for number in commits for where in (BEFORE, AFTER)]
    places += [Kill(DURING, number) for number in range(1, seen.calls_of_all_tools + 1)]
    cases: list[tuple[Kill, ...]] = []
    for first in places:
        where = draw.choice((BEFORE, AFTER, DURING, DURING))  # where a step is RUNNING for sure
        of_all = seen.calls_of_all_tools if where == DURING else seen.commits
        left = (
            of_all - first.number if (first.where == DURING) == (where == DURING) else of_all // 2
        )
        cases += [(first,), (first, Kill(where, draw.randint(1, max(left, 1))))]
    return cases


def sampled(cases: Cases, size: int, seed: int) -> Cases:
    """`size` cases in all, as many of each scenario as of the others.

    Every other one begins with a kill during a call, where it is sure that a step is RUNNING
    (unless the call is that of a verifier).
    """
    draw = random.Random(seed)
    drawn: dict[Scenario, list[tuple[Kill, ...]]] = {}
    for at, (scenario, found) in enumerate(cases.items()):
        share = size // len(cases) + (at < size % len(cases))
        during = [kills for kills in found if kills[0].where == DURING]
        others = [kills for kills in found if kills[0].where != DURING]
        few = draw.sample(during, min((share + 1) // 2, len(during)))
        drawn[scenario] = few + draw.sample(others, min(share - len(few), len(others)))
    return drawn


def run_all(
    cases: Cases, expected: Mapping[Scenario, Seen], faults: Sequence[str] = ()
) -> Mapping[Scenario, Sequence[Case]]:
    """Run every case, as many at a time as there are processors."""
    with ThreadPoolExecutor(cpu_count()) as pool:
        done = {
            scenario: [
                pool.submit(partial(run_case, scenario, kills, expected[scenario], faults))
                for kills in found
            ]
            for scenario, found in cases.items()
        }
        return {scenario: [each.result() for each in some] for scenario, some in done.items()}


def report(
    results: Mapping[Scenario, Sequence[Case]], expected: Mapping[Scenario, Seen]
) -> tuple[str, bool]:
    """The cases as a table, every violation with its case; and whether all is well."""
    columns = ("commits", "calls", "cases", "kills", "missed", "RUNNING", "share", "violations")
    lines = [f"{'scenario':12}" + "".join(f"{name:>12}" for name in columns)]
    told: list[str] = []
    kills = running = 0
    for scenario, cases in results.items():
        seen = [each for case in cases for each in case.seen]
        hit = sum(bool(each.running) for each in seen)
        missed = sum(len(case.kills) for case in cases) - len(seen)
        found = [
            f"  {scenario.name}, killed {case}: {v}" for case in cases for v in case.violations
        ]
        base = expected[scenario]
        cells = (base.commits, base.calls_of_all_tools, len(cases), len(seen), missed, hit)
        share = f"{hit / max(len(seen), 1):.0%}"
        lines.append(
            f"{scenario.name:12}" + "".join(f"{cell:>12}" for cell in (*cells, share, len(found)))
        )
        told += found
        kills, running = kills + len(seen), running + hit
    enough = 2 * running >= kills > 0
    clean = enough and not told
    half = "at least half" if enough else "LESS THAN HALF"
    lines.append(
        f"{kills} kills, {running} of them ({half}) hit a RUNNING step;"
        f" {len(told)} violations: {'clean' if clean else 'BROKEN'}"
    )
    more = len(told) - MOST_SHOWN
    rest = [f"  and {more} more"] if more > 0 else []
    return "\n".join([*lines, *told[:MOST_SHOWN], *rest]), clean
