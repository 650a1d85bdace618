"""Every noun, whatever is in its fields, is read back from the file as it was."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopfsm.dag import Dag
from loopfsm.engine.state import state_from, state_of
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.model.event import Event, Unit
from loopfsm.model.failure import Failure, FailureKind, FailureState, RecoveryStrategy
from loopfsm.model.loop_state import LoopState, Run, RunState
from loopfsm.model.plan import UNCLASSIFIED, Budget, Plan, Policy, WhenExhausted
from loopfsm.model.question import Question, QuestionState
from loopfsm.model.step import Call, EnvironmentValue, Output, Step, StepSpec, StepState, Verdict
from tests.journals.kit import ORIGIN, ROWS, opened
from tests.journals.values import DATA, JSON, TEXTS, alike

COUNTS = st.integers(0, 2**40)
MOMENTS = st.floats(0, 1e12)
AMOUNTS = st.integers(0, 2**40) | st.floats(0, 1e12)
UNICODE = st.text(max_size=6)
"""What a column of a table holds: no halves of characters."""
EVIDENCE = st.dictionaries(TEXTS, JSON | st.tuples(JSON, JSON), max_size=3)
MAYBE_TEXT = st.none() | TEXTS

POLICIES = st.builds(
    Policy,
    max_parallel=st.integers(1, 2**40),
    max_retries=st.none() | COUNTS,
    backoff_base_s=AMOUNTS,
    backoff_cap_s=AMOUNTS,
    recoveries=COUNTS,
    when_exhausted=st.sampled_from(WhenExhausted),
    may_abstain=st.booleans(),
    question_deadline_s=st.none() | AMOUNTS,
    output_cap_bytes=st.integers(1, 2**40),
    lease_s=st.integers(1, 1000),
    ladder=st.just({})
    | st.builds(
        lambda rungs: {UNCLASSIFIED: tuple(rungs)},
        st.lists(st.sampled_from((RecoveryStrategy.RETRY, "OURS", "\u00e4")), max_size=3),
    ),
    budget=st.builds(
        Budget,
        steps=st.none() | COUNTS,
        tool_calls=st.none() | COUNTS,
        seconds=st.none() | AMOUNTS,
        tokens=st.none() | COUNTS,
        cost=st.none() | AMOUNTS,
    ),
)


IDS = ("a", "\u00e4", "it's-\U0001f600", "\0")
"""Of the steps of a plan: whatever is Unicode."""


def args_of(*known: str) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments with references to known steps, and to the environment, at any depth."""
    leaves: st.SearchStrategy[Any] = JSON | st.builds(EnvironmentValue, TEXTS)
    if known:
        paths = st.lists(TEXTS, max_size=2).map(tuple)
        leaves |= st.builds(Output, st.sampled_from(known), paths)
    deep = st.lists(leaves, max_size=2) | st.dictionaries(TEXTS, leaves, max_size=2)
    values = leaves | deep | st.lists(deep, max_size=2).map(tuple)
    return st.dictionaries(TEXTS, values, max_size=2)


def specs_of(at: int) -> st.SearchStrategy[StepSpec]:
    """What may be said about the step at a position."""
    earlier = IDS[:at]
    return st.builds(
        StepSpec,
        id=st.just(IDS[at]),
        tool=UNICODE,
        args=args_of(*earlier),
        needs=st.lists(st.sampled_from(earlier), unique=True) if earlier else st.just(()),
        description=TEXTS,
        verify=st.none() | st.builds(Call, tool=UNICODE, args=args_of(*earlier, IDS[at])),
        optional=st.booleans(),
        critical=st.booleans(),
        idempotent=st.none() | st.booleans(),
        timeout_s=st.none() | st.floats(0.001, 1e9),
        max_retries=st.none() | COUNTS,
    )


SPECS = tuple(map(specs_of, range(len(IDS))))
PLANS = st.builds(
    Plan,
    goal=UNICODE,
    steps=st.integers(1, len(IDS)).flatmap(lambda count: st.tuples(*SPECS[:count])),
    policy=POLICIES,
    version=COUNTS,
)
"""Plans of up to four steps that say everything a step can say."""


def steps_of(spec: StepSpec) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        spec=st.just(spec),
        state=st.sampled_from(StepState),
        attempt=COUNTS,
        retry_count=COUNTS,
        generation=COUNTS,
        output=DATA,
        start_time=st.none() | MOMENTS,
        end_time=st.none() | MOMENTS,
        not_before=st.none() | MOMENTS,
        evaluation=st.none() | st.sampled_from(Verdict),
        verification=st.none() | st.sampled_from(Verdict),
        acted_in=COUNTS,
        act_reported_failed=st.booleans(),
        granted_in=st.integers(-1, 9),
        failed_in=st.none() | st.sampled_from(StepState),
        metadata=EVIDENCE,
    )


FAILURES = st.builds(
    Failure,
    number=COUNTS,
    subject=UNICODE,
    kind=st.sampled_from(FailureKind),
    message=TEXTS,
    occurred_at=MOMENTS,
    attempt=COUNTS,
    evidence=EVIDENCE,
    state=st.sampled_from(FailureState),
    strategy=MAYBE_TEXT,
    scope=st.lists(TEXTS, max_size=2).map(tuple),
    plans=COUNTS,
    ordered=st.booleans(),
    failed_strategies=st.lists(TEXTS, max_size=2).map(tuple),
    reason=TEXTS,
)


