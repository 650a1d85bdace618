"""An accepted example of every row: a noun, the facts, and what the row makes of them.

The builders make, for each state of each machine, a noun as a run would leave it there;
`CASES` says for each row which facts let it be taken from every one of its source states.
The tables of denials, mutants and situations are variations of these examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs
from attrs import field, frozen

from loopfsm.dag import Dag
from loopfsm.engine.state import state_of
from loopfsm.lifecycle import Function, Lifecycle, Row, facts_read_by
from loopfsm.model.failure import Failure, FailureKind, FailureState
from loopfsm.model.loop_state import LoopState, Run, RunState
from loopfsm.model.plan import Plan, Policy
from loopfsm.model.question import Question, QuestionState
from loopfsm.model.step import NO_EXECUTION, Step, StepSpec, StepState, Verdict
from loopfsm.recovery.registry import MACHINES

S, F, Q, L = StepState, FailureState, QuestionState, LoopState

NOW = 100.0
"""The time of every example, in seconds; the attempt of a builder's step began at 10."""

# Steps

_STARTED = {"attempt": 1, "start_time": 10.0}
_EXECUTED = {**_STARTED, "end_time": 12.0, "output": "done", "acted_in": 1}
_EVALUATED = {**_EXECUTED, "evaluation": Verdict.PASSED}
_VERIFIED = {**_EVALUATED, "verification": Verdict.PASSED}
_REPORTED = {**_STARTED, "end_time": 12.0, "acted_in": 1, "act_reported_failed": True}
_CLEARED = {"attempt": 1, "acted_in": 1, "act_reported_failed": True}
_DELAYED = {
    **_CLEARED,
    "retry_count": 1,
    "not_before": 90.0,
    "metadata": {"backoff_delay": 1.0},
}

_LIVES: Mapping[StepState, Mapping[str, Any]] = {
    S.PENDING: {},
    S.READY: {},
    S.RUNNING: _STARTED,
    S.EXECUTED: _EXECUTED,
    S.EVALUATED: _EVALUATED,
    S.VERIFIED_COMPLETED: _VERIFIED,
    S.EVALUATION_FAILED: _REPORTED,
    S.VERIFICATION_FAILED: {**_EVALUATED, "verification": Verdict.FAILED},
    S.RETRY_PENDING: _DELAYED,
    S.WAITING_FOR_HUMAN: {**_REPORTED, "failed_in": S.EVALUATION_FAILED},
    S.SKIPPED: {},
    S.REPLACED: _REPORTED,
    S.CANCELLED: {},
    S.ABSTAINED: _REPORTED,
    S.FAILED: _REPORTED,
}


def spec(id: str = "a", *needs: str, **words: Any) -> StepSpec:
    """An idempotent step, so that its effect is known in every state."""
    needed: Any = needs  # Any: mypy cannot follow the field's converter
    return StepSpec(id=id, tool="tool", needs=needed, **{"idempotent": True, **words})


NOT_IDEMPOTENT = spec(idempotent=False)
OPTIONAL = spec(optional=True)


def step_in(state: StepState, **fields: Any) -> Step:
    """A step as a run leaves it in `state`."""
    return Step(state=state, **{"spec": spec(), **_LIVES[state], **fields})


# Failures, questions, runs

_PLANNED = {"strategy": "RETRY", "scope": ("a",), "plans": 1, "reason": "RETRY is the first rung"}
_TRIED = {**_PLANNED, "scope": ()}
_BROKE = {**_TRIED, "failed_strategies": ("RETRY",)}

_STANDINGS: Mapping[FailureState, Mapping[str, Any]] = {
    F.UNHANDLED: {},
    F.RECOVERY_PLANNED: _PLANNED,
    F.RECOVERY_IN_PROGRESS: _TRIED,
    F.RECOVERY_FAILED: _BROKE,
    F.ESCALATED: {**_TRIED, "strategy": "REQUEST_HUMAN"},
    F.RECOVERED: _TRIED,
    F.SUPERSEDED: _TRIED,
    F.TERMINAL: _TRIED,
}


def failure_in(state: FailureState, **fields: Any) -> Failure:
    """Failure F1 of step `a`, as a run leaves it in `state`."""
    words = {
        "number": 1,
        "subject": "a",
        "kind": FailureKind.REPORTED,
        "message": "it broke",
        "occurred_at": 12.0,
        "attempt": 1,
    }
    return Failure(state=state, **{**words, **_STANDINGS[state], **fields})


_ANSWERED = {"choice": "retry", "said": "go", "token": "t0", "answered_at": 50.0}

_ASKED: Mapping[QuestionState, Mapping[str, Any]] = {
    Q.OPEN: {},
    Q.ANSWERED: _ANSWERED,
    Q.WITHDRAWN: {},
    Q.EXPIRED: {"choice": "ABSTAIN", "answered_at": 50.0},
}


