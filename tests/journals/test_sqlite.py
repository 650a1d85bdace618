"""What the journal in a file promises beyond the contract: its chain, its files, its commits."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopfsm.engine.inputs import Park
from loopfsm.engine.loop import Loop
from loopfsm.errors import AnswerRefused, JournalRefused, NotSerialisable
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.journals.sqlite.files import Files
from loopfsm.journals.sqlite.rows import LARGE
from loopfsm.model.failure import FailureKind
from loopfsm.model.loop_state import LoopState
from loopfsm.model.record import Message, Word
from loopfsm.model.step import EnvironmentValue, Output, StepState, Unreadable
from loopfsm.testing import Fails, FakeClock, Returns, ScriptedTool
from loopfsm.tools.registry import tool
from tests.engine.kit import done, failed, indexes, loop_of, plan_of, run, spec
from tests.journals.contract import WAYS
from tests.journals.dying import buried
from tests.journals.kit import ORIGIN, ROWS, Driven, loaded, opened, resumed

ROOT = Path(__file__).resolve().parents[2]
TEXT = "\u00e4" * LARGE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    with opened(path, durability="process") as made:
        yield made


def rows_in(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    """What somebody with another program finds in the file."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()


def kept_in(path: Path) -> set[str]:
    """The files beside a journal, each by the hash that is its name."""
    return {
        f"{each.parent.name}{each.name}"
        for each in path.with_name(f"{path.name}.files").rglob("*")
        if each.is_file()
    }


# ------------------------------------------------------------------ the chain


def beginning_of(path: Path, run_id: str) -> str:
    """The hash of a run that nobody has driven: of its plan."""
    query = "SELECT number, id, goal, policy, plan_version FROM runs WHERE id = ?"
    ((number, *run),) = rows_in(path, query, run_id)
    query = "SELECT position, id, needs, tool, verifier, body FROM plan WHERE run = ? ORDER BY 1"
    text = json.dumps([*run, rows_in(path, query, number)], separators=(",", ":"))
    return hashlib.sha256(f"\n{text}".encode("ascii")).hexdigest()


def chain_of(path: Path, run_id: str) -> list[str]:
    """The hash after each commit, computed as `specs/journal.md` says it is."""
    end, ends = beginning_of(path, run_id), []
    query = (
        "SELECT units FROM commits JOIN runs ON place >> 32 = number WHERE id = ? ORDER BY place"
    )
    for (units,) in rows_in(path, query, run_id):
        end = hashlib.sha256(f"{end}\n{units}".encode("ascii")).hexdigest()
        ends.append(end)
    return ends


def hashes_in(path: Path, run_id: str) -> list[str]:
    query = "SELECT hash FROM commits JOIN runs ON place >> 32 = number WHERE id = ? ORDER BY place"
    return [each for (each,) in rows_in(path, query, run_id)]


@pytest.mark.parametrize("way", WAYS)
def test_the_chain_can_be_computed_from_the_tables(way: str, journal: SqliteJournal) -> None:
    """Each commit carries its hash, and the header the last one: all by sha256 and no more."""
    run(WAYS[way](journal))
    Driven.on(journal, plan_of("a"), "beside it")
    chain = chain_of(journal.path, "run")
    header = journal.header("run")
    assert beginning_of(journal.path, "beside it") != chain[0]
    assert chain == hashes_in(journal.path, "run")
    assert (header.commits, header.hash) == (len(chain), chain[-1])


def test_a_changed_event_breaks_the_chain(journal: SqliteJournal) -> None:
    """From the commit that it belongs to on, no hash is what it was."""
    run(WAYS["retries"](journal))
    before = chain_of(journal.path, "run")
    with sqlite3.connect(journal.path) as connection:
        changed = (
            "UPDATE commits SET units = replace(units, '\"row\":', '\"Row\":') WHERE place IN "
        )
        connection.execute(f"{changed} (SELECT min(place) + 2 FROM commits)")
    connection.close()
    after = chain_of(journal.path, "run")
    same = [one == other for one, other in zip(before, after, strict=True)]
    assert same == sorted(same, reverse=True)
    assert ([True, True, False], False) == (same[:3], same[-1])


