"""Where the journal of a command is: the option, the environment, the plan, the user's data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import frozen

from loopfsm.errors import JournalRefused
from loopfsm.journals.memory import MemoryJournal
from loopfsm.journals.sqlite import SqliteJournal
from loopfsm.ports import Journal

MEMORY = "memory"
"""In place of a path: the run is kept in memory, and is gone when its process ends."""

OPTION = "--journal"
VARIABLE = "LOOPFSM_JOURNAL"

NO_RUNS = "Begin one with `loopfsm run PLAN`, or name the journal that holds it: --journal PATH"
"""What to do where there are no runs."""


@frozen(kw_only=True)
class Place:
    """Where runs are kept, and who said so."""

    path: Path | None
    """Absolute; None: in memory."""
    said_by: str

    def __str__(self) -> str:
        return MEMORY if self.path is None else str(self.path)

    @property
    def is_usual(self) -> bool:
        """A later command without `--journal` finds the same one, wherever it is given."""
        named = os.environ.get(VARIABLE)
        if named and not Path(named).expanduser().is_absolute():
            return False
        return self.path is not None and self.path == place_of(None).path


def place_of(option: str | None, planned: Path | None = None) -> Place:
    """The journal of a command: `option`, else the environment's, the plan's, the user's."""
    if option is not None:
        return Place(path=_path(option), said_by=OPTION)
    if named := os.environ.get(VARIABLE):
        return Place(path=_path(named), said_by=VARIABLE)
    if planned is not None:
        return Place(path=planned, said_by="the plan")
    return Place(path=_of_the_user(), said_by="the user's data directory")


@contextmanager
def written(place: Place) -> Iterator[Journal]:
    """The journal; it is made when it is not there.

    Raises:
        JournalRefused: it cannot be used; it is as it was.
    """
    if place.path is None:
        yield MemoryJournal()
        return
    try:
        journal = SqliteJournal(place.path)
    except ValueError as error:  # no name that a file can have
        raise JournalRefused(str(place), str(error), "Name another file") from error
    with closing(journal):
        yield journal


@contextmanager
def looked_at(place: Place) -> Iterator[SqliteJournal]:
    """The journal, for one look: nothing is made and nothing is changed."""
    if place.path is None:
        problem = "a run in memory can be seen by the process that runs it alone"
        raise JournalRefused(MEMORY, problem, "Name the journal that holds the run: --journal PATH")
    if place.said_by != OPTION and not place.path.exists():
        raise JournalRefused(str(place), "it is not there yet, so it has no runs", NO_RUNS)
    with closing(SqliteJournal(place.path, read_only=True, is_still=True)) as journal:
        yield journal


@contextmanager
def changed(place: Place) -> Iterator[SqliteJournal]:
    """A journal that is there already, to be written to."""
    with looked_at(place):
        assert place.path is not None  # it could be read
    with closing(SqliteJournal(place.path)) as journal:
        yield journal


def _path(named: str) -> Path | None:
    return None if named == MEMORY else Path(os.path.expanduser(named)).absolute()


def _of_the_user() -> Path:
    import platformdirs  # noqa: PLC0415  # needed when nobody has said where, and only then

    return platformdirs.user_data_path("loopfsm", appauthor=False) / "journal.db"
