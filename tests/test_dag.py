"""The index over a plan: what it answers, what it refuses, what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfsm.dag import Dag, replaced
from loopfsm.errors import PlanError
from loopfsm.model.plan import Plan
from loopfsm.model.step import Call, StepSpec, output


def step(id: str, *needs: str, **words: object) -> StepSpec:
    return StepSpec(id=id, tool="tool", needs=needs, **words)  # type: ignore[arg-type]  # any field


def plan_of(*steps: StepSpec) -> Plan:
    given: Any = steps  # Any: mypy cannot follow the field's converter
    return Plan(goal="goal", steps=given)


def problems_of(*steps: StepSpec) -> list[tuple[str, str]]:
    with pytest.raises(PlanError) as caught:
        Dag.of(plan_of(*steps))
    return [(problem.place, problem.message) for problem in caught.value.problems]


def the_problem_of(*steps: StepSpec) -> tuple[str, str]:
    (problem,) = problems_of(*steps)
    return problem


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Small DAGs in which the plan's order is often not a topological one."""
    size = draw(st.integers(1, 8))
    steps = [
        step(f"s{index}", *draw(st.permutations(draw(subset(f"s{i}" for i in range(index))))))
        for index in range(size)
    ]
    return plan_of(*draw(st.permutations(steps)))


def subset(ids: Iterator[str]) -> st.SearchStrategy[list[str]]:
    known = list(ids)
    return st.lists(st.sampled_from(known), unique=True) if known else st.just([])


# Brute force: everything by asking every pair again and again.


def needs_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {spec.id: spec.needs for spec in plan.steps}


def descendants(plan: Plan, ids: set[str]) -> set[str]:
    found: set[str] = set()
    for _ in plan.steps:
        found |= {s.id for s in plan.steps if set(s.needs) & (found | ids)}
    return found


def ancestors(plan: Plan, step_id: str, back: int) -> set[str]:
    found = {step_id}
    for _ in range(back):
        found |= {need for one in found for need in needs_of(plan)[one]}
    return found


class TestAnswers:
    @given(plans())
    def test_order(self, plan: Plan) -> None:
        """Each place of the order holds the first step of the plan that could stand there."""
        done: list[str] = []
        while len(done) < len(plan.steps):
            free = (s.id for s in plan.steps if s.id not in done and set(s.needs) <= set(done))
            done.append(next(free))
        assert tuple(done) == Dag.of(plan).order

    @given(plans())
    def test_needs(self, plan: Plan) -> None:
        """A step's needs are the author's, in the author's order."""
        dag = Dag.of(plan)
        assert needs_of(plan) == {spec.id: dag.needs(spec.id) for spec in plan.steps}

    @given(plans())
    def test_dependents(self, plan: Plan) -> None:
        """A step's dependents are those that need it, in the plan's order."""
        dag = Dag.of(plan)
        for spec in plan.steps:
            expected = tuple(other.id for other in plan.steps if spec.id in other.needs)
            assert expected == dag.dependents(spec.id)

    @given(st.data())
    def test_downstream(self, data: st.DataObject) -> None:
        """Downstream is whatever a path of one edge or more reaches, without where it began."""
        plan = data.draw(plans())
        ids = set(data.draw(subset(spec.id for spec in plan.steps)))
        assert descendants(plan, ids) - ids == Dag.of(plan).downstream(ids)

    @given(st.data())
    def test_reset_set(self, data: st.DataObject) -> None:
        """The reset set holds the near ancestors and everything downstream of them."""
        plan = data.draw(plans())
        step_id = data.draw(st.sampled_from([spec.id for spec in plan.steps]))
        back = data.draw(st.integers(0, 4))
        near = ancestors(plan, step_id, back)
        assert near | descendants(plan, near) == Dag.of(plan).reset_set(step_id, back)

    def test_reset_set_goes_no_step_back_unless_told(self) -> None:
        """The first rollback resets the failed step and what depends on it."""
        dag = Dag.of(plan_of(step("a"), step("b", "a"), step("c", "b"), step("side", "a")))
        assert {"b", "c"} == dag.reset_set("b")
        assert {"a", "b", "c", "side"} == dag.reset_set("b", 1)

    def test_a_need_said_twice_is_one_need(self) -> None:
        """Repeating a need changes nothing."""
        dag = Dag.of(plan_of(step("a"), step("b", "a", "a")))
        assert ("a",) == dag.needs("b")
        assert ("b",) == dag.dependents("a")

    def test_nobody_can_change_the_index(self) -> None:
        """The order is fixed with the object, and so is the graph under it."""
        dag = Dag.of(plan_of(step("a")))
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            dag.order = ()  # that is the law
        with pytest.raises(Exception, match=r"[Ff]rozen"):
            dag._graph.add_edge("a", "b")