def test_the_view_tells_the_events_to_any_program(journal: SqliteJournal) -> None:
    """`SELECT * FROM events` shows them in their order, without a line of ours."""
    run(WAYS["retries"](journal))
    found = rows_in(journal.path, "SELECT row, noun, id, at, attempt FROM events WHERE run = 1")
    assert found == [(e.row, e.noun, e.id, e.at, e.attempt) for e in journal.events("run")]


def test_a_commit_counts_its_events(journal: SqliteJournal) -> None:
    """`first` is the number of its first event, counted over the run from 1."""
    run(WAYS["retries"](journal))
    query = "SELECT first, units FROM commits ORDER BY place"
    expected = 1
    for first, units in rows_in(journal.path, query):
        assert expected == first
        expected += sum(len(unit["events"]) for unit in json.loads(units))
    assert expected == journal.header("run").events + 1


# ------------------------------------------------------------------ all or nothing

TORN = """
import os, sys
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.journals.sqlite.lease import SqliteLease
from tests.engine.kit import done, plan_of
from tests.journals.kit import Driven

driven = Driven.on(SqliteJournal(sys.argv[1]), plan_of("a", "b"))
driven.give(done("a"))
keep = SqliteLease._keep_nouns

def killed(*args):
    keep(*args)
    os._exit(9)

SqliteLease._keep_nouns = killed
driven.give(done("b"))
"""


@pytest.mark.slow
def test_a_commit_that_was_torn_is_none(path: Path) -> None:
    """A process that dies between BEGIN and COMMIT leaves what was there before (B6, B32)."""
    torn = subprocess.run([sys.executable, "-c", TORN, str(path)], cwd=ROOT, check=False)
    with opened(path) as journal:
        state = journal.load("run")
        assert (9, 2) == (torn.returncode, journal.header("run").commits)
        states = [state.steps["a"].state, state.steps["b"].state]
        assert [StepState.VERIFIED_COMPLETED, StepState.RUNNING] == states
        assert chain_of(path, "run") == hashes_in(path, "run")
        assert 2 == journal.acquire("run", 0.0, 30, ROWS).epoch  # its driver is gone


def test_a_full_disk_leaves_the_state_before(journal: SqliteJournal) -> None:
    """The commit is refused, nothing is lost, and with room it goes through (B6)."""
    driven = Driven.on(journal, plan_of("a", "b"))
    connection = journal._store.connection
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    before = loaded(journal), list(journal.events("run")), journal.header("run")
    result = done("a", evidence={}, output=["x" * 60_000])
    state, units, _ = driven.core.advance(driven.state, [result], 1.0)
    for _ in range(2):
        with pytest.raises(JournalRefused, match=r"the disk is full\. Make room, then resume"):
            driven.lease.append(units, state, 1.0)
        assert before == (loaded(journal), list(journal.events("run")), journal.header("run"))
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    driven.give(result)
    assert indexes(driven.state) == loaded(journal)
    assert chain_of(journal.path, "run") == hashes_in(journal.path, "run")


def test_a_driver_without_room_stops_and_goes_on_later(journal: SqliteJournal) -> None:
    """`run` raises; with room again the same loop ends the run, and nothing ran twice (B32)."""
    work = ScriptedTool("work", [Returns(["x" * 60_000])], idempotent=True)
    loop = loop_of(plan_of("a", spec("b", "a")), work, journal=journal)
    journal.create(loop.state, 0.0, ORIGIN)
    connection = journal._store.connection
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    taken_up = resumed(journal, work)
    connection.execute(f"PRAGMA max_page_count = {pages + 2}").fetchall()
    with pytest.raises(JournalRefused, match="the disk is full"):
        run(taken_up)
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    assert LoopState.COMPLETED is run(taken_up).state
    assert indexes(taken_up.state) == loaded(journal)


# ------------------------------------------------------------------ what is no row


def test_a_large_output_has_a_file(journal: SqliteJournal) -> None:
    """From a limit on it stands beside the journal, by the hash of its content."""
    small, large = "x" * (LARGE - 10), [{"text": TEXT}]
    work = ScriptedTool("work", {"a": [Returns(small)], "b": [Returns(large)]})
    outcome = run(loop_of(plan_of("a", "b"), work, journal=journal))
    (sha,) = kept_in(journal.path)
    content = Files.beside(journal.path, is_synced=False).fetch(sha)
    assert (hashlib.sha256(content).hexdigest(), large) == (sha, json.loads(content))
    assert {"a": small, "b": large} == outcome.outputs == resumed(journal, work).outcome.outputs
    assert [(1, sha)] == rows_in(journal.path, "SELECT * FROM files")


