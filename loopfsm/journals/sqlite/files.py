"""What is too large for a row, or no text: files beside the journal, named by their content."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen


@frozen
class Files:
    """A directory of immutable files, each named by the SHA-256 of its content.

    A file is complete and durable before its name exists; the same content is kept once.
    """

    directory: Path
    is_synced: bool = True
    """A file is on the disk when `keep` returns."""

    @classmethod
    def beside(cls, journal: Path, *, is_synced: bool) -> Files:
        """The files of the journal at that path."""
        return cls(journal.with_name(f"{journal.name}.files"), is_synced)

    def path_of(self, sha: str) -> Path:
        """Where the content of that SHA-256 stands, if it is kept."""
        return self.directory / sha[:2] / sha[2:]

    def output_dir(self, run_id: str) -> Path:
        """Where the tools of a run keep outputs that are too long for a result."""
        name = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.directory / f"of-{name}"  # an id may hold anything

    def keep(self, content: bytes) -> str:
        """Keep the content and return its SHA-256, in hexadecimal."""
        sha = hashlib.sha256(content).hexdigest()
        path = self.path_of(sha)
        if path.exists():
            return sha
        self.directory.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor, new = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # readable by us alone
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if self.is_synced:
                    os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(new)
            raise
        if self.is_synced:
            for directory in (path.parent, self.directory, self.directory.parent):
                _sync_directory(directory)
        return sha

    def fetch(self, sha: str) -> bytes:
        """The content of that SHA-256; `KeyError` when it is gone or not what it was."""
        try:
            content = self.path_of(sha).read_bytes()
        except OSError as error:
            raise KeyError(f"the file {self.path_of(sha)} is gone: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != sha:
            raise KeyError(f"the file {self.path_of(sha)} has changed")
        return content

    def kept(self) -> Iterator[str]:
        """The SHA-256 of everything kept."""
        for path in self.directory.glob("??/*"):
            if len(path.name) == 62:
                yield path.parent.name + path.name

    def drop(self, unused: Iterable[str]) -> None:
        """Forget some contents, and what a killed process left half written."""
        for path in (*map(self.path_of, unused), *self.directory.glob("??/.new-*")):
            with suppress(OSError):
                path.unlink()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
