"""The file of a journal: which are opened, which are refused, and that nobody else reads them."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from loopfsm.errors import JournalRefused
from loopfsm.journals.sqlite import SqliteJournal, schema
from loopfsm.testing import Returns, ScriptedTool
from tests.engine.kit import loop_of, plan_of, run
from tests.journals.contract import WAYS
from tests.journals.kit import loaded, opened, resumed

ROOT = Path(__file__).resolve().parents[2]


def seen_in(directory: Path) -> Mapping[str, tuple[int, str]]:
    """Everything in a directory: its mode, and the hash of its content."""
    return {
        path.relative_to(directory).as_posix(): (
            path.stat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(directory.rglob("*"))
    }


def written(path: Path) -> Path:
    """A journal that holds two runs: one that waits, one that has ended."""
    with opened(path) as journal:
        run(WAYS["judged"](journal))
        loop_of(plan_of("a"), journal=journal, run_id="other").run_sync()
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal to copy."""
    return written(tmp_path_factory.mktemp("whole") / "journal.db")


@pytest.fixture
def umask() -> Iterator[None]:
    """Whoever makes a file does not say who else may read it."""
    before = os.umask(0)
    yield
    os.umask(before)


# ------------------------------------------------------------------ who may read it


def modes_in(directory: Path) -> dict[str, str]:
    return {name: oct(mode & 0o777) for name, (mode, _) in seen_in(directory).items()}


@pytest.mark.usefixtures("umask")
def test_nobody_else_may_read_a_journal(tmp_path: Path) -> None:
    """Journal, log, index and kept files are their owner's alone, and so are the directories."""
    path = tmp_path / "made" / "too" / "journal.db"
    with opened(path) as journal:
        work = ScriptedTool("work", [Returns(["x" * 70_000, b"bytes"])])
        run(loop_of(plan_of("a"), work, journal=journal))
        modes = modes_in(tmp_path)
    files = {name for name in modes if not (tmp_path / name).is_dir()}
    assert {"made/too/journal.db", "made/too/journal.db-wal", "made/too/journal.db-shm"} < files
    assert (5, {"0o600"}) == (len(files), {modes[name] for name in files})
    assert {"0o700"} == {mode for name, mode in modes.items() if name not in files}


def test_nothing_is_left_beside_a_journal_that_was_made(tmp_path: Path) -> None:
    """Closed, it is one file."""
    with opened(tmp_path / "journal.db"):
        pass
    assert ["journal.db"] == list(seen_in(tmp_path))


# ------------------------------------------------------------------ what is refused