def test_a_large_text_has_a_file(journal: SqliteJournal) -> None:
    """A bare text is no exception."""
    work = ScriptedTool("work", [Returns(TEXT)])
    run(loop_of(plan_of("a"), work, journal=journal))
    assert (1, TEXT) == (
        len(kept_in(journal.path)),
        resumed(journal, work).outcome.outputs["a"],
    )


def test_bytes_have_a_file(journal: SqliteJournal) -> None:
    """Wherever they stand in an output; the same content has one file."""
    value = {"one": b"\0\xff", "two": [b"\0\xff", (b"",)]}
    work = ScriptedTool("work", [Returns(value)])
    run(loop_of(plan_of("a", "b"), work, journal=journal))
    assert (2, value) == (len(kept_in(journal.path)), resumed(journal, work).outcome.outputs["b"])


@pytest.mark.parametrize("what", ["gone", "changed"])
def test_an_output_whose_file_is_gone_is_unreadable(what: str, journal: SqliteJournal) -> None:
    """What needs it fails without having acted; the rest of the run is as it was (B32)."""
    work = ScriptedTool("work", {"a": [Returns(TEXT)], "b": [Fails("no")], "c": [Returns(1)]})
    plan = plan_of("a", spec("b", args={"x": Output("a")}), spec("c", "b"))
    run(loop_of(plan, work, journal=journal))
    (sha,) = kept_in(journal.path)
    file = Files.beside(journal.path, is_synced=False).path_of(sha)
    if what == "gone":
        file.unlink()
    else:
        file.write_text("something else")
    loop = resumed(journal, work)
    assert isinstance(loop.outcome.outputs["a"], Unreadable)
    assert any(isinstance(e.changes.get("output"), Unreadable) for e in journal.events("run"))
    calls = len(work.calls)
    loop.answer("b", "retry")
    outcome = run(loop)
    last = outcome.failures[-1]
    assert (FailureKind.NOT_EXECUTED, "b", calls) == (last.kind, last.subject, len(work.calls))
    assert "a cannot be resolved: the file" in last.message
    assert indexes(loop.state) == loaded(journal)