def question_in(state: QuestionState, **fields: Any) -> Question:
    """Question Q1 about step `a` and its failure F1, with a deadline at 60."""
    words = {
        "number": 1,
        "subject": "a",
        "failure_id": "F1",
        "text": "a failed: it broke",
        "choices": {"retry": "run a once more", "stop": "stop the run"},
        "context": {"step": "a"},
        "asked_at": 20.0,
        "deadline": 60.0,
    }
    return Question(state=state, **{**words, **_ASKED[state], **fields})


def run_in(state: LoopState, **fields: Any) -> Run:
    """A run as `advance` leaves it in `state`."""
    words: dict[str, Any] = {"id": "run-1", "goal": "the goal"}
    if state is L.PARTIALLY_COMPLETED:
        words["without"] = ("a",)
    if state in (L.ABSTAINED, L.FAILED):
        words["reason"] = "it had to end"
    return Run(state=state, **{**words, **fields})


BUILDERS: Mapping[str, Callable[..., Any]] = {
    "step": step_in,
    "failure": failure_in,
    "question": question_in,
    "loop": run_in,
}


def world(*nouns: Any, policy: Policy | None = None, spent: Any = None) -> RunState:
    """A run of three steps, `a`, `b` that needs `a`, and `c`, with these nouns in it."""
    steps = {"a": Step(spec=spec("a")), "b": Step(spec=spec("b", "a")), "c": Step(spec=spec("c"))}
    steps.update({noun.id: noun for noun in nouns if isinstance(noun, Step)})
    run = next((noun for noun in nouns if isinstance(noun, Run)), run_in(L.EXECUTING))
    specs: Any = tuple(step.spec for step in steps.values())  # Any: as in `spec`
    plan = Plan(goal=run.goal, steps=specs, policy=policy or Policy())
    failures = [noun for noun in nouns if isinstance(noun, Failure)]
    questions = [noun for noun in nouns if isinstance(noun, Question)]
    return state_of(run, plan, Dag.of(plan), steps.values(), failures, questions, spent)


# The table


@frozen(kw_only=True)
class Case:
    """How a row is taken: the facts, and what changes beside the state."""

    facts: Mapping[str, Any] = field(factory=dict)
    changes: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] = field(factory=dict)
    """The changed fields, or what computes them from the noun before."""
    fields: Mapping[str, Any] = field(factory=dict)
    """How the noun before differs from the builder's."""

    def changes_of(self, before: Any) -> dict[str, Any]:
        return dict(self.changes(before) if callable(self.changes) else self.changes)


def _plan_facts(strategy: str, **facts: Any) -> dict[str, Any]:
    return {"strategy": strategy, "scope": ("a",), "ordered": False, "why": "because", **facts}


def _planned(strategy: str, *, ordered: bool = False) -> Callable[[Failure], dict[str, Any]]:
    def changes(before: Failure) -> dict[str, Any]:
        return {
            "strategy": strategy,
            "scope": ("a",),
            "ordered": ordered,
            "reason": "because",
            "plans": before.plans + 1,
        }

    return changes


_WHY = {"why": "because"}
_SCOPE_DROPPED = {"scope": (), "reason": "because"}
_ACTED = {"acted_in": 1, "act_reported_failed": False}