class TestMistakes:
    def test_no_steps(self) -> None:
        """A plan without steps is refused."""
        assert ("steps", "the plan has no steps; give it at least one") == the_problem_of()

    def test_duplicate_id(self) -> None:
        """A second step of the same id is refused; both places are named."""
        place, message = the_problem_of(step("a"), step("b"), step("a", "b"))
        assert "steps[2].id" == place
        assert "'a' already stands at steps[0].id" in message

    def test_duplicate_id_ties_no_knot(self) -> None:
        """What a step of a taken id needs is checked, but never taken for the first one's."""
        places = [place for place, _ in problems_of(step("a"), step("b", "a"), step("a", "b", "x"))]
        assert ["steps[2].id", "steps[2].needs[1]"] == places

    @pytest.mark.parametrize(
        ("id", "why"),
        [
            ("", "empty"),
            ("run", "the run as a whole"),
            ("a b", "contains ' '"),
            ("a\tb", r"contains '\t'"),
            ("a/b", "contains '/'"),
            ("a*", "contains '*'"),
        ],
    )
    def test_invalid_id(self, id: str, why: str) -> None:
        """An id that could not be named in a command, a path or a scope is refused."""
        place, message = the_problem_of(step("fine"), step(id))
        assert "steps[1].id" == place
        assert why in message

    def test_unknown_need(self) -> None:
        """A need that no step answers to is refused, with the name most like it."""
        expected = ("steps[1].needs[1]", "no step has the id 'scam'; did you mean 'scan'?")
        assert expected == the_problem_of(step("scan"), step("report", "scan", "scam"))

    def test_unknown_need_like_nothing(self) -> None:
        """Where no name is near, the refusal says so."""
        _, message = the_problem_of(step("scan"), step("report", "zzz"))
        assert "no step has the id 'zzz'; none has a name like it" == message

    def test_no_step_is_told_to_need_itself(self) -> None:
        """The suggestion is never the step that asks."""
        _, message = the_problem_of(step("reports"), step("report", "repor"))
        assert "did you mean 'reports'?" in message

    @pytest.mark.parametrize(
        ("words", "place"),
        [
            ({"args": {"files": [output("scam", "files")]}}, "steps[1].args.files"),
            ({"verify": Call("look", {"at": output("scam")})}, "steps[1].verify.args.at"),
        ],
    )
    def test_unknown_reference(self, words: dict[str, object], place: str) -> None:
        """A reference to a step that is not there is refused where it stands in the args."""
        found, message = the_problem_of(step("scan"), step("report", **words))
        assert place == found
        assert "did you mean 'scan'?" in message

    def test_many_unknown_names(self) -> None:
        """Each unknown name is reported, though only the first ones get a suggestion."""
        found = problems_of(*(step(f"s{i}", f"s{i}x") for i in range(30)))
        assert [f"steps[{i}].needs[0]" for i in range(30)] == [place for place, _ in found]
        assert "did you mean" in found[0][1]
        assert "no step has the id 's29x'" == found[29][1]

    def test_self_dependency(self) -> None:
        """A step that needs itself is refused, once."""
        place, message = the_problem_of(step("a"), step("b", "a", "b"))
        assert "steps[1].needs[1]" == place
        assert "step 'b' needs itself; remove it from its own needs" == message

    def test_cycle(self) -> None:
        """A cycle names each of its steps, in order, starting with the plan's first."""
        place, message = the_problem_of(
            step("free"), step("a", "free", "c"), step("b", "a"), step("c", "b"), step("late", "c")
        )
        assert "steps[1].needs[1]" == place
        circle = "'a' needs 'c', 'c' needs 'b', 'b' needs 'a'"
        assert f"these steps wait for each other: {circle}; remove one of these needs" == message

    def test_tangle(self) -> None:
        """Cycles that share a step are one problem: the shortest one, and who is caught with it."""
        place, message = the_problem_of(
            step("a", "b"), step("b", "a", "d"), step("c", "b"), step("d", "c")
        )
        assert "steps[0].needs[0]" == place
        assert "'a' needs 'b', 'b' needs 'a'; caught with them: 'c', 'd';" in message

    def test_two_cycles(self) -> None:
        """Cycles that share nothing are two problems."""
        found = problems_of(step("a", "b"), step("x", "y"), step("b", "a"), step("y", "x"))
        assert ["steps[0].needs[0]", "steps[1].needs[0]"] == [place for place, _ in found]

    def test_cycle_of_references(self) -> None:
        """A cycle that runs through the args is placed there."""
        place, _ = the_problem_of(step("a", args={"x": output("b")}), step("b", "a"))
        assert "steps[0].args.x" == place

    @given(st.data())
    def test_a_back_edge_is_always_found(self, data: st.DataObject) -> None:
        """A plan is refused for a cycle exactly when brute force finds a step below itself."""
        ids = [f"s{i}" for i in range(data.draw(st.integers(2, 6)))]
        plan = plan_of(*(step(id, *data.draw(subset(i for i in ids if i != id))) for id in ids))
        caught = [id for id in ids if id in descendants(plan, {id})]
        if not caught:
            assert set(ids) == set(Dag.of(plan).order)
            return
        with pytest.raises(PlanError) as refused:
            Dag.of(plan)
        named = [id for id in ids if f"'{id}'" in str(refused.value)]
        assert caught == named

    def test_required_uses_optional(self) -> None:
        """A required step may not use what an optional one might never bring."""
        optional = step("scan", optional=True)
        place, message = the_problem_of(optional, step("report", args={"of": output("scan", "n")}))
        assert "steps[1].args.of" == place
        assert "required step 'report' uses the output of 'scan', which is optional" in message
        assert "make 'report' optional too, make 'scan' required, or do not use" in message

    def test_every_use_of_an_optional_output_is_named(self) -> None:
        """Each argument that has to change is one problem, those of the verifier too."""
        used = output("scan")
        verify = Call("look", {"at": used})
        user = step("report", args={"a": used, "b": {"c": [used]}}, verify=verify)
        found = problems_of(step("scan", optional=True), user)
        places = ["steps[1].args.a", "steps[1].args.b", "steps[1].verify.args.at"]
        assert places == [place for place, _ in found]

    def test_what_optional_allows(self) -> None:
        """An optional step may use an optional output, and a required one may wait for it."""
        used = {"of": output("scan")}
        plan = plan_of(
            step("scan", optional=True),
            step("extra", args=used, optional=True),
            step("end", "scan"),
        )
        assert ("scan", "extra", "end") == Dag.of(plan).order

    def test_all_at_once(self) -> None:
        """Every mistake of a plan is told in one go, in the plan's order."""
        found = problems_of(
            step("x", "y"),
            step("a", "scam"),
            step("scan", "scan", optional=True),
            step("a"),
            step("run", args={"of": output("scan")}),
            step("y", "x"),
        )
        assert [
            "steps[0].needs[0]",
            "steps[1].needs[0]",
            "steps[2].needs[0]",
            "steps[3].id",
            "steps[4].id",
            "steps[4].args.of",
        ] == [place for place, _ in found]


