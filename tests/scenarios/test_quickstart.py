"""The quickstart: the command that the README opens with does what the README says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "specs" / "scenarios"

# each test starts the command, and the plan starts programs and waits for one of them
pytestmark = pytest.mark.slow


@pytest.fixture(name="plan")
def _plan(tmp_path: Path) -> Path:
    """The scenario in a directory of its own, as a fresh clone has it."""
    shutil.copy(SCENARIOS / "quickstart.toml", tmp_path)
    ignored = shutil.ignore_patterns("out", "__pycache__")
    shutil.copytree(SCENARIOS / "quickstart", tmp_path / "quickstart", ignore=ignored)
    return tmp_path / "quickstart.toml"


def run(plan: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`loopfsm run`, from the repository's root."""
    return subprocess.run(
        [sys.executable, "-m", "loopfsm", "run", str(plan), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def events_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The lines of `--json`."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def states_of(events: list[dict[str, Any]], step_id: str) -> Iterator[tuple[int, str]]:
    """The states that a step entered, with the position of the event."""
    for position, event in enumerate(events):
        if event["type"] == "event" and (event["noun"], event["id"]) == ("step", step_id):
            state = event["changes"].get("state")
            if state is not None:
                yield position, state


def position_of(events: list[dict[str, Any]], step_id: str, state: str) -> int:
    return next(position for position, entered in states_of(events, step_id) if entered == state)


def report_of(plan: Path) -> str:
    return (plan.parent / "quickstart" / "out" / "report.md").read_text(encoding="utf-8")


def recomputed(data: Path) -> str:
    """The report by another way: decimals, quotes taken apart by hand, no database, no csv."""
    files = sorted(
        (path.relative_to(data).as_posix(), path.read_bytes())
        for path in data.glob("**/*")
        if path.is_file()
    )
    revenue: dict[str, Decimal] = defaultdict(Decimal)
    items: dict[str, int] = defaultdict(int)
    sales: dict[str, int] = defaultdict(int)
    for name, content in files:
        if not name.endswith(".csv"):
            continue
        region = name.split("/")[0]
        for line in content.decode().splitlines()[1:]:
            _, quantity, cents = line.rsplit(",", 2)
            revenue[region] += Decimal(quantity) * Decimal(cents) / 100
            items[region] += int(quantity)
            sales[region] += 1
    total = sum(revenue.values(), Decimal())
    rows = [
        f"| {region} | {sales[region]} | {items[region]} | {revenue[region]:.2f} |"
        for region in sorted(revenue)
    ]
    # 10 is the line end
    listed = [f"| {name} | {len(content)} | {content.count(10)} |" for name, content in files]
    return "\n".join(
        [
            "# The books of the two coffee carts",
            "",
            "| region | sales | items | revenue |",
            "|---|---:|---:|---:|",
            *rows,
            "",
            f"Total: **{total:.2f}**",
            "Database and files agree: yes",
            "",
            "| file | bytes | lines |",
            "|---|---:|---:|",
            *listed,
            "",
            f"Archive: archive.zip with {len(files)} files",
            "",
        ]
    )


def test_the_report_equals_one_computed_by_another_program(plan: Path) -> None:
    """The run completes, and what it wrote is right."""
    done = run(plan)
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.splitlines()[-1].startswith("COMPLETED")
    assert recomputed(plan.parent / "quickstart" / "data") == report_of(plan)


def test_another_input_gives_another_report(plan: Path) -> None:
    """The report follows the data, and a second run in the same place is like the first."""
    assert run(plan).returncode == 0
    before = report_of(plan)
    data = plan.parent / "quickstart" / "data"
    with (data / "south" / "2024-04.csv").open("a", encoding="utf-8") as file:
        file.write("2024-04-27,espresso,1,280\n")
    assert run(plan).returncode == 0
    assert report_of(plan) != before
    assert recomputed(data) == report_of(plan)


@pytest.mark.parametrize("options", [(), ("--max-parallel", "1")])
def test_the_archive_is_asked_for_again_after_a_wait(plan: Path, options: tuple[str, ...]) -> None:
    """The first attempt fails, each time the plan is run, and a later one succeeds."""
    for _ in range(2):
        events = events_of(run(plan, "--json", *options))
        states = [state for _, state in states_of(events, "archive")]
        assert states.count("EVALUATION_FAILED") >= 1
        assert states.count("RUNNING") == states.count("EVALUATION_FAILED") + 1
        assert states[-1] == "VERIFIED_COMPLETED"
        planned = [
            event["changes"]["strategy"]
            for event in events
            if event["type"] == "event"
            and event["noun"] == "failure"
            and event["row"] != "created"
            and event["changes"].get("strategy")
        ]
        assert {"RETRY_WITH_BACKOFF"} == set(planned)
        assert events[-1]["type"] == "outcome"
        assert ("COMPLETED", 0) == (events[-1]["state"], events[-1]["exit_code"])


def test_the_two_ways_to_the_totals_run_side_by_side(plan: Path) -> None:
    """Each has started before the other one has ended."""
    events = events_of(run(plan, "--json"))
    ways = ("totals_from_database", "totals_from_files")
    started = max(position_of(events, way, "RUNNING") for way in ways)
    ended = min(position_of(events, way, "EXECUTED") for way in ways)
    assert started < ended


def test_one_step_at_a_time_leads_to_the_same_report(plan: Path) -> None:
    """What runs in parallel does not change what comes out."""
    done = run(plan, "--max-parallel", "1", "--json")
    assert done.returncode == 0
    events = events_of(done)
    ways = ("totals_from_database", "totals_from_files")
    first, second = sorted(ways, key=lambda way: position_of(events, way, "RUNNING"))
    ended = position_of(events, first, "VERIFIED_COMPLETED")
    assert ended < position_of(events, second, "RUNNING")
    assert recomputed(plan.parent / "quickstart" / "data") == report_of(plan)


def test_totals_that_differ_stop_the_run(plan: Path) -> None:
    """The comparison bites: with a database that counts otherwise, a person is asked."""
    books = plan.parent / "quickstart" / "books.py"
    source = books.read_text(encoding="utf-8")
    assert "sum(quantity * cents)" in source
    wrong = source.replace("sum(quantity * cents)", "sum(quantity * cents) + 1")
    books.write_text(wrong, encoding="utf-8")
    done = run(plan)
    assert done.returncode == 3
    assert "Blocked: compare" in done.stdout
    assert not (plan.parent / "quickstart" / "out" / "report.md").exists()
