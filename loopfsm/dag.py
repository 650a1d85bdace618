"""The dependencies of a plan as a graph: an immutable index, and the one user of networkx.

An edge runs from a step to each of its dependents, inserted in the plan's order, so that
every answer is deterministic. The graph carries no data: nodes and edges share one empty
dict, which is what keeps a plan of 100,000 steps small. Walks go layer by layer, so a
chain of any length is no deeper than another plan.

Whoever asks `downstream` or `reset_set` pays for the answer, never for the plan.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

import attrs
import networkx as nx

from loopfsm.errors import PlanError, Problem
from loopfsm.model.failure import RUN
from loopfsm.model.plan import Plan
from loopfsm.model.step import Output, StepSpec, references

SUGGESTIONS = 20
"""How many unknown names get a suggestion: a search through all ids costs its time."""


class _Graph(nx.DiGraph):
    """A graph whose nodes and edges carry nothing, and share it."""

    _nothing: dict[str, Any] = {}  # noqa: RUF012  # shared on purpose; nobody writes to it

    def _share(self) -> dict[str, Any]:
        return self._nothing

    node_attr_dict_factory = _share
    edge_attr_dict_factory = _share


def _dependents_in(plan: Plan) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for step_id, needs in zip(plan.ids, plan.needs, strict=True):
        for need in needs:
            found.setdefault(need, []).append(step_id)
    return {step_id: tuple(dependents) for step_id, dependents in found.items()}


@attrs.frozen(eq=False)
class Dag:
    """The dependency graph of one plan. `Dag.of(plan)` makes it, or names every mistake.

    `Dag(plan)` takes a plan that is known to be able to run, such as one that was kept. What
    is asked all the time, the dependents of a step, is at hand; the graph itself is built
    when somebody asks what only a graph can answer.
    """

    _plan: Plan = attrs.field(repr=False)
    _dependents: Mapping[str, tuple[str, ...]] = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: _dependents_in(self._plan), takes_self=True),
    )

    @classmethod
    def of(cls, plan: Plan) -> Dag:
        """Index `plan`.

        Raises:
            PlanError: the plan cannot run; it carries every problem, in the plan's order.
        """
        if not plan.steps:
            raise PlanError((Problem("steps", "the plan has no steps; give it at least one"),))
        first = _first_places(plan.steps)
        graph = _graph_of(plan.steps, first)
        problems = list(_problems_of_steps(plan.steps, first))
        if not nx.is_directed_acyclic_graph(graph):
            problems.extend(_problems_of_cycles(plan.steps, first, graph))
        if problems:
            problems.sort(key=lambda found: found[0])  # stable: within a step as found
            raise PlanError(tuple(problem for _, problem in problems))
        return cls(plan)

    @cached_property
    def _graph(self) -> _Graph:
        steps = self._plan.steps
        graph = _graph_of(steps, _first_places(steps))
        nx.freeze(graph)
        return graph

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Every step after all it needs; where that leaves a choice, in the plan's order."""
        first = _first_places(self._plan.steps)
        return tuple(nx.lexicographical_topological_sort(self._graph, key=first.__getitem__))

    def needs(self, step_id: str) -> tuple[str, ...]:
        """The steps that `step_id` needs directly, in the order in which it names them."""
        return tuple(self._graph.pred[step_id])

    def dependents(self, step_id: str) -> tuple[str, ...]:
        """The steps that need `step_id` directly, in the plan's order."""
        return self._dependents.get(step_id, ())

    def downstream(self, step_ids: Iterable[str]) -> frozenset[str]:
        """Every step that depends on one of `step_ids`, directly or not; without them."""
        layers = nx.bfs_layers(self._graph, list(step_ids))
        return frozenset(chain.from_iterable(islice(layers, 1, None)))

    def reset_set(self, step_id: str, back: int = 0) -> frozenset[str]:
        """What a rollback of `step_id` resets when it goes `back` dependencies back.

        The step, its ancestors at most `back` edges away, and everything downstream of
        those (DESIGN, section 6, Rollback).
        """
        layers = nx.bfs_layers(nx.reverse_view(self._graph), [step_id])
        roots = frozenset(chain.from_iterable(islice(layers, back + 1)))
        return roots | self.downstream(roots)


def replaced(plan: Plan, old_id: str, new_spec: StepSpec) -> Plan:
    """Return the next version of `plan`, in which `new_spec` stands where `old_id` stood.

    Every dependent follows: its needs, in their order, and its references name the new step.

    Raises:
        PlanError: no such step, an id that is taken already, or a result that cannot run.
    """
    places = _first_places(plan.steps)
    if old_id not in places:
        message = f"no step has the id {old_id!r}, so nothing can take its place"
        raise PlanError((Problem("steps", message),))
    if new_spec.id in places:
        message = (
            f"the id {new_spec.id!r} of the replacement already stands at "
            f"steps[{places[new_spec.id]}]; give the replacement a new id"
        )
        raise PlanError((Problem(f"steps[{places[old_id]}].id", message),))
    steps: Any = tuple(  # Any: mypy cannot follow the field's converter through evolve
        new_spec if spec.id == old_id else _following(spec, old_id, new_spec.id)
        for spec in plan.steps
    )
    result = attrs.evolve(plan, steps=steps, version=plan.version + 1)
    Dag.of(result)
    return result


