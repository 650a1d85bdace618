"""The explorer: every state that `advance` can reach from a small plan, and every way there.

It has no transition of its own. From each state it feeds every input that the world or a
person could bring next, calls the very `advance` that runs, and lets the watch judge what
came out. Two states count as one when nothing the machines can still do tells them apart:
times, ids, texts and settled failures are left out of the comparison, counters are cut off
where no guard can see further.

A crash is no input: the state becomes what a journal gives back of it, and whoever takes the
run up begins from there. Between the two, people may speak to a run that nobody drives.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Iterator

from attrs import evolve, field, frozen

from loopfsm.engine.core import Core
from loopfsm.engine.inputs import (
    Answer,
    Cancel,
    Input,
)
from loopfsm.engine.state import new_run
from loopfsm.model.event import Unit
from loopfsm.model.failure import RUN, SETTLED, Failure
from loopfsm.model.loop_state import ENDED, RunState
from loopfsm.model.step import Step
from loopfsm.review.commands import unasked
from loopfsm.review.kept import Kept, lost
from loopfsm.review.moves import CRASH, Node, earliest, intrusions, may_crash, moves, tell
from loopfsm.review.plans import SmallPlan, registry_of
from loopfsm.review.watch import Memories, Memory, intrusion, violations

BUDGET = "recoveries"
"""The budget that must bound every unattended cycle."""


@frozen
class Edge:
    """One call of `advance`: the inputs, as a person would tell them, and what it cost."""

    label: str
    to: Hashable
    free: bool
    """Something happened, nobody was asked for it, and it spent nothing."""
    human: bool


@frozen(kw_only=True)
class Counterexample:
    """A law that was broken, and the shortest way there that was found."""

    law: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number}. {label}" for number, label in enumerate(self.trace, 1))
        return f"{self.law}\n{steps}"


@frozen(kw_only=True)
class Exploration:
    """What was seen of a small plan."""

    name: str
    states: int
    calls: int
    seconds: float
    complete: bool
    ends: tuple[str, ...]
    """The final states that some way leads to."""
    rows: frozenset[str] = field(repr=False)
    """The ids of the rows that were taken."""
    counterexample: Counterexample | None

    @property
    def clean(self) -> bool:
        """Everything was walked, and no law was broken."""
        return self.complete and self.counterexample is None


def explore(small: SmallPlan, core: Core | None = None, *, limit_s: float = 60) -> Exploration:
    """Walk every reachable state of a small plan, breadth first.

    Stops at the first broken law, or after `limit_s` seconds: then it is not complete, and
    not called a proof.
    """
    walk = _Walk(small, core or Core.of(registry_of(small)), limit_s)
    try:
        return walk.walk()
    finally:
        walk.kept.close()


class _Walk:
    def __init__(self, small: SmallPlan, core: Core, limit_s: float) -> None:
        self.small = small
        self.core = core
        self.began = time.monotonic()
        self.limit_s = limit_s
        self.calls = 0
        self.rows: set[str] = set()
        self.ends: set[str] = set()
        self.came: dict[Hashable, tuple[Hashable, str] | None] = {}
        self.edges: dict[Hashable, list[Edge]] = {}
        self.kept = Kept()
        self.start = self._start()

    def walk(self) -> Exploration:
        """Breadth first, so that the first counterexample is a shortest one."""
        self.came[key_of(self.start)] = None
        waiting = deque([self.start])
        while waiting:
            if time.monotonic() - self.began > self.limit_s:
                return self._result(complete=False, counterexample=None)
            node = waiting.popleft()
            key = key_of(node)
            found, reached = self._leave(node, key)
            if found is not None:
                return self._result(complete=False, counterexample=found)
            waiting.extend(reached)
        return self._result(complete=True, counterexample=self._never_ending())

    def _start(self) -> Node:
        plan, small = self.small.plan, self.small
        memories = Memories({name: Memory() for name in (RUN, *(s.id for s in plan.steps))})
        return Node(new_run(plan, "explored"), memories, 0.0, small.crashes, int(small.cancelled))

    def _leave(self, node: Node, key: Hashable) -> tuple[Counterexample | None, list[Node]]:
        """Take every way out of a node."""
        reached: list[Node] = []
        edges: list[Edge] = []
        if node.state.run.state in ENDED:
            self.ends.add(node.state.run.state.name)
        for item in intrusions(node):
            after, _, commands = self.core.advance(node.state, [item], node.now)
            broken = list(intrusion(node.state, item, after, commands))
            if broken:
                return self._counterexample(broken[0], key, tell(item)), []
        for inputs in moves(self.small, node):
            label = " and ".join(tell(item) for item in inputs)
            to, units, broken = self._advance(node, inputs)
            if broken:
                return self._counterexample(broken[0], key, label), []
            edges.append(Edge(label, key_of(to), _is_free(inputs, units), _is_human(inputs)))
            reached.append(to)
        if may_crash(node):
            state = self.kept.read_back(self.start.state, node.history(), node.state)
            broken = list(lost(node.state, state))
            if broken:
                return self._counterexample(broken[0], key, CRASH), []
            to = evolve(node, state=state, crashes=node.crashes - 1)
            edges.append(Edge(CRASH, key_of(to), free=False, human=False))
            reached.append(to)
        self.edges[key] = edges
        if not edges and node.state.run.state not in ENDED:
            return self._counterexample("nothing can happen any more: a deadlock", key), []
        parked = all(edge.human or edge.label == CRASH for edge in edges)
        if edges and parked and not node.state.asked and node.state.run.state not in ENDED:
            return self._counterexample("only a person can go on, and none is asked", key), []
        return None, list(self._new(key, edges, reached))

    def _new(self, key: Hashable, edges: list[Edge], reached: list[Node]) -> Iterator[Node]:
        """The nodes that nobody has come to before, each with the way to it on record."""
        for edge, to in zip(edges, reached, strict=True):
            if edge.to not in self.came:
                self.came[edge.to] = (key, edge.label)
                yield to

    def _advance(
        self, node: Node, inputs: tuple[Input, ...]
    ) -> tuple[Node, tuple[Unit, ...], list[str]]:
        """One call of `advance`: where it leads, by which units, and the laws that it breaks."""
        now = max(node.now, *(earliest(node.state, item) for item in inputs))
        state, units, commands = self.core.advance(node.state, inputs, now)
        self.calls += 1
        memories, broken = violations(node.memories, node.state, inputs, state, units, commands)
        broken += unasked(node.state, inputs, state, commands)
        self.rows.update(event.row for unit in units for event in unit.events)
        cancels = node.cancels - any(isinstance(item, Cancel) for item in inputs)
        before = (node, units)
        to = Node(state, memories, now, node.crashes, cancels, before)
        return to, units, broken

    def _counterexample(self, law: str, at: Hashable, last: str = "") -> Counterexample:
        trace = [last] if last else []
        came = self.came[at]
        while came is not None:
            trace.append(came[1])
            came = self.came[came[0]]
        return Counterexample(law=law, trace=tuple(reversed(trace)))

    def _never_ending(self) -> Counterexample | None:
        """A state that reaches no end, or an unattended cycle that spends nothing."""
        ended = [key for key, edges in self.edges.items() if not edges]
        back: dict[Hashable, list[Hashable]] = {}
        for key, edges in self.edges.items():
            for edge in edges:
                back.setdefault(edge.to, []).append(key)
        reaching, stack = set(ended), list(ended)
        while stack:
            for key in back.get(stack.pop(), ()):
                if key not in reaching:
                    reaching.add(key)
                    stack.append(key)
        for key in self.came:
            if key not in reaching:
                return self._counterexample("no end can be reached from here", key)
        return self._free_cycle()

    def _free_cycle(self) -> Counterexample | None:
        """Take away, again and again, what nothing leads to; what is left is a cycle."""
        free = {key: [edge.to for edge in edges if edge.free] for key, edges in self.edges.items()}
        incoming = dict.fromkeys(free, 0)
        for targets in free.values():
            for target in targets:
                incoming[target] += 1
        stack = [key for key, count in incoming.items() if count == 0]
        left = len(free)
        while stack:
            left -= 1
            for target in free[stack.pop()]:
                incoming[target] -= 1
                if incoming[target] == 0:
                    stack.append(target)
        if not left:
            return None
        before = {
            edge.to: (key, edge.label)
            for key, edges in self.edges.items()
            for edge in edges
            if edge.free and incoming[key] > 0
        }
        at = next(key for key in self.came if incoming[key] > 0)
        seen: list[Hashable] = []
        while at not in seen:  # each of what is left has another one before it
            seen.append(at)
            at = before[at][0]
        labels = [before[key][1] for key in seen[seen.index(at) :]]
        law = f"an unattended cycle spends no {BUDGET}: {', then '.join(reversed(labels))}"
        return self._counterexample(law, at)

    def _result(self, *, complete: bool, counterexample: Counterexample | None) -> Exploration:
        return Exploration(
            name=self.small.name,
            states=len(self.came),
            calls=self.calls,
            seconds=time.monotonic() - self.began,
            complete=complete,
            ends=tuple(sorted(self.ends)),
            rows=frozenset(self.rows),
            counterexample=counterexample,
        )


def _is_free(inputs: tuple[Input, ...], units: tuple[Unit, ...]) -> bool:
    events = [event for unit in units for event in unit.events]
    spends = any(name.startswith(BUDGET) for event in events for name, _ in event.spent)
    happened = any(event.changes for event in events)
    return happened and not spends and not _is_human(inputs)


def _is_human(inputs: tuple[Input, ...]) -> bool:
    return any(isinstance(item, (Answer, Cancel)) for item in inputs)


# When two states are one


def key_of(node: Node) -> Hashable:
    """What the machines and the watch can still tell apart about a node."""
    state = node.state
    policy = state.plan.policy
    steps = tuple(_step_key(node, state.step(spec.id)) for spec in state.plan.steps)
    calls = state.limit_of("tool_calls")
    left = None if calls is None else min(max(calls - node.memories.starts, -1), 2)
    spent = None if calls is None else min(calls - state.spent.get("tool_calls", 0), 2)
    slots = policy.max_parallel < len(steps)
    queue = tuple(step_id for _, step_id in state.ready.entries()) if slots else ()
    recoveries = state.plan.policy.recoveries
    about_run = (
        _failure_key(state, state.failure_of(RUN)),
        min(node.memories.of_step[RUN].recoveries, recoveries + 1),
        min(state.spent.get(f"{BUDGET}/{RUN}", 0), recoveries),
    )
    driven = state.driven_at is not None
    return (
        state.run.state,
        steps,
        about_run,
        left,
        spent,
        queue,
        driven,
        node.crashes,
        node.cancels,
    )


def _step_key(node: Node, step: Step) -> Hashable:
    state, policy = node.state, node.state.plan.policy
    memory = node.memories.of_step[step.id]
    effect: Hashable = None
    if not step.spec.idempotent:
        granted = step.granted_in >= step.acted_in
        effect = (step.acted_in > 0, granted, step.act_reported_failed, memory.may_repeat)
    retries = policy.retries_of(step.spec)
    return (
        step.state,
        step.failed_in,
        min(step.attempt, 2),
        min(step.retry_count, retries),
        effect,
        min(memory.recoveries, policy.recoveries + 1),
        min(memory.retries, retries + 1),
        min(state.spent.get(f"{BUDGET}/{step.lineage}", 0), policy.recoveries),
        _failure_key(state, state.failure_of(step.id)),
    )


def _failure_key(state: RunState, failure: Failure | None) -> Hashable:
    if failure is None or failure.state in SETTLED:
        return None
    question = state.question_of(failure.subject)
    return (
        failure.state,
        failure.kind if failure.subject == RUN else None,
        failure.strategy,
        failure.scope,
        failure.ordered,
        frozenset(failure.failed_strategies),
        failure.id in state.prepared,
        None if question is None else tuple(question.choices),
    )
