"""The state of a run from its nouns: at the beginning, and whenever they are read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopfsm.dag import Dag
from loopfsm.model.failure import SETTLED, UNDECIDED, WHOLE_PLAN, Failure, FailureState
from loopfsm.model.loop_state import Map, ReadyQueue, Run, RunState
from loopfsm.model.plan import Plan
from loopfsm.model.question import Choice, Question, QuestionState
from loopfsm.model.step import DONE, FINAL, IN_FLIGHT, Step, StepState
from loopfsm.unit import is_satisfied_by


def new_run(plan: Plan, run_id: str, dag: Dag | None = None) -> RunState:
    """The state of a run of `plan` that nobody has driven yet.

    Raises:
        PlanError: the plan cannot run; every problem is listed.
    """
    steps = (Step(spec=spec) for spec in plan.steps)
    return state_of(Run(id=run_id, goal=plan.goal), plan, dag or Dag.of(plan), steps)


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
    in_plan_order = [by_id[spec.id] for spec in plan.steps]
    ready = [step.id for step in in_plan_order if step.state is StepState.READY]
    failures = sorted(failures, key=lambda failure: failure.number)
    questions = sorted(questions, key=lambda question: question.number)
    planned = [f for f in failures if f.state is FailureState.RECOVERY_PLANNED]
    ending = [f.id for f in planned if f.scope == WHOLE_PLAN]
    return RunState(
        run=run,
        plan=plan,
        dag=dag,
        steps=Map(by_id),
        failures=Map({f.id: f for f in failures}),
        questions=Map({q.id: q for q in questions}),
        spent=Map(spent or {}),
        unmet=Map(_unmet(in_plan_order, by_id)),
        ready=ReadyQueue(Map(enumerate(ready)), 0, len(ready)),
        in_flight=Map({step.id: True for step in in_plan_order if step.state in IN_FLIGHT}),
        running=sum(step.state is StepState.RUNNING for step in in_plan_order),
        delayed=sum(step.state is StepState.RETRY_PENDING for step in in_plan_order),
        moving=sum(step.state not in FINAL for step in in_plan_order),
        unfinished=sum(step.state not in DONE for step in in_plan_order),
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


def _unmet(steps: Iterable[Step], by_id: Mapping[str, Step]) -> Iterable[tuple[str, int]]:
    for step in steps:
        count = sum(not is_satisfied_by(by_id[need]) for need in step.spec.needs)
        if count:
            yield step.id, count
