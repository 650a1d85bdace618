"""The loop's own noun, and the immutable state of a run: its nouns and their indexes.

The nouns are the truth; every index can be computed from them (`RunState.of` does) and
is kept up to date by `unit.Draft`, at a cost that depends on what changed, never on the
size of the plan. Maps are persistent: an old state stays valid at no cost, which is what
lets a unit be undone and the explorer branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Protocol

from attrs import field, frozen
from immutables import Map, MapMutation

from loopfsm.model.failure import Failure
from loopfsm.model.plan import Plan
from loopfsm.model.question import Question
from loopfsm.model.step import Step, StepState

__all__ = [
    "ENDED",
    "LoopState",
    "Map",
    "MapMutation",
    "PlanDag",
    "ReadyQueue",
    "Run",
    "RunState",
    "RunView",
    "StepSource",
    "StoredSteps",
    "StoredStepsMutation",
]


class LoopState(Enum):
    """Where the loop stands; four of them are rest states, five are final."""

    INITIALIZED = "INITIALIZED"
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    RECOVERING = "RECOVERING"
    ITERATION_COMPLETE = "ITERATION_COMPLETE"
    REPLANNING = "REPLANNING"
    WAITING_FOR_HUMAN = "WAITING_FOR_HUMAN"
    COMPLETED = "COMPLETED"
    PARTIALLY_COMPLETED = "PARTIALLY_COMPLETED"
    ABSTAINED = "ABSTAINED"
    FAILED = "FAILED"


ENDED = (
    LoopState.COMPLETED,
    LoopState.PARTIALLY_COMPLETED,
    LoopState.ABSTAINED,
    LoopState.FAILED,
)
"""The final states of a loop."""


@frozen(kw_only=True)
class Run:
    """The noun of the loop machine: one run of one plan."""

    id: str
    goal: str
    state: LoopState = LoopState.INITIALIZED
    without: tuple[str, ...] = ()
    """The steps that were skipped: reduced is not done."""
    reason: str = ""
    """Why the run ended as it did."""

    @property
    def reduced_goal(self) -> str:
        """The goal, with what was left out."""
        if not self.without:
            return self.goal
        return f"{self.goal} (without {', '.join(self.without)})"


class PlanDag(Protocol):
    """What the state needs of the dependency graph (`dag.Dag` is the real one)."""

    def dependents(self, step_id: str) -> tuple[str, ...]:
        """The steps that need `step_id` directly, in the plan's order."""

    def downstream(self, step_ids: Iterable[str]) -> frozenset[str]:
        """Every step that depends on one of `step_ids`, directly or not; without them."""


class RunView(Protocol):
    """A run as contracts and strategies see it: before a unit, or inside one."""

    @property
    def run(self) -> Run: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def dag(self) -> PlanDag: ...

    @property
    def ending(self) -> LoopState | None:
        """The final state that the unit leads to, if it ends the run."""

    def step(self, step_id: str) -> Step:
        """The step of that id."""

    def failure(self, failure_id: str) -> Failure:
        """The failure of that id."""

    def failure_of(self, subject: str) -> Failure | None:
        """The one failure of a step (or of the run) that is not settled."""

    def question_of(self, subject: str) -> Question | None:
        """The one open question about a step (or the run)."""

    def left_of(self, budget: str) -> float | None:
        """What is left of a run's budget; None: it has no limit."""

    def unsettled_subjects(self) -> Iterable[str]:
        """The steps (and the run) with a failure that is not settled."""

    def holder_of(self, step_id: str) -> str | None:
        """The failure whose planned recovery is going to write this step."""

    @property
    def is_asking(self) -> bool:
        """Some question is open."""

    @property
    def is_settled(self) -> bool:
        """Every step is in a final state, and every failure is settled."""


@frozen
class ReadyQueue:
    """READY steps, first come first served: a persistent queue with holes.

    A step that left READY by another way than the front is passed over when its turn
    comes, so that leaving costs nothing.
    """

    waiting: Map[int, str] = Map()
    """Place -> step id."""
    head: int = 0
    tail: int = 0

    def entries(self) -> Iterator[tuple[int, str]]:
        """Places and step ids, in order, lazily."""
        for place in range(self.head, self.tail):
            step_id = self.waiting.get(place)
            if step_id is not None:
                yield place, step_id

    def including(self, step_id: str) -> ReadyQueue:
        """The queue with a step at its end."""
        return ReadyQueue(self.waiting.set(self.tail, step_id), self.head, self.tail + 1)

    def without(self, place: int) -> ReadyQueue:
        """The queue without what stands at `place`."""
        waiting = self.waiting.delete(place)
        head = self.head
        while head < self.tail and head not in waiting:
            head += 1
        return ReadyQueue(waiting, head, self.tail)


