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

Over 400 lines: no other module may know `transitions`, and every change of every run passes
through here, so that the machine runs with an event class and a copying of our own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from attrs import frozen
from transitions import Event, Machine, MachineError

from loopfsm.errors import (
    Attempted,
    FactMissing,
    LifecycleError,
    PostconditionViolated,
    TransitionRefused,
)
from loopfsm.model.compiled import compiled, evolved, maker_of


class Noun(Protocol):
    """Anything frozen (attrs) with an id and a state."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> Any: ...


N = TypeVar("N", bound=Noun)
Function = Callable[..., Any]
Ask = Callable[..., Any]
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


_Callbacks = tuple[Callable[[Any], Any], ...]
_InlineWay = tuple[_Callbacks, _Callbacks, Any, _Callbacks]
"""Conditions; what is called before the state changes; the new state; what is called after."""
_Asked = tuple[Function, Ask]
_Way = tuple[Row, tuple[Ask, ...]]
"""A row, and what asks its guards."""


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


_fired = maker_of(Fired)


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


@cache
def asking(machine: str, function: Function, nouns: int) -> Ask:
    """The function as one of all facts at hand and so many nouns; it is given what it names.

    Compiled, since a step asks some thirty of them, and to pack the arguments of a call would
    cost more than most of the functions do.
    """

    def lack(fact: str, facts: Mapping[str, Any]) -> FactMissing:
        return FactMissing(machine, function.__name__, fact, tuple(facts))

    names = facts_read_by(function)
    given = [f"noun{place}" for place in range(nouns)]
    named = [f"{name}=fact{place}" for place, name in enumerate(names)]
    reading = (
        "    try:",
        *(f"        fact{place} = facts[{name!r}]" for place, name in enumerate(names)),
        "    except KeyError as missing:",
        "        raise lack(missing.args[0], facts) from None",
    )
    ask: Ask = compiled(
        (
            f"def made(facts, {', '.join(given)}):",
            *(reading if names else ()),
            f"    return function({', '.join((*given, *named))})",
        ),
        {"function": function, "lack": lack},
    )
    return ask


def _first_of(ways: Iterable[_Way], noun: Any, facts: Mapping[str, Any]) -> Row | None:
    for row, asks in ways:
        for ask in asks:
            if not ask(facts, noun):
                break
        else:
            return row
    return None


class InlineEvent(Event):
    """The stock event without its detours: the same transitions and callbacks, in order.

    It leaves out what `Lifecycle` gives no machine: callbacks of the machine itself, queues,
    internal transitions, `unless`, final states. `docs/adr/0009` says what keeps the two alike.
    """

    def __init__(self, name: str, machine: Machine) -> None:
        super().__init__(name, machine)
        self._ways: dict[str, tuple[_InlineWay, ...]] = {}

    def trigger(self, model: Any, *_args: Any, **_kwargs: Any) -> bool:
        """Take the first transition whose conditions hold; False when there is none.

        Callbacks are given the model, which is what a lifecycle gives the stock event, too.
        """
        name = model.state._name_  # not `.name`, which is a call
        ways = self._ways.get(name)
        if ways is None:
            ways = self._ways[name] = self._ways_from(name)
        for conditions, before, target, after in ways:
            for condition in conditions:
                if not condition(model):
                    break
            else:
                for callback in before:
                    callback(model)
                model.state = target
                for callback in after:
                    callback(model)
                return True
        return False

    def _ways_from(self, name: str) -> tuple[_InlineWay, ...]:
        """What the machine's transitions and states hold: it does not change once it runs."""
        states: Mapping[str, Any] = self.machine.states
        found: Sequence[Any] = self.transitions.get(name, ())
        return tuple(
            (
                tuple(condition.func for condition in each.conditions),
                (*each.before, *states[each.source].on_exit),
                states[each.dest].value,
                (*states[each.dest].on_enter, *each.after),
            )
            for each in found
        )


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
        # Keyed by the names of states: the hash of an enumeration's member is a call.
        self._by_trigger: dict[tuple[str, str], tuple[_Way, ...]] = {}
        for row in self.rows:
            way = (row, tuple(ask for _, ask in self._asking(row.guards, 1)))
            for source in row.source:
                key = (source.name, row.trigger)
                self._by_trigger[key] = (*self._by_trigger.get(key, ()), way)
        self._triggers: dict[str, tuple[str, ...]] = {}
        self._leaving: dict[str, tuple[_Way, ...]] = {}
        for (state, trigger), tried in self._by_trigger.items():
            self._triggers[state] = (*self._triggers.get(state, ()), trigger)
            self._leaving[state] = (*self._leaving.get(state, ()), *tried)
        self._allowed = {state: self._describe_ways_out(state) for state in self.states}
        self._ensures = {row.id: self._asking(row.ensures, 2) for row in self.rows}
        self._ensures_run = {row.id: self._asking(row.ensures_run, 3) for row in self.rows}
        self._recorded: dict[tuple[str, str], tuple[str, ...]] = {}
        for (state, _), tried in self._by_trigger.items():
            read: dict[str, None] = {}
            for row, _ in tried:
                read.update(dict.fromkeys(n for guard in row.guards for n in facts_read_by(guard)))
                self._recorded[state, row.id] = tuple(read)

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
        if not isinstance(noun.state, self.states):
            raise self._stranger(noun)
        subject = _Subject(noun, facts)
        event = self._machine.events.get(trigger)
        try:
            # Twice: as the model, and as what the stock event hands on to callbacks.
            taken = event is not None and event.trigger(subject, subject)
        except MachineError:
            taken = False
        if not taken or subject.row is None:
            attempted = tuple(_attempted(row, guard) for row, guard in subject.refused)
            allowed = self.allowed_from(noun.state)
            state = noun.state.name
            raise TransitionRefused(self.name, noun.id, state, trigger, attempted, allowed)
        row = subject.row
        recorded = self._recorded[noun.state._name_, row.id]
        read = {name: facts[name] for name in recorded if name in facts} if recorded else NO_FACTS
        return _fired(row, noun, subject.after, subject.changes, read, facts)

    def may(self, noun: N, trigger: str, **facts: Any) -> bool:
        """Whether `fire` would take a row; asks the guards only, changes nothing."""
        return self.row_taken(noun, trigger, facts) is not None

    def row_taken(self, noun: N, trigger: str, facts: Mapping[str, Any]) -> Row | None:
        """Which row `fire` would take, if any; asks the guards only, changes nothing."""
        if not isinstance(noun.state, self.states):
            raise self._stranger(noun)
        return _first_of(self._by_trigger.get((noun.state._name_, trigger), ()), noun, facts)

    def next_row(self, noun: N, facts: Mapping[str, Any]) -> Row | None:
        """The row of the first trigger (see `triggers_from`) that would be taken, if any."""
        if not isinstance(noun.state, self.states):
            raise self._stranger(noun)
        return _first_of(self._leaving.get(noun.state._name_, ()), noun, facts)

    def explain(self, noun: N, trigger: str, **facts: Any) -> Explanation:
        """Which row `trigger` would take, which guard refuses each row before it, what else may."""
        if not isinstance(noun.state, self.states):
            raise self._stranger(noun)
        attempted: list[Attempted] = []
        for row, asks in self._by_trigger.get((noun.state.name, trigger), ()):
            refusing = next((at for at, ask in enumerate(asks) if not ask(facts, noun)), None)
            if refusing is None:
                return Explanation(row, tuple(attempted), ())
            attempted.append(_attempted(row, row.guards[refusing]))
        return Explanation(None, tuple(attempted), self.allowed_from(noun.state))

    def triggers_from(self, state: Enum) -> tuple[str, ...]:
        """The triggers that some row takes from `state`, in the order of the rows."""
        return self._triggers.get(state.name, ()) if isinstance(state, self.states) else ()

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
        for function, ask in self._ensures_run[fired.row.id]:
            if not ask(fired.given, fired.after, before, after):
                raise self._violation(fired.row, fired.after, function)

    def ensures_hold(self, fired: Fired[N]) -> bool:
        """Ask the ensures of a fired row once more."""
        asked = self._ensures[fired.row.id]
        return all(ask(fired.given, fired.before, fired.after) for _, ask in asked)

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

    def _stranger(self, noun: N) -> LifecycleError:
        problem = f"{noun.id!r} is in {noun.state!r}, which is no {self.states.__name__}"
        return LifecycleError(self.name, problem)

    def _asking(self, functions: Iterable[Function], nouns: int) -> tuple[_Asked, ...]:
        return tuple((function, asking(self.name, function, nouns)) for function in functions)

    def _violation(self, row: Row, noun: N, function: Function) -> PostconditionViolated:
        return PostconditionViolated(
            self.name, noun.id, row.id, row.target.name, function.__name__, says(function)
        )

    # The machine itself: built on first use, one for all nouns.

    event_class: ClassVar[type[Event]] = InlineEvent
    """What runs the transitions; the tests run the stock one beside it."""

    @cached_property
    def _machine(self) -> Machine:
        machine_class = type("Machine", (Machine,), {"event_cls": self.event_class})
        machine: Machine = machine_class(
            model=None,
            states=self.states,
            initial=self.initial,
            auto_transitions=False,
            send_event=False,
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

    def _condition(self, row: Row, guard: Function) -> Callable[[_Subject], bool]:
        ask = asking(self.name, guard, 1)

        def condition(subject: _Subject) -> bool:
            if ask(subject.facts, subject.before):
                return True
            subject.refused.append((row, guard))
            return False

        return condition

    def _update_of(self, row: Row) -> Callable[[_Subject], None]:
        state_alone = MappingProxyType({"state": row.target})
        ask = None if row.update is None else asking(self.name, row.update, 1)

        def update(subject: _Subject) -> None:
            subject.row = row
            if ask is None:
                subject.changes = state_alone
            else:
                changes = ask(subject.facts, subject.before)
                subject.changes = {**changes, "state": row.target}
            subject.after = evolved(subject.before, subject.changes)

        return update

    def _invariants_of(self, functions: tuple[Function, ...]) -> Callable[[_Subject], None]:
        asked = self._asking(functions, 1)

        def enter(subject: _Subject) -> None:
            for function, ask in asked:
                if not ask(subject.facts, subject.after):
                    assert subject.row is not None
                    raise self._violation(subject.row, subject.after, function)

        return enter

    def _ensures_of(self, row: Row) -> Callable[[_Subject], None]:
        asked = self._ensures[row.id]

        def after(subject: _Subject) -> None:
            for function, ask in asked:
                if not ask(subject.facts, subject.before, subject.after):
                    raise self._violation(row, subject.after, function)

        return after


def _attempted(row: Row, guard: Function) -> Attempted:
    return Attempted(row.id, guard.__name__, says(guard))