def patched(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (id TEXT)")
    connection.close()


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def without_its_tables(path: Path) -> None:
    patched(path, page_size(path), bytes(path.stat().st_size - page_size(path)))


def page_size(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[16:18])


SPOILT: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "foreign": (foreign, "an SQLite file of another program. Name another file"),
    "short text": (lambda p: p.write_text("hello"), "not even an SQLite file. Name another file"),
    "long text": (lambda p: p.write_text("hello\n" * 99), "not even an SQLite file"),
    "empty": (lambda p: p.write_bytes(b""), "it is empty: remove it first"),
    "directory": (directory, "it is no regular file. Name another file"),
    "cut in the head": (lambda p: os.truncate(p, 50), "not even an SQLite file"),
    "cut": (lambda p: os.truncate(p, p.stat().st_size // 2), "it is damaged: it is shorter than"),
    "newer": (
        lambda p: patched(p, 60, (9).to_bytes(4)),
        "newer version of loopfsm .format 9, known",
    ),
    "of no version": (lambda p: patched(p, 60, bytes(4)), "its format is 0, expected"),
    "zeroed": (without_its_tables, "it is damaged.*Restore it from a copy"),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", SPOILT)
def test_a_file_that_is_no_journal_is_left_alone(
    name: str, read_only: bool, whole: Path, tmp_path: Path
) -> None:
    """It is refused with what to do, and neither it nor what lies beside it has changed."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    spoil, says = SPOILT[name]
    spoil(path)
    before = seen_in(tmp_path)
    with pytest.raises(JournalRefused, match=says) as refused:
        SqliteJournal(path, read_only=read_only, is_still=read_only)
    assert (str(path), before) == (refused.value.path, seen_in(tmp_path))


def test_a_read_only_file_is_refused_to_who_wants_to_write(whole: Path, tmp_path: Path) -> None:
    """The mode decides, also for root; it can be read."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    path.chmod(0o444)
    before = seen_in(tmp_path)
    with pytest.raises(JournalRefused, match=r"it is read-only\. Make it writable"):
        SqliteJournal(path)
    assert before == seen_in(tmp_path)
    with opened(path, read_only=True) as journal:
        assert 2 == len(journal.runs())


def test_reading_changes_nothing(whole: Path, tmp_path: Path) -> None:
    """Who opens a journal to read it cannot write; SQLite may leave an empty log beside it."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    before = seen_in(tmp_path)
    with opened(path, read_only=True) as journal:
        assert 2 == len(journal.runs())
        assert list(journal.events("run"))
        with pytest.raises(JournalRefused, match="it is read-only"):
            journal.prune()
    after = seen_in(tmp_path)
    assert before["journal.db"] == after["journal.db"]
    assert set(after) <= {"journal.db", "journal.db-wal", "journal.db-shm"}
    with opened(path) as journal:
        assert 2 == len(journal.runs())
    assert before == seen_in(tmp_path)


def test_a_still_journal_is_read_without_a_trace(whole: Path, tmp_path: Path) -> None:
    """Who says that nobody writes leaves not even a log while reading."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    before = seen_in(tmp_path)
    with opened(path, read_only=True, is_still=True) as journal:
        assert list(journal.events("run"))
        assert before == seen_in(tmp_path)
    assert before == seen_in(tmp_path)


def test_what_is_being_written_can_be_read(tmp_path: Path) -> None:
    """A reader sees the last commit of a driver in another connection."""
    with opened(tmp_path / "journal.db") as writer:
        loop = WAYS["asks"](writer)
        run(loop)
        for still in (False, True):
            with opened(tmp_path / "journal.db", read_only=True, is_still=still) as reader:
                assert loaded(writer) == loaded(reader)


def test_a_missing_file_is_made_only_to_write(tmp_path: Path) -> None:
    """Who only reads wanted something that is there."""
    with pytest.raises(JournalRefused, match=r"no such file\. Name the journal that"):
        SqliteJournal(tmp_path / "none" / "journal.db", read_only=True)
    assert {} == seen_in(tmp_path)


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    """Such as one below a file."""
    (tmp_path / "file").write_text("x")
    before = seen_in(tmp_path)
    with pytest.raises(JournalRefused, match=r"it cannot be (made|looked at): .*Name another"):
        SqliteJournal(tmp_path / "file" / "journal.db")
    assert before == seen_in(tmp_path)


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """Before a file is made."""
    with pytest.raises(ValueError, match="expected one of 'full', 'process'"):
        SqliteJournal(tmp_path / "journal.db", durability="half")
    assert {} == seen_in(tmp_path)


def test_a_closed_journal_is_refused(tmp_path: Path) -> None:
    """Whoever still drives a run of it is told so."""
    with opened(tmp_path / "journal.db") as journal:
        pass
    with pytest.raises(JournalRefused, match="closed"):
        journal.runs()


# ------------------------------------------------------------------ damage inside


def refusal_of(read: Callable[[], object]) -> JournalRefused | None:
    """The one error that may come of reading."""
    try:
        read()
    except JournalRefused as refused:
        return refused
    return None


def read_all(path: Path) -> None:
    with opened(path) as journal:
        for header in journal.runs():
            list(journal.events(header.run_id))
            loaded(journal, header.run_id)


def test_a_page_without_its_content_never_breaks_a_reader(whole: Path, tmp_path: Path) -> None:
    """Whichever page it is: all is read, or it is refused as damaged; the file is as it was."""
    path, size = tmp_path / "journal.db", page_size(whole)
    refusals = 0
    for page in range(1, whole.stat().st_size // size):
        shutil.copy(whole, path)
        patched(path, page * size, bytes(size))
        before = seen_in(tmp_path)
        refused = refusal_of(lambda: read_all(path))
        refusals += refused is not None
        assert refused is None or "it is damaged" in str(refused)
        assert before == seen_in(tmp_path)
    assert refusals > 5


TEXTS_OF = {
    "runs": ("policy", "origin"),
    "heads": ("state", "without", "spent"),
    "commits": ("units",),
    "plan": ("needs", "body"),
    "steps": ("state", "evaluation", "metadata"),
    "failures": ("state", "body"),
}


@pytest.mark.parametrize("rubbish", ["rubbish", "[]", '{"$new": 1}', "null"])
@pytest.mark.parametrize("place", [(t, c) for t, found in TEXTS_OF.items() for c in found])
def test_a_field_without_its_meaning_never_breaks_a_reader(
    place: tuple[str, str], rubbish: str, whole: Path, tmp_path: Path
) -> None:
    """What no version wrote is read as nothing, or refused; no other error comes out."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {place[0]} SET {place[1]} = ?", (rubbish,))
    connection.close()
    with opened(path) as journal:
        refusal_of(journal.runs)
        refusal_of(lambda: list(journal.events("run")))
        refusal_of(lambda: loaded(journal))
        refusal_of(lambda: resumed(journal, ScriptedTool("work")).outcome)


def test_a_run_of_a_newer_version_is_refused_alone(whole: Path, tmp_path: Path) -> None:
    """Its header can be read, and so can the other runs."""
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET codec = 99 WHERE id = 'run'")
    connection.close()
    before = seen_in(tmp_path)
    with opened(path) as journal:
        with pytest.raises(JournalRefused, match=r"a newer version of loopfsm\. Upgrade loopfsm"):
            resumed(journal, ScriptedTool("work"))
        assert ["run", "other"] == [header.run_id for header in journal.runs()]
        assert loaded(journal, "other")
    assert before == seen_in(tmp_path)


# ------------------------------------------------------------------ made at the same moment


def test_threads_that_make_a_journal_at_once_have_the_same(tmp_path: Path) -> None:
    """Nobody fails, and nothing but the journal is left."""
    path, journals, ready = tmp_path / "journal.db", [], threading.Barrier(6)

    def make() -> None:
        ready.wait()
        journals.append(SqliteJournal(path))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for journal in journals:
        journal.close()
    assert (6, ["journal.db"]) == (len(journals), list(seen_in(tmp_path)))


MAKES = """
import sys
from loopfsm.journals.sqlite import SqliteJournal
print("ready", flush=True)
sys.stdin.readline()
journal = SqliteJournal(sys.argv[1])
print(len(journal.runs()), flush=True)
journal.close()
"""


@pytest.mark.slow
def test_processes_that_make_a_journal_at_once_have_the_same(tmp_path: Path) -> None:
    """Both succeed, whoever was first."""
    path = tmp_path / "journal.db"
    argv = [sys.executable, "-c", MAKES, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    processes = [subprocess.Popen(argv, **pipes) for _ in range(2)]  # type: ignore[call-overload]  # its keywords in one dict
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=20)[0] for process in processes]
    assert (["0\n", "0\n"], [0, 0]) == (answers, [process.returncode for process in processes])
    assert ["journal.db"] == list(seen_in(tmp_path))


def test_the_head_of_a_file_says_what_it_is(whole: Path) -> None:
    """`PRAGMA user_version` and `application_id`, where the door looks for them."""
    head = whole.read_bytes()[:100]
    assert (schema.VERSION, schema.APPLICATION_ID) == (
        int.from_bytes(head[60:64]),
        int.from_bytes(head[68:72]),
    )
