"""`prove`: walk every small plan and say what was seen, or show the shortest way to a fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from loopfsm.engine.core import Core
from loopfsm.review.explore import Exploration, explore
from loopfsm.review.plans import SMALL_PLANS, SmallPlan, registry_of


def prove(
    plans: Iterable[SmallPlan] = SMALL_PLANS, *, limit_s: float = 60
) -> Iterator[Exploration]:
    """Explore each plan with the composed rows that run; `limit_s` seconds for each."""
    yield from map(partial(explore, limit_s=limit_s), plans)


def rows_never_taken(explorations: Iterable[Exploration]) -> tuple[str, ...]:
    """The rows of the composed machines that no exploration took."""
    taken = frozenset[str]().union(*(exploration.rows for exploration in explorations))
    declared: dict[str, None] = {}
    for small in SMALL_PLANS:
        for machine in Core.of(registry_of(small)).machines.by_name().values():
            declared.update(dict.fromkeys(row.id for row in machine.rows))
    return tuple(row for row in declared if row not in taken)


def report(plans: Iterable[SmallPlan] = SMALL_PLANS) -> tuple[str, bool]:
    """The explorations as text, and whether all are complete and clean."""
    explorations = list(prove(plans))
    width = max(len(exploration.name) for exploration in explorations)
    lines = [f"{'plan':{width}}  states   calls  seconds  reaches"]
    for seen in explorations:
        ends = ", ".join(seen.ends)
        counts = f"{seen.states:>6}  {seen.calls:>6}  {seen.seconds:>7.2f}"
        lines.append(f"{seen.name:{width}}  {counts}  {ends}")
        if seen.counterexample is not None:
            lines.append(f"  BROKEN: {seen.counterexample}")
        elif not seen.complete:
            lines.append("  PARTIAL: the time was over before every state was seen; no proof")
    total = sum(seen.states for seen in explorations)
    seconds = sum(seen.seconds for seen in explorations)
    clean = all(seen.clean for seen in explorations)
    lines.append(f"{total} states in {seconds:.1f} s: {_verdict(clean)}")
    untaken = rows_never_taken(explorations)
    lines.append(f"rows never taken: {', '.join(untaken) or 'none'}")
    return "\n".join(lines), clean


def _verdict(clean: bool) -> str:
    if not clean:
        return "not proved"
    return (
        "every state reaches an end, no deadlock, no law broken, "
        "and every unattended cycle spends recoveries"
    )
