"""Rows into a running machine: the only module that knows `transitions`.

A lifecycle is a table of rows over frozen nouns. Guards, updates, invariants and ensures
are named pure functions; each says in its signature, as keyword-only parameters, which
*facts* it reads beside the noun, so that the journal can keep exactly those:

    guard(noun, *, fact...) -> bool          update(noun, *, fact...) -> changed fields
    invariant(noun, *, fact...) -> bool      ensure(before, after, *, fact...) -> bool
    ensure_run(noun, run_before, run_after, *, fact...) -> bool    (asked by `unit.Draft`)

One synchronous `transitions.Machine` serves all nouns of a lifecycle; no model is ever
registered, since registration is quadratic. What the library leaves to its users - the new
state kept when an entry callback raises, a silent `False`, `MachineError` - ends here: the
machine works on a throw-away subject, and a noun is returned or one of our errors raised.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, cast

import attrs
from attrs import frozen
from transitions import EventData, Machine, MachineError

from loopfsm.errors import (
    Attempted,
    FactMissing,
    LifecycleError,
    PostconditionViolated,
    TransitionRefused,
)


class Noun(Protocol):
    """Anything frozen (attrs) with an id and a state."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> Any: ...


N = TypeVar("N", bound=Noun)
Function = Callable[..., Any]
NO_FACTS: Mapping[str, Any] = MappingProxyType({})


@frozen(kw_only=True)
class Row:
    """One transition: from where, by which trigger, under which guards, to where."""

    id: str
    trigger: str
    source: tuple[Enum, ...]
    target: Enum
    guards: tuple[Function, ...] = ()
    update: Function | None = None
    ensures: tuple[Function, ...] = ()
    """True of (before, after) on entry."""
    ensures_run: tuple[Function, ...] = ()
    """True of the run at the end of the unit, as far as the unit wrote it."""
    spends: str | None = None
    """The finite budget that taking this row consumes."""


@frozen
class Fired(Generic[N]):
    """A row that was taken: the noun before and after, what changed, and on which facts.

    `facts` holds what the guards read: its own, and those of the rows that were tried first.
    """

    row: Row
    before: N
    after: N
    changes: Mapping[str, Any]
    facts: Mapping[str, Any]
    given: Mapping[str, Any]
    """Every fact the caller gave."""


@frozen
class Explanation:
    """What a trigger would do now: the row it would take, or why none."""

    row: Row | None
    attempted: tuple[Attempted, ...]
    """The rows before it, each with the guard that said no."""
    allowed: tuple[str, ...]
    """The triggers that some row takes from this state, with their guards."""

    def __bool__(self) -> bool:
        return self.row is not None

    @property
    def why_not(self) -> str:
        """Why no row is taken, in one line; empty when one is."""
        if self.row is not None:
            return ""
        return "; ".join(str(row) for row in self.attempted) or "no row leaves this state by it"