def _following(spec: StepSpec, old_id: str, new_id: str) -> StepSpec:
    if old_id not in spec.needs:  # a reference is always among the needs
        return spec
    verify = spec.verify
    if verify is not None:
        verify = attrs.evolve(verify, args=_renamed(verify.args, old_id, new_id))
    needs: Any = tuple(new_id if need == old_id else need for need in spec.needs)  # as above
    args = _renamed(spec.args, old_id, new_id)
    return attrs.evolve(spec, needs=needs, args=args, verify=verify)


def _renamed(value: Any, old_id: str, new_id: str) -> Any:
    if isinstance(value, Output):
        return attrs.evolve(value, step_id=new_id) if value.step_id == old_id else value
    if isinstance(value, Mapping):
        return {key: _renamed(item, old_id, new_id) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_renamed(item, old_id, new_id) for item in value)
    return value


# What can be wrong with a plan. Each finding carries the position of its step, for the order.

Finding = tuple[int, Problem]


def _first_places(steps: Sequence[StepSpec]) -> dict[str, int]:
    """Where each id stands first: a later step of the same id is a mistake, not a node."""
    first: dict[str, int] = {}
    for index, spec in enumerate(steps):
        first.setdefault(spec.id, index)
    return first


def _graph_of(steps: Sequence[StepSpec], first: Mapping[str, int]) -> _Graph:
    graph = _Graph()
    graph.add_nodes_from(first)
    graph.add_edges_from(
        (need, spec.id)
        for index, spec in enumerate(steps)
        if first[spec.id] == index
        for need in spec.needs
        if need in first and need != spec.id
    )
    return graph


def _problems_of_steps(steps: Sequence[StepSpec], first: Mapping[str, int]) -> Iterator[Finding]:
    suggest = _Suggestions(tuple(first))
    optional = {spec.id for spec in steps if spec.optional}
    for index, spec in enumerate(steps):
        if wrong := _wrong_with_id(spec.id):
            yield index, Problem(f"steps[{index}].id", wrong)
        elif first[spec.id] != index:
            message = (
                f"the id {spec.id!r} already stands at steps[{first[spec.id]}].id; "
                "each step needs an id of its own"
            )
            yield index, Problem(f"steps[{index}].id", message)
        for need in dict.fromkeys(spec.needs):
            if need == spec.id:
                message = f"step {spec.id!r} needs itself; remove it from its own needs"
            elif need not in first:
                message = f"no step has the id {need!r}{suggest.near(need, spec.id)}"
            elif need in optional and not spec.optional and need in spec.used_outputs:
                message = (
                    f"required step {spec.id!r} uses the output of {need!r}, which is optional "
                    f"and may be skipped; make {spec.id!r} optional too, make {need!r} required, "
                    "or do not use its output"
                )
            else:
                continue
            for place in _places(index, spec, need):
                yield index, Problem(place, message)


def _wrong_with_id(step_id: str) -> str:
    if not step_id:
        return "the id is empty; give the step a name"
    if step_id == RUN:
        return f"the id {RUN!r} means the run as a whole; name the step otherwise"
    bad = sorted({char for char in step_id if char.isspace() or char in "/*"})
    if not bad:
        return ""
    return (
        f"the id {step_id!r} contains {', '.join(map(repr, bad))}; no spaces, '/' or '*' in an id"
    )


@attrs.define
class _Suggestions:
    """The ids most like an unknown name, each name looked up once."""

    _ids: tuple[str, ...]
    _known: dict[str, list[str]] = attrs.field(factory=dict, init=False)

    def near(self, name: str, asker: str) -> str:
        if name not in self._known:
            if len(self._known) >= SUGGESTIONS:
                return ""
            # one more than is shown: a step is never told to need itself
            self._known[name] = difflib.get_close_matches(name, self._ids, n=2)
        near = next((found for found in self._known[name] if found != asker), None)
        return f"; did you mean {near!r}?" if near else "; none has a name like it"


def _places(index: int, spec: StepSpec, need: str) -> list[str]:
    """Where the author said that `spec` needs `need`: the args that use it, else the needs."""
    groups = {"args": spec.args, "verify.args": spec.verify.args if spec.verify else {}}
    used = [
        f"steps[{index}].{group}.{key}"
        for group, args in groups.items()
        for key, value in args.items()
        if any(reference.step_id == need for reference in references(value))
    ]
    return used or [f"steps[{index}].needs[{spec.needs.index(need)}]"]


def _problems_of_cycles(
    steps: Sequence[StepSpec], first: Mapping[str, int], graph: _Graph
) -> Iterator[Finding]:
    for component in nx.strongly_connected_components(graph):
        if len(component) == 1:
            continue
        start = min(component, key=first.__getitem__)
        circle = _shortest_circle(graph, start)
        links = zip(circle, (*circle[1:], start), strict=True)
        message = "these steps wait for each other: "
        message += ", ".join(f"{step!r} needs {need!r}" for step, need in links)
        if rest := sorted(component.difference(circle), key=first.__getitem__):
            message += f"; caught with them: {', '.join(map(repr, rest))}"
        index = first[start]
        place = _places(index, steps[index], circle[1])[0]
        yield index, Problem(place, f"{message}; remove one of these needs")


def _shortest_circle(graph: _Graph, start: str) -> tuple[str, ...]:
    """From `start` along needs back to it, in the fewest steps; `start` stands first only."""
    parents: dict[str, str] = {}
    for parent, step in nx.bfs_edges(graph, start):
        parents[step] = parent
        if graph.has_edge(step, start):
            circle = [start, step]
            while (parent := parents[circle[-1]]) != start:
                circle.append(parent)
            return tuple(circle)
    raise AssertionError(f"{start!r} is in no circle")  # its component says otherwise
