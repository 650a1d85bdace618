"""The tables of a journal file, and the door: which files are opened, and which refused.

`specs/journal.md` says what each column means; a test compares the two.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from loopfsm.errors import JournalRefused

VERSION = 1
"""Of these tables; `PRAGMA user_version` of the file. 0 is an SQLite file of somebody else."""

APPLICATION_ID = 0x4C464A31
"""`LFJ1`: `PRAGMA application_id` of the file."""

TABLES = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    goal TEXT NOT NULL,
    policy TEXT NOT NULL,
    plan_version INTEGER NOT NULL,
    plan_steps INTEGER NOT NULL,
    origin TEXT NOT NULL,
    library TEXT NOT NULL,
    codec INTEGER NOT NULL,
    created_at REAL NOT NULL
);
CREATE TABLE heads (
    run INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    without TEXT NOT NULL,
    reason TEXT NOT NULL,
    spent TEXT NOT NULL,
    changed_at REAL NOT NULL,
    events INTEGER NOT NULL,
    commits INTEGER NOT NULL,
    hash TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    host TEXT,
    boot TEXT,
    pid INTEGER,
    started TEXT,
    held_until REAL
);
CREATE TABLE commits (
    place INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    epoch INTEGER NOT NULL,
    first INTEGER NOT NULL,
    units TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE VIEW events AS
    SELECT commits.place >> 32 AS run, commits.place & 4294967295 AS in_commit,
        json_extract(unit.value, '$.cause') AS cause,
        json_extract(event.value, '$.row') AS row,
        json_extract(event.value, '$.noun') AS noun,
        json_extract(event.value, '$.id') AS id,
        json_extract(event.value, '$.at') AS at,
        json_extract(event.value, '$.attempt') AS attempt,
        json_extract(event.value, '$.changes') AS changes,
        json_extract(event.value, '$.facts') AS facts,
        json_extract(event.value, '$.spent') AS spent
    FROM commits, json_each(commits.units) AS unit,
        json_each(json_extract(unit.value, '$.events')) AS event;
CREATE TABLE plan (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    needs TEXT NOT NULL,
    tool TEXT NOT NULL,
    verifier TEXT,
    body TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE TABLE steps (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    retry_count INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    start_time REAL,
    end_time REAL,
    not_before REAL,
    evaluation TEXT,
    verification TEXT,
    acted_in INTEGER NOT NULL,
    act_reported_failed INTEGER NOT NULL,
    granted_in INTEGER NOT NULL,
    failed_in TEXT,
    metadata TEXT NOT NULL,
    output_in INTEGER,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE TABLE failures (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    subject TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE questions (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    subject TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE spent (
    run INTEGER NOT NULL,
    budget TEXT NOT NULL,
    amount REAL NOT NULL,
    PRIMARY KEY (run, budget)
) WITHOUT ROWID;
CREATE TABLE rows (
    run INTEGER NOT NULL,
    row TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    PRIMARY KEY (run, row)
) WITHOUT ROWID;
CREATE TABLE files (
    run INTEGER NOT NULL,
    sha TEXT NOT NULL,
    PRIMARY KEY (run, sha)
) WITHOUT ROWID;
CREATE TABLE inbox (
    run INTEGER NOT NULL,
    token TEXT NOT NULL,
    word TEXT NOT NULL,
    subject TEXT NOT NULL,
    choice TEXT NOT NULL,
    said TEXT NOT NULL,
    raised_to REAL,
    sent_at REAL NOT NULL,
    reply TEXT,
    PRIMARY KEY (run, token)
) WITHOUT ROWID;
CREATE INDEX unread ON inbox (run, sent_at) WHERE reply IS NULL;
"""


def place_of(run: int, commit: int) -> int:
    """The key of a commit: runs one after the other, and in each its commits from 1 on.

    One number, so that a commit of some thousand bytes is written to one page of the file.
    """
    return (run << 32) + commit


_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
"""Of an SQLite file (https://www.sqlite.org/fileformat2.html, section 1.3)."""


def refused(path: Path, problem: str, instead: str) -> JournalRefused:
    """The error about a file."""
    return JournalRefused(str(path), problem, instead)