CASES: Mapping[str, Case] = {
    "STEP-01": Case(facts={"unmet": 0}),
    "STEP-02": Case(
        facts={"held_by": None, "spent_budget": None, "now": NOW},
        changes={"attempt": 1, "start_time": NOW},
    ),
    "STEP-03": Case(
        facts={"attempt": 1, "output": "result", "now": NOW},
        changes={"output": "result", "end_time": NOW, **_ACTED},
    ),
    "STEP-04": Case(
        facts={"attempt": 1, "verdict": Verdict.NOT_CHECKED},
        changes={"evaluation": Verdict.NOT_CHECKED},
    ),
    "STEP-05": Case(
        facts={"attempt": 1, "verdict": Verdict.PASSED}, changes={"verification": Verdict.PASSED}
    ),
    "STEP-06": Case(
        facts={"attempt": 1, "now": NOW, "executed": True, "reported": True},
        changes={"end_time": NOW, "acted_in": 1, "act_reported_failed": True},
    ),
    "STEP-07": Case(facts={"attempt": 1}, changes={"evaluation": Verdict.FAILED, **_ACTED}),
    "STEP-08": Case(facts={"attempt": 1}, changes={"verification": Verdict.FAILED}),
    "STEP-09": Case(
        facts={"recoveries": 1, "unmet": 0, "now": NOW}, changes={**NO_EXECUTION, **_ACTED}
    ),
    "STEP-10": Case(
        facts={"recoveries": 0, "unmet": 0, "now": NOW}, changes={"end_time": NOW, **_ACTED}
    ),
    "STEP-11": Case(facts={"granted": True}),
    "STEP-12": Case(
        facts={"grants_repeat": True},
        changes={"failed_in": None, "granted_in": 1, "generation": 1},
    ),
    "STEP-13": Case(
        fields={"failed_in": S.VERIFICATION_FAILED},
        facts={"grants_repeat": False},
        changes={"failed_in": None},
    ),
    "STEP-14": Case(),
    "STEP-20": Case(
        facts={
            "max_retries": 1,
            "granted": False,
            "now": NOW,
            "delay": 2.0,
            "seconds_left": None,
        },
        changes={
            **NO_EXECUTION,
            "retry_count": 1,
            "not_before": NOW + 2,
            "metadata": {"backoff_delay": 2.0},
        },
    ),
    "STEP-21": Case(facts={"now": NOW, "unmet": 0}, changes={"not_before": None}),
    "STEP-22": Case(changes=lambda before: {"failed_in": before.state}),
    "STEP-23": Case(facts={"may_abstain": True, "critical_failed": False, "granted": False}),
    "STEP-24": Case(),
    "FAIL-01": Case(facts=_plan_facts("RETRY", recoveries=1), changes=_planned("RETRY")),
    "FAIL-02": Case(facts=_plan_facts("TERMINATE", recoveries=0), changes=_planned("TERMINATE")),
    "FAIL-03": Case(facts={"in_flight": None, **_WHY}, changes=_SCOPE_DROPPED),
    "FAIL-04": Case(facts=_WHY, changes={"reason": "because"}),
    "FAIL-05": Case(
        facts={**_WHY, "evidence": {"error": "KeyError"}},
        changes={
            **_SCOPE_DROPPED,
            "failed_strategies": ("RETRY",),
            "evidence": {"recovery RETRY": {"error": "KeyError"}},
        },
    ),
    "FAIL-06": Case(fields={"ordered": True}, facts={"recoveries": 1, **_WHY}),
    "FAIL-07": Case(
        facts={"recoveries": 0, **_WHY},
        changes=_SCOPE_DROPPED,
    ),
    "FAIL-08": Case(
        fields={"strategy": "REQUEST_HUMAN"},
        facts=_WHY,
        changes=_SCOPE_DROPPED,
    ),
    "FAIL-09": Case(
        facts=_plan_facts("RETRY") | {"ordered": True},
        changes=_planned("RETRY", ordered=True),
    ),
    "FAIL-10": Case(facts=_WHY, changes=_SCOPE_DROPPED),
    "FAIL-11": Case(facts=_WHY, changes=_SCOPE_DROPPED),
    "QUES-01": Case(
        facts={
            "choice": "retry",
            "said": "once more",
            "raised_to": None,
            "token": "t1",
            "used_for": None,
            "draining": None,
            "now": NOW,
        },
        changes={
            "choice": "retry",
            "said": "once more",
            "raised_to": None,
            "token": "t1",
            "answered_at": NOW,
        },
    ),
    "QUES-02": Case(),
    "QUES-03": Case(
        facts={"draining": None, "choice": "ABSTAIN", "now": NOW},
        changes={"choice": "ABSTAIN", "answered_at": NOW},
    ),
    "LOOP-01": Case(),
    "LOOP-02": Case(),
    "LOOP-03": Case(facts={"end": L.ABSTAINED, **_WHY}, changes={"reason": "because"}),
    "LOOP-04": Case(facts={"end": L.FAILED, **_WHY}, changes={"reason": "because"}),
    "LOOP-05": Case(facts={"planned": False, "applied": True}),
    "LOOP-06": Case(facts={"leads_on": True, "replanned": True}),
    "LOOP-07": Case(facts={"leads_on": True, "replanned": False}),
    "LOOP-08": Case(),
    "LOOP-09": Case(facts={"asking_for_budget": True, "planned": False}),
    "LOOP-10": Case(facts={"asking": True, "planned": False}),
    "LOOP-11": Case(facts={"unfinished": 0}),
    "LOOP-12": Case(fields={"without": ("a",)}, facts={"unfinished": 0}),
}

# Rows and their parts


ROWS: Mapping[str, tuple[Lifecycle[Any], Row]] = {
    row.id: (machine, row) for machine in MACHINES.values() for row in machine.rows
}

SOURCES: tuple[tuple[str, Enum], ...] = tuple(
    (row_id, source) for row_id, (_, row) in ROWS.items() for source in row.source
)
"""Every row with each of its source states."""


def noun_for(row_id: str, source: Enum, **fields: Any) -> Any:
    """The noun of the row's example, in one of its source states."""
    machine, _ = ROWS[row_id]
    return BUILDERS[machine.name](source, **{**CASES[row_id].fields, **fields})


def expected_after(row_id: str, before: Any) -> Any:
    """What the row makes of the noun of its example."""
    _, row = ROWS[row_id]
    return attrs.evolve(before, state=row.target, **CASES[row_id].changes_of(before))


def written(*nouns: Any) -> str:
    """The nouns in full, as text: what was written before cannot change with them."""
    return repr(nouns)


def ask(function: Function, facts: Mapping[str, Any], *nouns: Any) -> bool:
    """What a guard, invariant or ensure answers, asked by itself."""
    return bool(function(*nouns, **{name: facts[name] for name in facts_read_by(function)}))


def names(functions: Any) -> list[str]:
    """The names of functions, in order."""
    return [function.__name__ for function in functions]