def test_one_content_is_kept_by_many_threads(tmp_path: Path) -> None:
    """All at once: nobody fails, and there is one file."""
    files = Files(tmp_path / "files", is_synced=False)
    found: list[str] = []
    ready = threading.Barrier(8)

    def keep() -> None:
        ready.wait()
        found.extend(files.keep(bytes([n]) * 9) for n in range(20))

    threads = [threading.Thread(target=keep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert (160, 20, 20) == (len(found), len(set(found)), len(names))
    assert set(files.kept()) == set(found)


# ------------------------------------------------------------------ what is never in it

SECRET = "s3cr3t-value"


def raises(token: str) -> None:
    """Fail with nothing but the value."""
    raise ValueError(token)


@pytest.mark.parametrize(
    "ends",
    [
        lambda token: {"token": token, token: [token]},
        lambda token: {"status": "failed", "error": token, "odd": object()},
        lambda token: [token, {1, 2}],
        raises,
    ],
    ids=["returned", "reported", "refused", "raised"],
)
def test_no_value_of_the_environment_is_in_the_file(ends: Any, path: Path) -> None:
    """Whether a tool hands it back, fails with it, or returns what cannot be kept (B6)."""

    @tool(name="work")
    async def work(token: str) -> Any:
        return ends(token)

    with opened(path) as journal:
        step = spec("a", args={"token": EnvironmentValue("TOKEN")})
        words = {"environment": {"TOKEN": SECRET}, "journal": journal}
        run(loop_of(plan_of(step, when_exhausted="fail"), work, **words))
        told = repr(list(journal.events("run")))
    everything = b"".join(p.read_bytes() for p in path.parent.rglob("*") if p.is_file())
    assert (False, False) == (SECRET in told, SECRET.encode() in everything)
    assert b"TOKEN" in everything


# ------------------------------------------------------------------ texts that are none


def test_half_a_character_in_an_id_or_goal_is_refused_at_the_door(journal: SqliteJournal) -> None:
    """A column takes Unicode; nothing has started, and the journal has no such run."""
    for plan, run_id in (
        (plan_of("a\ud800"), "run"),
        (attrs.evolve(plan_of("a"), goal="\ud800"), "run"),
        (plan_of("a"), "\ud800"),
    ):
        with pytest.raises(NotSerialisable, match="surrogates not allowed"):
            run(loop_of(plan, journal=journal, run_id=run_id))
    assert () == journal.runs()


def test_what_the_plan_cannot_hold_is_refused_at_the_door(journal: SqliteJournal) -> None:
    """The error says where in the plan it stands."""
    plan = plan_of("a", spec("b", args={"x": [1, {2}]}))
    with pytest.raises(NotSerialisable) as refused:
        run(loop_of(plan, journal=journal))
    assert "steps[1].args.x[1]" == refused.value.place
    assert () == journal.runs()


def test_half_a_character_in_a_reason_is_escaped(journal: SqliteJournal) -> None:
    """A run does not die of the text of an error, nor of a person's word."""
    work = ScriptedTool("work", [Fails("bad \ud800")])
    outcome = run(loop_of(plan_of("a", when_exhausted="fail"), work, journal=journal))
    assert "bad \ud800" == journal.load("run").failures[0].message  # type: ignore[index]  # a list
    assert "failed: bad \\ud800" == journal.load("run").run.reason
    assert LoopState.FAILED is outcome.state
    message = Message(token="\ud800", word=Word.ANSWER, choice="\ud800", said="\ud800")
    journal.send("run", message)
    with pytest.raises(AnswerRefused, match="was used before"):
        journal.send("run", message)
    assert journal.message("run", "\ud800") == attrs.evolve(
        message, token="\\ud800", choice="\\ud800", said="\\ud800"
    )


# ------------------------------------------------------------------ forgetting


def ended(journal: SqliteJournal, run_id: str, output: Any) -> None:
    work = ScriptedTool("work", [Returns(output)])
    run(loop_of(plan_of("a"), work, journal=journal, run_id=run_id))


def test_runs_that_have_ended_can_be_forgotten(journal: SqliteJournal) -> None:
    """With their files, unless another run has them; those that wait are as they were."""
    ended(journal, "old", [TEXT])
    ended(journal, "older", [TEXT, 2])
    work = ScriptedTool("work", {"a": [Returns([TEXT])], "b": [Fails("no")]})
    waits = loop_of(plan_of("a", spec("b", "a")), work, journal=journal)
    run(waits)
    before = loaded(journal), list(journal.events("run")), journal.header("run")
    assert 2 == len(kept_in(journal.path))
    assert ("old", "older") == tuple(journal.prune())
    assert before == (loaded(journal), list(journal.events("run")), journal.header("run"))
    assert ["run"] == [header.run_id for header in journal.runs()]
    assert 1 == len(kept_in(journal.path))
    for table in ("heads", "plan", "steps", "spent", "rows", "files", "inbox"):
        assert [] == rows_in(journal.path, f"SELECT 1 FROM {table} WHERE run IN (1, 2)"), table
    assert [] == rows_in(journal.path, "SELECT 1 FROM commits WHERE place >> 32 IN (1, 2)")
    waits.answer("b", "stop")
    assert ("run",) == tuple(journal.prune())
    assert (set(), ()) == (kept_in(journal.path), journal.runs())


def test_a_run_that_is_driven_is_not_forgotten(journal: SqliteJournal) -> None:
    """Also when it has just ended; and no file is taken from under a driver."""
    driven = Driven.on(journal, plan_of("a"))
    driven.give(done("a"))
    files = Files.beside(journal.path, is_synced=False)
    on_its_way = files.keep(b"kept, and not committed yet")
    assert () == tuple(journal.prune())
    assert {on_its_way} == kept_in(journal.path)
    driven.lease.release(1.0)
    assert ("run",) == tuple(journal.prune())
    assert set() == kept_in(journal.path)


def test_a_run_whose_driver_died_at_its_end_is_forgotten(journal: SqliteJournal) -> None:
    """Nobody will ever hand it back; it keeps neither its own files nor those of others."""
    ended(journal, "old", [TEXT])
    driven = Driven.on(journal, plan_of("a"))
    driven.give(done("a"))
    buried(journal)
    assert ("old", "run") == tuple(journal.prune())
    assert (set(), ()) == (kept_in(journal.path), journal.runs())


def test_an_id_can_be_used_again_when_it_was_forgotten(journal: SqliteJournal) -> None:
    """Nothing of the old run is in the new one."""
    ended(journal, "run", 1)
    journal.prune()
    driven = Driven.on(journal, plan_of("b"))
    assert indexes(driven.state) == loaded(journal)
    assert 1 == journal.header("run").commits


# ------------------------------------------------------------------ many at once

STEPS = 12
DRIVES = """
import sys
from tests.journals.test_sqlite import drive
from loopfsm.journals.sqlite import SqliteJournal
journal = SqliteJournal(sys.argv[1], durability="process")
print("ready", flush=True)
sys.stdin.readline()
drive(journal, sys.argv[2])
journal.close()
"""


def drive(journal: SqliteJournal, run_id: str) -> Loop:
    """A chain of steps, each of which hands on what it got."""
    work = ScriptedTool("work", lambda args, context: Returns([context.step_id, *args.values()]))
    later = (spec(f"s{n}", args={"x": Output(f"s{n - 1}", ("0",))}) for n in range(1, STEPS))
    loop = loop_of(plan_of("s0", *later), work, journal=journal, run_id=run_id)
    loop.run_sync()
    return loop


@pytest.mark.slow
def test_many_drivers_of_one_journal_lose_nothing(path: Path) -> None:
    """Four threads and three processes, each with a run of its own, all in one file."""
    argv = [sys.executable, "-c", DRIVES, str(path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    with opened(path, durability="process") as journal:
        processes = [subprocess.Popen([*argv, f"process-{n}"], **pipes) for n in range(3)]
        loops: list[Loop] = []
        threads = [
            threading.Thread(target=lambda n=n: loops.append(drive(journal, f"thread-{n}")))
            for n in range(4)
        ]
        for process in processes:
            assert process.stdout is not None
            assert b"ready\n" == process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for process in processes:
            process.communicate(timeout=30)
        assert [0, 0, 0] == [process.returncode for process in processes]
        runs = {header.run_id: header for header in journal.runs()}
        assert {f"thread-{n}" for n in range(4)} | {f"process-{n}" for n in range(3)} == set(runs)
        expected = list(journal.events("thread-0"))
        for run_id, header in runs.items():
            assert (LoopState.COMPLETED, None) == (header.state, header.hold)
            assert chain_of(path, run_id) == hashes_in(path, run_id)
            told = [(e.row, e.noun, e.changes) for e in journal.events(run_id) if e.noun == "step"]
            assert [(e.row, e.noun, e.changes) for e in expected if e.noun == "step"] == told
        for loop in loops:
            assert indexes(loop.state) == loaded(journal, loop.state.run.id)


def test_drivers_of_one_run_in_two_connections_take_turns(path: Path) -> None:
    """What one has committed the other reads, epoch by epoch."""
    with opened(path) as one, opened(path) as two:
        driven = Driven.on(one, plan_of("a", "b"))
        for journal, step_id in ((two, "a"), (one, "b")):
            driven.give(Park())
            driven.lease.release(driven.now)
            driven.journal, driven.lease = journal, journal.acquire("run", driven.now, 30, ROWS)
            driven.give(done(step_id) if step_id == "a" else failed(step_id))
            assert indexes(driven.state) == loaded(one) == loaded(two)
        assert 3 == one.load("run").epoch
        assert list(one.events("run")) == list(two.events("run"))


def test_a_clock_of_ones_own_is_kept(journal: SqliteJournal) -> None:
    """Every moment in the file is one of the run's clock."""
    clock = FakeClock(1_000.0, auto=True)
    run(loop_of(plan_of("a"), journal=journal, clock=clock))
    assert {1_000.0} == {event.at for event in journal.events("run")}
    assert (1_000.0, 1_000.0) == (
        journal.header("run").created_at,
        journal.header("run").changed_at,
    )
