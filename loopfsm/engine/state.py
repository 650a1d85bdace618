"""The state of a run from its nouns: at the beginning, and whenever they are read back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from loopfsm.dag import Dag
from loopfsm.model.failure import SETTLED, UNDECIDED, WHOLE_PLAN, Failure, FailureState
from loopfsm.model.loop_state import Map, ReadyQueue, Run, RunState, StoredSteps
from loopfsm.model.plan import Plan
from loopfsm.model.question import Choice, Question, QuestionState
from loopfsm.model.record import Record
from loopfsm.model.step import DONE, FINAL, IN_FLIGHT, Step, StepState
from loopfsm.unit import is_satisfied_by


def new_run(plan: Plan, run_id: str, dag: Dag | None = None) -> RunState:
    """The state of a run of `plan` that nobody has driven yet.

    Raises:
        PlanError: the plan cannot run; every problem is listed.
    """
    steps = (Step(spec=spec) for spec in plan.steps)
    return state_of(Run(id=run_id, goal=plan.goal), plan, dag or Dag.of(plan), steps)


def state_from(record: Record) -> RunState:
    """The state of a run that was read back from a journal; nobody drives it."""
    steps = record.steps
    if isinstance(steps, StoredSteps):
        stands = steps.source.stands
    else:
        stands = {step.id: step.state for step in steps.values()}
    nouns = (record.failures, record.questions, record.spent)
    return _counted(record.run, record.plan, Dag(record.plan), steps, stands, *nouns)


def state_of(
    run: Run,
    plan: Plan,
    dag: Dag,
    steps: Iterable[Step],
    failures: Iterable[Failure] = (),
    questions: Iterable[Question] = (),
    spent: Mapping[str, float] | None = None,
) -> RunState:
    """The nouns with every index computed anew. Proportional to the plan; done once."""
    by_id = {step.id: step for step in steps}
    stands = {step_id: step.state for step_id, step in by_id.items()}
    return _counted(run, plan, dag, Map(by_id), stands, failures, questions, spent or {})


def _counted(
    run: Run,
    plan: Plan,
    dag: Dag,
    steps: Map[str, Step] | StoredSteps,
    stands: Mapping[str, StepState],
    failures: Iterable[Failure],
    questions: Iterable[Question],
    spent: Mapping[str, float],
) -> RunState:
    """Count what the indexes hold; a step is only looked at when its state does not tell."""
    total = len(plan.steps)
    initial = total - len(stands)
    by_state: dict[StepState, list[str]] = {state: [] for state in StepState}
    for step_id in plan.ids if stands else ():
        state = stands.get(step_id)
        if state is not None:
            by_state[state].append(step_id)
    count = {state: len(ids) for state, ids in by_state.items()}
    count[StepState.PENDING] += initial
    ready = by_state[StepState.READY]
    under_way = [step_id for state in IN_FLIGHT for step_id in by_state[state]]
    satisfied = set(by_state[StepState.VERIFIED_COMPLETED])
    satisfied.update(s for s in by_state[StepState.SKIPPED] if is_satisfied_by(steps[s]))
    failures = sorted(failures, key=lambda failure: failure.number)
    questions = sorted(questions, key=lambda question: question.number)
    planned = [f for f in failures if f.state is FailureState.RECOVERY_PLANNED]
    ending = [f.id for f in planned if f.scope == WHOLE_PLAN]
    return RunState(
        run=run,
        plan=plan,
        dag=dag,
        steps=steps,
        failures=Map({f.id: f for f in failures}),
        questions=Map({q.id: q for q in questions}),
        spent=Map(spent),
        unmet=Map(_unmet(plan, satisfied)),
        ready=ReadyQueue(Map(enumerate(ready)), 0, len(ready)),
        in_flight=Map(dict.fromkeys(under_way, True)),
        running=count[StepState.RUNNING],
        delayed=Map(dict.fromkeys(by_state[StepState.RETRY_PENDING], True)),
        moving=sum(number for state, number in count.items() if state not in FINAL),
        unfinished=sum(number for state, number in count.items() if state not in DONE),
        unsettled=Map({f.subject: f.id for f in failures if f.state not in SETTLED}),
        undecided=Map({f.id: f.number for f in failures if f.state in UNDECIDED}),
        planned=Map({f.id: f.number for f in planned}),
        held=Map({name: f.id for f in planned if f.scope != WHOLE_PLAN for name in f.scope}),
        draining=ending[0] if ending else None,
        asked=Map({q.subject: q.id for q in questions if q.state is QuestionState.OPEN}),
        tokens=Map({q.token: q.id for q in questions if q.token is not None}),
        limits=Map(
            {q.context["budget"]: q.raised_to for q in questions if q.choice == Choice.RAISE}
        ),
    )


def _unmet(plan: Plan, satisfied: Container[str]) -> Iterator[tuple[str, int]]:
    for step_id, needs in zip(plan.ids, plan.needs, strict=True):
        count = 0
        for need in needs:
            if need not in satisfied:
                count += 1
        if count:
            yield step_id, count
