"""A plan: a goal, the steps in the author's order, and the policy that bounds the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from operator import eq
from types import MappingProxyType
from typing import Any, overload

from attrs import Attribute, field, frozen

from loopfsm.errors import PlanError, Problem
from loopfsm.model.failure import LAST_RUNGS, RecoveryStrategy
from loopfsm.model.step import StepSpec


class WhenExhausted(Enum):
    """The last rung of every ladder, for a failure without a blocker and a spent budget."""

    ASK = "ask"
    ABSTAIN = "abstain"
    FAIL = "fail"


UNCLASSIFIED = "unclassified"
"""The class of a failure whose result carries no situation."""

FAILURE_CLASSES = (UNCLASSIFIED,)
"""Every class that a ladder may say something about."""

DEFAULT_LADDER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {UNCLASSIFIED: (RecoveryStrategy.RETRY,)}
)
"""X3: what is tried, in order, for each class of failure."""


def _refuse(name: str, found: object, expected: str) -> PlanError:
    return PlanError((Problem(f"policy.{name}", f"found {found!r}, expected {expected}"),))


def _number(minimum: float, *, whole: bool) -> Any:
    kind = "a whole number" if whole else "a number"

    def check(_instance: object, attribute: Attribute[Any], value: object) -> None:
        allowed = (int,) if whole else (int, float)
        good = isinstance(value, allowed) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or value < minimum:  # type: ignore[arg-type,operator]  # narrowed by `good`
            raise _refuse(attribute.name, value, f"{kind} of at least {minimum:g}")

    return check


def _optional(check: Any) -> Any:
    def or_none(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None:
            check(instance, attribute, value)

    return or_none


def _when_exhausted(value: object) -> WhenExhausted:
    try:
        return WhenExhausted(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in WhenExhausted)
        raise _refuse("when_exhausted", value, f"one of {known}") from None


def _flag(_instance: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, bool):
        raise _refuse(attribute.name, value, "true or false")


def _ladder(_instance: object, _attribute: object, value: Mapping[str, tuple[str, ...]]) -> None:
    for kind, rungs in value.items():
        if kind not in FAILURE_CLASSES:
            raise _refuse("ladder", kind, f"one of {', '.join(FAILURE_CLASSES)}")
        given: object = rungs
        listed = isinstance(given, (tuple, list))
        if not listed or not all(isinstance(rung, str) for rung in rungs):
            raise _refuse(f"ladder.{kind}", rungs, "a list of strategies")
        for rung in rungs:
            if rung in LAST_RUNGS:
                instead = "when_exhausted says what comes after the last rung"
                raise _refuse(f"ladder.{kind}", str(rung), f"a recovery; {instead}")


@frozen(kw_only=True)
class Budget:
    """What a run may use in all; None: no limit. A spent budget refuses the next start."""

    steps: int | None = field(default=None, validator=_optional(_number(0, whole=True)))
    tool_calls: int | None = field(default=None, validator=_optional(_number(0, whole=True)))
    seconds: float | None = field(default=None, validator=_optional(_number(0, whole=False)))
    """Time driven, not parked."""
    tokens: int | None = field(default=None, validator=_optional(_number(0, whole=True)))
    cost: float | None = field(default=None, validator=_optional(_number(0, whole=False)))


@frozen(kw_only=True)
class Policy:
    """The limits of a run. Every field has the default of the plan-file reference."""

    max_parallel: int = field(default=8, validator=_number(1, whole=True))
    max_retries: int | None = field(default=None, validator=_optional(_number(0, whole=True)))
    """Re-executions per step; None: 2 for an idempotent step, else 0."""
    backoff_base_s: float = field(default=1, validator=_number(0, whole=False))
    backoff_cap_s: float = field(default=60, validator=_number(0, whole=False))
    recoveries: int = field(default=6, validator=_number(0, whole=True))
    """Recoveries per lineage: the one budget that bounds every unattended cycle."""
    when_exhausted: WhenExhausted = field(default=WhenExhausted.ASK, converter=_when_exhausted)
    """Also given as its value: "ask", "abstain" or "fail"."""
    may_abstain: bool = field(default=True, validator=_flag)
    question_deadline_s: float | None = field(
        default=None, validator=_optional(_number(0, whole=False))
    )
    output_cap_bytes: int = field(default=65536, validator=_number(1, whole=True))
    lease_s: float = field(default=30, validator=_number(1, whole=False))
    """How long a driver may be silent before another host may take the run over."""
    ladder: Mapping[str, tuple[str, ...]] = field(default=DEFAULT_LADDER, validator=_ladder)
    budget: Budget = field(factory=Budget)

    def retries_of(self, spec: StepSpec) -> int:
        """How many re-executions `spec` may have: its own number, else the policy's."""
        if spec.max_retries is not None:
            return spec.max_retries
        if self.max_retries is not None:
            return self.max_retries
        return 2 if spec.idempotent else 0


class StoredSpecs(Sequence[StepSpec]):
    """The steps of a plan that was read back: each is made when it is asked for first.

    Their ids and needs are at hand, which is all that the shape of a plan takes.
    """

    def __init__(
        self,
        ids: Sequence[str],
        needs: Sequence[tuple[str, ...]],
        make: Callable[[int], StepSpec],
    ) -> None:
        self.ids = ids
        self.needs = needs
        self._make = make
        self._made: dict[int, StepSpec] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> StepSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StepSpec]: ...
    def __getitem__(self, index: int | slice) -> StepSpec | Sequence[StepSpec]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(len(self))[index])
        at = range(len(self))[index]
        found = self._made.get(at)
        if found is None:
            found = self._made[at] = self._make(at)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, StoredSpecs)):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self.ids))


def _as_sequence(specs: Iterable[StepSpec]) -> Sequence[StepSpec]:
    return specs if isinstance(specs, StoredSpecs) else tuple(specs)


def _is_policy(_instance: object, _attribute: object, value: object) -> None:
    if not isinstance(value, Policy):
        raise PlanError((Problem("policy", f"found {value!r}, expected a Policy"),))


@frozen(kw_only=True)
class Plan:
    """What is to be done. `version` rises by one with every applied change."""

    goal: str
    steps: Sequence[StepSpec] = field(converter=_as_sequence)
    policy: Policy = field(factory=Policy, validator=_is_policy)
    version: int = 1

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the steps, in the author's order."""
        steps = self.steps
        return steps.ids if isinstance(steps, StoredSpecs) else [spec.id for spec in steps]

    @property
    def needs(self) -> Sequence[tuple[str, ...]]:
        """What each step needs, in the author's order."""
        steps = self.steps
        return steps.needs if isinstance(steps, StoredSpecs) else [spec.needs for spec in steps]