class TestReplacement:
    def test_dependents_follow(self) -> None:
        """Needs and references of every dependent name the new step, in their old order."""
        old = plan_of(
            step("a"),
            step("b", "a"),
            step(
                "c",
                "b",
                "a",
                args={"in": output("b", "files", "0"), "deep": [{"x": (output("b"), 1)}], "n": 2},
                verify=Call("look", {"at": output("b"), "not": output("a")}),
            ),
        )
        new = replaced(old, "b", step("b2", "a"))
        third = new.steps[2]
        assert ["a", "b2", "c"] == [spec.id for spec in new.steps]
        assert ("b2", "a") == third.needs
        assert {"in": output("b2", "files", "0"), "deep": [{"x": (output("b2"), 1)}], "n": 2} == (
            third.args
        )
        assert Call("look", {"at": output("b2"), "not": output("a")}) == third.verify
        assert old.version + 1 == new.version

    @given(st.data())
    def test_nothing_else_changes(self, data: st.DataObject) -> None:
        """Taking the old name for the new one gives the old plan back, one version later."""
        plan = data.draw(plans())
        old = data.draw(st.sampled_from(plan.steps))
        new = replaced(plan, old.id, attrs.evolve(old, id="new"))
        back = replaced(new, "new", old)
        assert attrs.evolve(plan, version=plan.version + 2) == back

    def test_steps_that_do_not_depend_are_shared(self) -> None:
        """A step that does not need the old one is the very same object afterwards."""
        plan = plan_of(step("a"), step("b"))
        assert replaced(plan, "b", step("b2")).steps[0] is plan.steps[0]

    def test_id_taken(self) -> None:
        """A replacement brings a new id; an old one, its own included, is refused."""
        plan = plan_of(step("a"), step("b"))
        for taken in ("a", "b"):
            with pytest.raises(PlanError, match=r"^steps\[1\]\.id: the id .* already stands"):
                replaced(plan, "b", step(taken))

    def test_unknown_old_id(self) -> None:
        """There is nothing to replace where no such step is."""
        with pytest.raises(PlanError, match="no step has the id 'x'"):
            replaced(plan_of(step("a")), "x", step("y"))

    @pytest.mark.parametrize(
        ("new", "why"),
        [
            (step("b2", "c"), "wait for each other"),
            (step("b2", "b"), "no step has the id 'b'"),
            (step("b2", optional=True), "uses the output of 'b2', which is optional"),
        ],
    )
    def test_result_that_cannot_run(self, new: StepSpec, why: str) -> None:
        """A replacement after which the plan could not run is refused."""
        plan = plan_of(step("b"), step("c", args={"x": output("b")}))
        with pytest.raises(PlanError, match=why):
            replaced(plan, "b", new)