@frozen(eq=False)
class StepSource:
    """Where the steps of a run that was read back come from."""

    places: Mapping[str, int]
    """Every step of the plan, in its order."""
    stands: Mapping[str, StepState]
    """The state of each step when it was read; absent: the first one."""
    make: Callable[[str], Step]
    made: dict[str, Step] = field(factory=dict)

    def step(self, step_id: str) -> Step:
        """The step as it was read; it is made once."""
        found = self.made.get(step_id)
        if found is None:
            if step_id not in self.places:
                raise KeyError(step_id)
            found = self.made[step_id] = self.make(step_id)
        return found


class StoredSteps(Mapping[str, Step]):
    """The steps of a run that was read back: each is made when it is asked for first.

    As persistent as a `Map`, of which it has what a unit uses.
    """

    __slots__ = ("_written", "source")

    def __init__(self, source: StepSource, written: Map[str, Step] = Map()) -> None:
        self.source = source
        self._written = written
        """Those that units have written since."""

    def __getitem__(self, step_id: str) -> Step:
        return self._written.get(step_id) or self.source.step(step_id)

    def __contains__(self, step_id: object) -> bool:
        return step_id in self.source.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.source.places)

    def __len__(self) -> int:
        return len(self.source.places)

    def mutate(self) -> StoredStepsMutation:
        """What the next steps are written to."""
        return StoredStepsMutation(self.source, self._written.mutate())


@frozen(eq=False)
class StoredStepsMutation:
    """The next `StoredSteps` in the making."""

    _source: StepSource
    _written: MapMutation[str, Step]

    def __setitem__(self, step_id: str, step: Step) -> None:
        self._written[step_id] = step

    def finish(self) -> StoredSteps:
        """The steps with all that was written."""
        return StoredSteps(self._source, self._written.finish())


@frozen(kw_only=True)
class RunState:
    """Everything the core decides on. `unit.Draft` makes the next one; nothing else does."""

    run: Run
    plan: Plan
    dag: PlanDag
    steps: Map[str, Step] | StoredSteps
    failures: Map[str, Failure] = Map()
    questions: Map[str, Question] = Map()
    spent: Map[str, float] = Map()
    """What every budget has lost: `recoveries/LINEAGE`, `tool_calls`, `seconds`, ..."""
    driven_at: float | None = None
    """When time was last charged to `seconds`; None while nobody drives the run."""

    # Indexes, each a function of the nouns above.
    unmet: Map[str, int] = Map()
    """How many dependencies of a step are not satisfied yet; absent: none."""
    ready: ReadyQueue = ReadyQueue()
    in_flight: Map[str, bool] = Map()
    """The steps with an attempt under way."""
    running: int = 0
    delayed: Map[str, bool] = Map()
    """Steps in RETRY_PENDING."""
    moving: int = 0
    """Steps that are not in a final state."""
    unfinished: int = 0
    """Steps that are neither verified nor skipped."""
    unsettled: Map[str, str] = Map()
    """Subject -> the id of its one failure that is not settled."""
    undecided: Map[str, int] = Map()
    """Failures the ladder must decide, with their order of occurrence."""
    planned: Map[str, int] = Map()
    """Failures with a planned recovery, with their order of occurrence."""
    held: Map[str, str] = Map()
    """Step -> the failure whose planned scope holds it."""
    draining: str | None = None
    """The failure whose planned recovery ends the run, if there is one."""
    asked: Map[str, str] = Map()
    """Subject -> its open question."""
    tokens: Map[str, str] = Map()
    """Tokens of accepted answers -> their question."""
    limits: Map[str, float] = Map()
    """Budgets that a person raised, and to what."""
    prepared: Map[str, object] = Map()
    """What the preparation of a planned recovery brought; lost in a crash, then redone."""

    @property
    def ending(self) -> LoopState | None:
        return self.run.state if self.run.state in ENDED else None

    def step(self, step_id: str) -> Step:
        return self.steps[step_id]

    def failure(self, failure_id: str) -> Failure:
        return self.failures[failure_id]

    def failure_of(self, subject: str) -> Failure | None:
        failure_id = self.unsettled.get(subject)
        return None if failure_id is None else self.failures[failure_id]

    def question_of(self, subject: str) -> Question | None:
        question_id = self.asked.get(subject)
        return None if question_id is None else self.questions[question_id]

    def limit_of(self, budget: str) -> float | None:
        """The limit of a run's budget: what a person raised it to, else the plan's, or None."""
        raised = self.limits.get(budget)
        planned: float | None = getattr(self.plan.policy.budget, budget)
        return planned if raised is None else raised

    def left_of(self, budget: str) -> float | None:
        """What is left of a run's budget; None: it has no limit."""
        limit = self.limit_of(budget)
        return None if limit is None else limit - self.spent.get(budget, 0)

    def unsettled_subjects(self) -> Iterable[str]:
        return self.unsettled

    def holder_of(self, step_id: str) -> str | None:
        return self.draining or self.held.get(step_id)

    @property
    def is_asking(self) -> bool:
        return len(self.asked) > 0

    @property
    def is_settled(self) -> bool:
        return self.moving == 0 and len(self.unsettled) == 0