QUESTIONS = st.builds(
    Question,
    number=COUNTS,
    subject=UNICODE,
    failure_id=TEXTS,
    text=TEXTS,
    choices=st.dictionaries(TEXTS, TEXTS, max_size=2),
    context=EVIDENCE,
    asked_at=MOMENTS,
    deadline=st.none() | MOMENTS,
    state=st.sampled_from(QuestionState),
    choice=st.none() | st.sampled_from(("retry", "skip")),
    said=TEXTS,
    raised_to=st.none() | MOMENTS,
    token=MAYBE_TEXT,
    answered_at=st.none() | MOMENTS,
)


RUNS = st.builds(
    Run,
    id=st.just("run"),
    goal=UNICODE,
    state=st.sampled_from(LoopState),
    without=st.lists(TEXTS, max_size=2).map(tuple),
    reason=UNICODE,
)


def event_of(noun: Any, name: str, changed: set[str]) -> Event:
    """An event that wrote these fields of a noun."""
    changes = {field: getattr(noun, field) for field in sorted(changed)}
    return Event(f"row of {name}", name, noun.id, 1.5, 2, changes, {"fact": [1, None]}, ())


PLAN = Plan(goal="it", steps=(StepSpec(id="a", tool="t"), StepSpec(id="b", tool="t")))
STEPS = tuple(map(steps_of, PLAN.steps))
CHANGED = {
    kind: st.sets(
        st.sampled_from([f.name for f in attrs.fields(kind) if f.name != "spec"]), min_size=1
    )
    for kind in (Step, Failure, Question, Run)
}
"""The fields of each noun that an event may have written."""


@st.composite
def written(draw: st.DrawFn) -> tuple[RunState, Unit]:
    """A state with nouns of any kind, and a unit that has written them."""
    steps = [draw(steps) for steps in STEPS]
    failed, asked = draw(st.lists(FAILURES, max_size=2)), draw(st.lists(QUESTIONS, max_size=2))
    failed = [attrs.evolve(each, number=n) for n, each in enumerate(failed, 1)]
    asked = [attrs.evolve(each, number=n) for n, each in enumerate(asked, 1)]
    run = attrs.evolve(draw(RUNS), goal=PLAN.goal)
    state = state_of(run, PLAN, Dag.of(PLAN), steps)
    state = attrs.evolve(
        state,
        failures=state.failures.update({each.id: each for each in failed}),
        questions=state.questions.update({each.id: each for each in asked}),
    )
    events = [event_of(each, "step", {"output", *draw(CHANGED[Step])}) for each in steps]
    events += [event_of(each, "failure", draw(CHANGED[Failure])) for each in failed]
    events += [event_of(each, "question", draw(CHANGED[Question])) for each in asked]
    events.append(event_of(run, "loop", draw(CHANGED[Run])))
    return state, Unit("cause", tuple(events))


@contextmanager
def new_journal() -> Iterator[SqliteJournal]:
    with (
        tempfile.TemporaryDirectory() as directory,
        opened(Path(directory) / "journal.db", durability="process") as journal,
    ):
        yield journal


ANY_GRAPH: Any = None
"""What is kept is not asked whether it can run."""


@pytest.mark.slow
@settings(max_examples=40)
@given(PLANS)
def test_a_plan_is_read_back_as_it_was(plan: Plan) -> None:
    """Goal, version, policy with its budget, and every field of every step, references too."""
    with new_journal() as journal:
        state = state_of(Run(id="run", goal=plan.goal), plan, ANY_GRAPH, map(_initial, plan.steps))
        journal.create(state, 0.0, ORIGIN)
        back = journal.load("run").plan
        assert [alike(spec) for spec in plan.steps] == [alike(spec) for spec in back.steps]
        assert (plan.goal, plan.version, plan.policy) == (back.goal, back.version, back.policy)
        assert type(plan.policy.when_exhausted) is type(back.policy.when_exhausted)


def _initial(spec: StepSpec) -> Step:
    return Step(spec=spec)


@pytest.mark.slow
@settings(max_examples=40)
@given(written())
def test_nouns_and_events_are_read_back_as_they_were(both: tuple[RunState, Unit]) -> None:
    """Step, failure, question and run; and the changes of each event, as the noun's own types."""
    state, unit = both
    with new_journal() as journal:
        journal.create(state, 0.0, ORIGIN)
        lease = journal.acquire("run", 0.0, 30, ROWS)
        lease.append([unit], state, 1.0)
        back = journal.load("run")
        assert state.run == back.run
        for spec in PLAN.steps:
            assert alike(state.step(spec.id)) == alike(back.steps[spec.id])
        by_number = sorted(state.failures.values(), key=lambda each: each.number)
        assert list(map(alike, by_number)) == list(map(alike, back.failures))
        asked = sorted(state.questions.values(), key=lambda each: each.number)
        assert list(map(alike, asked)) == list(map(alike, back.questions))
        assert list(map(alike, unit.events)) == list(map(alike, journal.events("run")))


def test_a_step_that_has_no_output_any_more_has_none() -> None:
    """The last commit that wrote the output counts, also when it cleared it; others keep it."""
    with new_journal() as journal:
        state = state_of(Run(id="run", goal="it"), PLAN, Dag.of(PLAN), map(_initial, PLAN.steps))
        journal.create(state, 0.0, ORIGIN)
        lease = journal.acquire("run", 0.0, 30, ROWS)
        for changes in (
            {"output": [1]},
            {"attempt": 2},
            {"output": None},
            {"attempt": 3},
            {"output": [2]},
            {"state": StepState.READY},
        ):
            step = attrs.evolve(state.step("a"), **changes)
            steps = [step, state.step("b")]
            state = state_of(state.run, PLAN, Dag.of(PLAN), steps)
            lease.append([Unit("c", (Event("r", "step", "a", 0.0, 1, changes),))], state, 1.0)
            assert step == state_from(journal.load("run")).step("a")
