"""Ask for an archive of a directory. The packing goes on in the background.

    python archive.py DATA OUT

The first time it is asked, there is no archive: a packer is started, and the program ends
with 75, which says "not ready yet, ask again later". Once the archive is there, the
program prints what is in it and ends with 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

NOT_READY = 75  # EX_TEMPFAIL of sysexits.h


def ask(data: Path, out: Path) -> int:
    """Print what is in the archive, or say that it is not ready."""
    archive, order = out / "archive.zip", out / "archive.order"
    if archive.exists():
        with zipfile.ZipFile(archive) as packed:
            print(f"archive.zip with {len(packed.namelist())} files")
        return 0
    if not order.exists():
        number = uuid.uuid4().hex
        order.write_text(number, encoding="utf-8")
        subprocess.Popen(
            [sys.executable, __file__, "pack", str(data), str(out), number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    print("archive.zip is being packed; ask again in a moment", file=sys.stderr)
    return NOT_READY


def pack(data: Path, out: Path, number: str) -> int:
    """Pack, for the order of that number; the archive appears when it is complete."""
    unfinished = out / f"archive.{number}"
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(each for each in data.rglob("*") if each.is_file()):
            packed.write(path, path.relative_to(data))
    if (out / "archive.order").read_text(encoding="utf-8") != number:
        unfinished.unlink()  # a later run has ordered its own
        return 1
    os.replace(unfinished, out / "archive.zip")
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pack", data, out, number]:
            sys.exit(pack(Path(data), Path(out), number))
        case [data, out]:
            sys.exit(ask(Path(data), Path(out)))
        case _:
            sys.exit(__doc__)