class TestDepth:
    SIZE = 5_000

    def test_long_chain(self) -> None:
        """No answer about a long chain recurses."""
        ids = [f"s{i}" for i in range(self.SIZE)]
        dag = Dag.of(plan_of(step(ids[0]), *map(step, ids[1:], ids)))
        assert tuple(ids) == dag.order
        assert frozenset(ids[1:]) == dag.downstream(ids[:1])
        assert frozenset(ids) == dag.reset_set(ids[-1], self.SIZE)

    def test_long_cycle(self) -> None:
        """A long cycle is named in full, without recursion."""
        ids = [f"s{i}" for i in range(self.SIZE)]
        _, message = the_problem_of(*map(step, ids, [ids[-1], *ids]))
        assert self.SIZE == message.count(" needs ")

    def test_downstream_costs_what_it_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A question about the end of a chain looks at the end only."""
        ids = [f"s{i}" for i in range(self.SIZE)]
        dag = Dag.of(plan_of(step(ids[0]), *map(step, ids[1:], ids)))
        looked: list[str] = []
        graph = type(dag._graph)
        look = graph.__getitem__

        def counted(self: Any, id: str) -> Any:
            looked.append(id)
            return look(self, id)

        monkeypatch.setattr(graph, "__getitem__", counted)
        assert frozenset(ids[-2:]) == dag.downstream([ids[-3]])
        assert frozenset(ids[-3:]) == dag.reset_set(ids[-2], 1)
        assert 0 < len(looked) < 20
