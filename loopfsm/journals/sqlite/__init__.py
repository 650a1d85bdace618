"""A journal in one SQLite file: runs that outlive the process that drives them."""

from __future__ import annotations

from loopfsm.journals.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
