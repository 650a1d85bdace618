"""A run read back from the tables: its rows at once, what they hold when it is asked for.

Everything that changes is read in one transaction, so that what is seen belongs to one
commit. A step, its spec and its output are made of their rows when somebody asks for them;
the texts that are read only then never change: what the author said, and past commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from loopfsm import codec
from loopfsm.errors import JournalRefused, UnknownRun
from loopfsm.journals.sqlite import rows, schema
from loopfsm.journals.sqlite.lease import Store
from loopfsm.model.failure import Failure
from loopfsm.model.loop_state import LoopState, Run, StepSource, StoredSteps
from loopfsm.model.plan import Plan, Policy, StoredSpecs
from loopfsm.model.question import Question
from loopfsm.model.record import Record, Restore
from loopfsm.model.step import FINAL, Step, StepSpec, StepState, Unreadable

T = TypeVar("T")

_STATES = {state.value: state for state in StepState}


def made_sense(path: Path, run_id: str, read: Callable[[], T]) -> T:
    """What `read` returns; what cannot be made sense of is a damaged or foreign row."""
    try:
        return read()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise schema.damaged(path, f"the run {run_id!r} cannot be read: {error}") from error


class Reading:
    """One run being read."""

    def __init__(
        self, store: Store, reader: rows.Reader, number: int, restore: Restore | None
    ) -> None:
        self._store = store
        self._reader = reader
        self._number = number
        self._restore = restore
        ((self._run_id,),) = store.rows("SELECT id FROM runs WHERE number = ?", number)

    def record(self) -> Record:
        """The run as it stands; raises `JournalRefused` when it makes no sense."""
        return self._made_sense(self._record)

    def _made_sense(self, read: Callable[[], T]) -> T:
        return made_sense(self._store.path, self._run_id, read)

    def _record(self) -> Record:
        find = self._store.rows
        columns = "number, goal, state, without, reason, spent, policy, plan_version, codec, epoch"
        found = find(
            f"SELECT {columns} FROM runs JOIN heads ON run = number WHERE number = ?", self._number
        )
        number, goal, state, without, reason, used, policy, version, written, epoch = found[0]
        spent = find("SELECT budget, amount FROM spent WHERE run = ?", number)
        if written > codec.VERSION:
            problem = f"the run {self._run_id!r} was written by a newer version of loopfsm"
            raise JournalRefused(str(self._store.path), problem, "Upgrade loopfsm to read it")
        noun = self._reader.noun
        plan = Plan(
            goal=goal,
            steps=self._specs(),
            policy=noun(Policy, policy),
            version=version,
        )
        run = Run(
            id=self._run_id,
            goal=goal,
            state=LoopState(state),
            without=tuple(codec.data_of(without)),
            reason=reason,
        )
        body = "SELECT number, subject, state, body FROM {} WHERE run = ? ORDER BY number"
        return Record(
            run=run,
            plan=plan,
            steps=self._steps(plan),
            failures=[
                noun(Failure, text, number=n, subject=subject, state=stands)
                for n, subject, stands, text in find(body.format("failures"), number)
            ],
            questions=[
                noun(Question, text, number=n, subject=subject, state=stands)
                for n, subject, stands, text in find(body.format("questions"), number)
            ],
            tools=self._tools(),
            spent={**codec.data_of(used), **dict(spent)},
            rows=dict(find("SELECT row, fingerprint FROM rows WHERE run = ?", number)),
            epoch=epoch,
        )

    def _specs(self) -> StoredSpecs:
        query = "SELECT id, needs FROM plan WHERE run = ? ORDER BY position"
        found = self._store.rows(query, self._number)
        ids = [step_id for step_id, _ in found]
        # One parse for all; a name that stands in many places is one text.
        listed = codec.data_of(f"[{','.join([needs for _, needs in found])}]")
        needs = [tuple([ids[at] for at in places]) for places in listed]

        def make(at: int) -> StepSpec:
            return self._made_sense(lambda: self._spec(ids, needs, at))

        return StoredSpecs(ids, needs, make)

    def _spec(self, ids: Sequence[str], needs: Sequence[tuple[str, ...]], at: int) -> StepSpec:
        query = "SELECT tool, body FROM plan WHERE run = ? AND position = ?"
        tool, body = self._one(query, self._number, at)
        spec: StepSpec = self._reader.noun(StepSpec, body, id=ids[at], needs=needs[at], tool=tool)
        return spec

    def _steps(self, plan: Plan) -> StoredSteps:
        ids = plan.ids
        columns = ", ".join(rows.STEP_COLUMNS)  # the state is the first of them
        query = f"SELECT position, output_in, {columns} FROM steps WHERE run = ?"
        found = {ids[row[0]]: row for row in self._store.rows(query, self._number)}
        stands = {step_id: _STATES[row[2]] for step_id, row in found.items()}
        places = {step_id: at for at, step_id in enumerate(ids)}

        def make(step_id: str) -> Step:
            spec, row = plan.steps[places[step_id]], found.get(step_id)
            if row is None:  # it has not moved yet
                return Step(spec=spec)
            return self._made_sense(lambda: self._step(spec, row))

        return StoredSteps(StepSource(places, stands, make))

    def _step(self, spec: StepSpec, row: tuple[Any, ...]) -> Step:
        _, commit, *columns = row
        output = None if commit is None else self._output(commit, spec)
        return self._reader.step(spec, tuple(columns), output)

    def _output(self, commit: int, spec: StepSpec) -> Any:
        place = schema.place_of(self._number, commit)
        (units,) = self._one("SELECT units FROM commits WHERE place = ?", place)
        try:
            output = self._reader.output(units, spec.id)
        except (KeyError, ValueError) as error:
            return Unreadable(str(error.args[0] if error.args else error))
        return output if self._restore is None else self._restore(spec.tool, output)

    def _one(self, query: str, *values: Any) -> tuple[Any, ...]:
        """The one row that a query finds; `UnknownRun` when the run was forgotten meanwhile."""
        found = self._store.rows(query, *values)
        if not found:
            raise UnknownRun(self._run_id, ())
        return found[0]

    def _tools(self) -> Mapping[str, int]:
        """The tools that unfinished steps need, each with the position of the first such step."""
        final = ", ".join(f"'{state.value}'" for state in FINAL)
        query = (
            "SELECT {0}, min(position) FROM plan WHERE run = ? AND {0} IS NOT NULL AND position"
            f" NOT IN (SELECT position FROM steps WHERE run = ? AND state IN ({final}))"
            " GROUP BY {0}"
        )
        found: dict[str, int] = {}
        for column in ("tool", "verifier"):
            found.update(self._store.rows(query.format(column), self._number, self._number))
        return found