def facts_read_by(function: Function) -> tuple[str, ...]:
    """The facts that a guard, update, invariant or ensure names in its signature."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


@cache
def says(function: Function) -> str:
    """What a function claims: the first line of its docstring, else its name."""
    text = inspect.getdoc(function)
    return text.splitlines()[0].rstrip(".") if text else function.__name__


class _Subject:
    """The throw-away model of one trigger."""

    __slots__ = ("after", "before", "changes", "facts", "refused", "row", "state")

    def __init__(self, before: Any, facts: Mapping[str, Any]) -> None:
        self.state = before.state
        self.before = before
        self.facts = facts
        self.refused: list[tuple[Row, Function]] = []
        self.row: Row | None = None
        self.after: Any = None
        self.changes: Mapping[str, Any] = NO_FACTS


class Lifecycle(Generic[N]):
    """A machine as a table. Immutable; `extended` makes a larger one."""

    def __init__(
        self,
        name: str,
        *,
        states: type[Enum],
        initial: Enum,
        rows: Sequence[Row],
        invariants: Mapping[Any, tuple[Function, ...]] | None = None,
    ) -> None:
        self.name = name
        self.states = states
        self.initial = initial
        self.rows = tuple(rows)
        self.invariants = MappingProxyType(dict(invariants or {}))
        self._refuse_bad_rows()
        self._by_trigger: dict[tuple[Enum, str], tuple[Row, ...]] = {}
        for row in self.rows:
            for source in row.source:
                key = (source, row.trigger)
                self._by_trigger[key] = (*self._by_trigger.get(key, ()), row)
        self._triggers: dict[Enum, tuple[str, ...]] = {}
        for source, trigger in self._by_trigger:
            self._triggers[source] = (*self._triggers.get(source, ()), trigger)
        self._allowed = {state: self._describe_ways_out(state) for state in self.states}
        functions = {f for row in self.rows for f in _functions_of(row)}
        functions.update(f for group in self.invariants.values() for f in group)
        self._reads = {function: facts_read_by(function) for function in functions}
        self._recorded: dict[tuple[Enum, str], tuple[str, ...]] = {}
        for (source, _), tried in self._by_trigger.items():
            read: dict[str, None] = {}
            for row in tried:
                read.update(dict.fromkeys(n for guard in row.guards for n in self._reads[guard]))
                self._recorded[source, row.id] = tuple(read)

    def __repr__(self) -> str:
        return f"<Lifecycle {self.name}: {len(self.states)} states, {len(self.rows)} rows>"

    def fire(self, noun: N, trigger: str, **facts: Any) -> N:
        """Return the noun that `trigger` makes of `noun`; the noun itself never changes.

        Raises:
            TransitionRefused: no row takes the trigger here, or each one's guards say no.
            PostconditionViolated: an invariant of the target or an ensure of the row is false.
            FactMissing: a function of the row reads a fact that was not given.
        """
        return self.transition(noun, trigger, facts).after

    def transition(self, noun: N, trigger: str, facts: Mapping[str, Any]) -> Fired[N]:
        """Do as `fire` does, and return the whole record of it."""
        self._refuse_stranger(noun)
        subject = _Subject(noun, facts)
        event = self._machine.events.get(trigger)
        try:
            taken = event is not None and event.trigger(subject)
        except MachineError:
            taken = False
        if not taken or subject.row is None:
            attempted = tuple(_attempted(row, guard) for row, guard in subject.refused)
            allowed = self.allowed_from(noun.state)
            state = noun.state.name
            raise TransitionRefused(self.name, noun.id, state, trigger, attempted, allowed)
        row = subject.row
        recorded = self._recorded[noun.state, row.id]
        read = {name: facts[name] for name in recorded if name in facts} if recorded else NO_FACTS
        return Fired(row, noun, subject.after, subject.changes, read, facts)

    def may(self, noun: N, trigger: str, **facts: Any) -> bool:
        """Whether `fire` would take a row; asks the guards only, changes nothing."""
        self._refuse_stranger(noun)
        return any(
            all(self._ask(guard, facts, noun) for guard in row.guards)
            for row in self._by_trigger.get((noun.state, trigger), ())
        )

    def explain(self, noun: N, trigger: str, **facts: Any) -> Explanation:
        """Which row `trigger` would take, which guard refuses each row before it, what else may."""
        self._refuse_stranger(noun)
        attempted: list[Attempted] = []
        for row in self._by_trigger.get((noun.state, trigger), ()):
            refusing = next((g for g in row.guards if not self._ask(g, facts, noun)), None)
            if refusing is None:
                return Explanation(row, tuple(attempted), ())
            attempted.append(_attempted(row, refusing))
        return Explanation(None, tuple(attempted), self.allowed_from(noun.state))

    def triggers_from(self, state: Enum) -> tuple[str, ...]:
        """The triggers that some row takes from `state`, in the order of the rows."""
        return self._triggers.get(state, ())

    def allowed_from(self, state: Enum) -> tuple[str, ...]:
        """Every trigger that leaves `state`, each with the guards of its rows."""
        return self._allowed[state]

    def _describe_ways_out(self, state: Enum) -> tuple[str, ...]:
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if state in row.source:
                guards = " and ".join(guard.__name__ for guard in row.guards)
                found.setdefault(row.trigger, []).append(guards)
        return tuple(
            trigger if "" in ways else f"{trigger} (if {' or '.join(ways)})"
            for trigger, ways in found.items()
        )

    def extended(self, rows: Sequence[Row]) -> Lifecycle[N]:
        """Return the lifecycle that has `rows` too, after its own."""
        return Lifecycle(
            self.name,
            states=self.states,
            initial=self.initial,
            rows=(*self.rows, *rows),
            invariants=self.invariants,
        )

    def ensures_of_run_hold(self, fired: Fired[N], before: Any, after: Any) -> None:
        """Ask the run contracts of a fired row; raise `PostconditionViolated` on the first no."""
        for function in fired.row.ensures_run:
            if not self._ask(function, fired.given, fired.after, before, after):
                raise self._violation(fired.row, fired.after, function)

    def ensures_hold(self, fired: Fired[N]) -> bool:
        """Ask the ensures of a fired row once more."""
        nouns = (fired.before, fired.after)
        return all(self._ask(function, fired.given, *nouns) for function in fired.row.ensures)

    def _refuse_bad_rows(self) -> None:
        seen: set[str] = set()
        for row in self.rows:
            if not isinstance(row.source, tuple):
                raise LifecycleError(self.name, f"row {row.id}: source is no tuple of states")
            strangers = [s for s in (*row.source, row.target) if not isinstance(s, self.states)]
            if strangers:
                raise LifecycleError(self.name, f"row {row.id} names {strangers[0]!r}, no state")
            if not row.source:
                raise LifecycleError(self.name, f"row {row.id} has no source state")
            if len(set(row.source)) < len(row.source):
                raise LifecycleError(self.name, f"row {row.id} names a source state twice")
            if row.id in seen:
                raise LifecycleError(self.name, f"two rows have the id {row.id}")
            seen.add(row.id)
        for state in (self.initial, *self.invariants):
            if not isinstance(state, self.states):
                raise LifecycleError(self.name, f"{state!r} is no state of {self.states.__name__}")

    def _refuse_stranger(self, noun: N) -> None:
        if not isinstance(noun.state, self.states):
            problem = f"{noun.id!r} is in {noun.state!r}, which is no {self.states.__name__}"
            raise LifecycleError(self.name, problem)

    def _ask(self, function: Function, facts: Mapping[str, Any], *nouns: Any) -> Any:
        names = self._reads[function]
        if not names:
            return function(*nouns)
        try:
            read = {name: facts[name] for name in names}
        except KeyError as missing:
            name = str(missing.args[0])
            raise FactMissing(self.name, function.__name__, name, tuple(facts)) from None
        return function(*nouns, **read)

    def _violation(self, row: Row, noun: N, function: Function) -> PostconditionViolated:
        return PostconditionViolated(
            self.name, noun.id, row.id, row.target.name, function.__name__, says(function)
        )

    # The machine itself: built on first use, one for all nouns.

    @cached_property
    def _machine(self) -> Machine:
        machine = Machine(
            model=None,
            states=self.states,
            initial=self.initial,
            auto_transitions=False,
            send_event=True,
            queued=False,
        )
        for state, functions in self.invariants.items():
            if functions:
                machine.get_state(state).add_callback("enter", self._invariants_of(functions))
        for row in self.rows:
            for source in row.source:
                machine.add_transition(
                    row.trigger,
                    source,
                    row.target,
                    conditions=[self._condition(row, guard) for guard in row.guards],
                    before=[self._update_of(row)],
                    after=[self._ensures_of(row)] if row.ensures else None,
                )
        return machine

    def _condition(self, row: Row, guard: Function) -> Callable[[EventData], bool]:
        def condition(event: EventData) -> bool:
            subject = cast(_Subject, event.model)
            if self._ask(guard, subject.facts, subject.before):
                return True
            subject.refused.append((row, guard))
            return False

        return condition

    def _update_of(self, row: Row) -> Callable[[EventData], None]:
        state_alone = MappingProxyType({"state": row.target})

        def update(event: EventData) -> None:
            subject = cast(_Subject, event.model)
            subject.row = row
            if row.update is None:
                subject.changes = state_alone
            else:
                changes = self._ask(row.update, subject.facts, subject.before)
                subject.changes = {**changes, "state": row.target}
            subject.after = attrs.evolve(subject.before, **subject.changes)

        return update

    def _invariants_of(self, functions: tuple[Function, ...]) -> Callable[[EventData], None]:
        def enter(event: EventData) -> None:
            subject = cast(_Subject, event.model)
            for function in functions:
                if not self._ask(function, subject.facts, subject.after):
                    assert subject.row is not None
                    raise self._violation(subject.row, subject.after, function)

        return enter

    def _ensures_of(self, row: Row) -> Callable[[EventData], None]:
        def after(event: EventData) -> None:
            subject = cast(_Subject, event.model)
            for function in row.ensures:
                if not self._ask(function, subject.facts, subject.before, subject.after):
                    raise self._violation(row, subject.after, function)

        return after


def _functions_of(row: Row) -> tuple[Function, ...]:
    update = (row.update,) if row.update else ()
    return (*row.guards, *update, *row.ensures, *row.ensures_run)


def _attempted(row: Row, guard: Function) -> Attempted:
    return Attempted(row.id, guard.__name__, says(guard))