def look_at(path: Path, *, to_write: bool) -> bool:
    """Whether the file is there; raises `JournalRefused` when it is not ours to use.

    The bytes of the file are read, and nothing else happens to it.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise refused(path, f"it cannot be looked at: {error.strerror}", _ANOTHER) from error
    if not stat.S_ISREG(found.st_mode):
        raise refused(path, "it is no regular file", _ANOTHER)
    if to_write and not (found.st_mode & 0o222 and os.access(path, os.W_OK)):
        raise refused(path, "it is read-only", "Make it writable (chmod u+w), or copy it")
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError as error:
        raise refused(path, f"it cannot be read: {error.strerror}", _ANOTHER) from error
    _refuse_stranger(path, head, found.st_size)
    return True


_ANOTHER = "Name another file"


def _refuse_stranger(path: Path, head: bytes, size: int) -> None:
    if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
        problem = (
            "it is empty: remove it first"
            if not head
            else "it is no journal: not even an SQLite file"
        )
        raise refused(path, problem, f"{_ANOTHER}; it is left as it is")
    version = int.from_bytes(head[60:64])
    application = int.from_bytes(head[68:72])
    if application != APPLICATION_ID:
        raise refused(path, "it is an SQLite file of another program", f"{_ANOTHER}")
    if version > VERSION:
        says = f"it was written by a newer version of loopfsm (format {version}, known: {VERSION})"
        raise refused(path, says, "Upgrade loopfsm to read it; it is left as it is")
    if version < 1:
        raise refused(path, f"its format is {version}, expected {VERSION}", _ANOTHER)
    page = int.from_bytes(head[16:18])
    pages = int.from_bytes(head[28:32])
    # While a log lies beside the file, pages may be there that the file does not have yet.
    is_whole = not log_of(path).exists() or log_of(path).stat().st_size == 0
    if is_whole and size < (65536 if page == 1 else page) * pages:
        raise damaged(path, "it is shorter than it says it is")


def log_of(path: Path) -> Path:
    """The write-ahead log of a journal file."""
    return path.with_name(f"{path.name}-wal")


def damaged(path: Path, problem: str) -> JournalRefused:
    """A file of ours whose content cannot be."""
    advice = "Restore it from a copy, or save what can be read with `sqlite3 FILE .recover`"
    return refused(path, f"it is damaged: {problem}", f"{advice}; it is left as it is")


def connect(
    path: Path, *, to_write: bool, synchronous: str, is_still: bool = False
) -> sqlite3.Connection:
    """Open the journal at `path`; make it, when it is not there and is to be written.

    `is_still`: nobody is expected to write to it while it is read, so that nothing needs to be
    made beside it, unless somebody has it open already.

    Raises:
        JournalRefused: the file is foreign, damaged, newer or read-only, or cannot be made.
    """
    if not look_at(path, to_write=to_write):
        if not to_write:
            raise refused(path, "there is no such file", "Name the journal that holds the run")
        _make(path)
    mode = "rw" if to_write else "ro"
    cannot_have_log = is_still or not os.access(path.parent, os.W_OK)
    if not to_write and cannot_have_log and not log_of(path).exists():
        mode = "ro&immutable=1"  # nobody writes to it; SQLite makes no log beside it
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = None
    try:
        connection = sqlite3.connect(
            address, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_S
        )
        if to_write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute("SELECT 1 FROM runs LIMIT 1").fetchall()
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise told(path, error) from error
    return connection


BUSY_S = 30.0
"""Seconds to wait for another process that is writing."""

CHECKPOINT_PAGES = 16384
"""Pages (64 MiB) that the write-ahead log may have before it is moved into the file."""


def told(path: Path, error: sqlite3.Error) -> JournalRefused:
    """What an error of SQLite means for whoever uses the journal."""
    code = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return damaged(path, str(error))
    if code.startswith("SQLITE_READONLY"):
        return refused(path, "it is read-only", "Make it writable (chmod u+w), or copy it")
    if code.startswith("SQLITE_FULL"):
        return refused(path, "the disk is full", "Make room, then resume the run")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return refused(path, "another process is writing to it for too long", "Try again")
    return refused(path, f"{error} ({code})", "Look at the file and its directory, then try again")


def _make(path: Path) -> None:
    """Make the journal whole or not at all, readable by its owner alone."""
    try:
        for directory in reversed((path.parent, *path.parent.parents)):
            directory.mkdir(mode=0o700, exist_ok=True)
        descriptor, new = tempfile.mkstemp(prefix=f"{path.name}.new-", dir=path.parent)
        os.close(descriptor)
        try:
            _fill(Path(new))
            with suppress(FileExistsError):  # somebody was faster: that journal is as good
                os.link(new, path)
        finally:
            os.unlink(new)
    except (OSError, sqlite3.Error) as error:
        says = getattr(error, "strerror", None) or str(error)
        raise refused(path, f"it cannot be made: {says}", _ANOTHER) from error


def _fill(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.executescript(
            f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
    finally:
        connection.close()
