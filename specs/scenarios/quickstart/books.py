"""What the steps of the quickstart do: plain functions over files, standard library only.

Paths are relative to this directory. Money is counted in whole cents.
"""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

TABLES = """
create table files (path text primary key, kind text, bytes integer, lines integer);
create table sales (path text, region text, date text, item text, quantity integer, cents integer);
"""


def inventory(data: str, out: str) -> dict[str, Any]:
    """List every file under `data`, and every sale in the CSV files, in a new database."""
    root, target = HERE / data, HERE / out
    target.mkdir(exist_ok=True)
    for left_over in target.iterdir():  # what an earlier run wrote
        left_over.unlink()
    files, sales = [], []
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        files.append((name, path.suffix[1:], path.stat().st_size, len(text.splitlines())))
        if path.suffix == ".csv":
            sales += [
                (
                    name,
                    path.parent.name,
                    row["date"],
                    row["item"],
                    row["quantity"],
                    row["price_cents"],
                )
                for row in csv.DictReader(text.splitlines())
            ]
    with closing(sqlite3.connect(target / "inventory.sqlite3")) as database, database:
        database.executescript(TABLES)
        database.executemany("insert into files values (?, ?, ?, ?)", files)
        database.executemany("insert into sales values (?, ?, ?, ?, ?, ?)", sales)
    listed = [{"path": name, "bytes": size, "lines": lines} for name, _, size, lines in files]
    return {"database": f"{out}/inventory.sqlite3", "files": listed, "sales": len(sales)}


def every_file_is_listed(data: str, out: str) -> str:
    """Verify the inventory: the database lists exactly the files that are there."""
    root = HERE / data
    there = {each.relative_to(root).as_posix() for each in root.rglob("*") if each.is_file()}
    with closing(sqlite3.connect(HERE / out / "inventory.sqlite3")) as database:
        listed = {path for (path,) in database.execute("select path from files")}
    if there != listed:
        raise ValueError(f"listed wrongly: {sorted(there ^ listed)}")
    return f"{len(there)} files are listed"


def totals_from_database(database: str) -> dict[str, Any]:
    """Add up in SQL: per region the sales, and the items sold."""
    query = "select region, count(*), sum(quantity), sum(quantity * cents) from sales group by 1"
    with closing(sqlite3.connect(HERE / database)) as opened:
        rows = opened.execute(f"{query} order by 1").fetchall()
    regions = [
        {"region": region, "sales": sales, "items": items, "cents": cents}
        for region, sales, items, cents in rows
    ]
    return {"regions": regions, "total_cents": sum(cents for *_, cents in rows)}


def totals_from_files(data: str) -> dict[str, Any]:
    """Add up once more, line by line from the files: the database is not asked."""
    regions: dict[str, dict[str, Any]] = {}
    for path in sorted((HERE / data).glob("*/*.csv")):
        name = path.parent.name
        sums = regions.setdefault(name, {"region": name, "sales": 0, "items": 0, "cents": 0})
        with path.open(encoding="utf-8", newline="") as lines:
            for _date, _item, quantity, cents in list(csv.reader(lines))[1:]:
                sums["sales"] += 1
                sums["items"] += int(quantity)
                sums["cents"] += int(quantity) * int(cents)
    return {
        "regions": list(regions.values()),
        "total_cents": sum(sums["cents"] for sums in regions.values()),
    }


def compare(database: dict[str, Any], files: dict[str, Any]) -> dict[str, Any]:
    """Fail unless both ways led to the same totals."""
    if database != files:
        raise ValueError(f"the database says {database}, the files say {files}")
    return {"agreed": True, "regions": len(files["regions"])}


def report(
    out: str,
    files: list[dict[str, Any]],
    regions: list[dict[str, Any]],
    total_cents: int,
    agreed: bool,
    archive: str,
) -> dict[str, Any]:
    """Write the report."""
    lines = ["# The books of the two coffee carts", ""]
    lines += ["| region | sales | items | revenue |", "|---|---:|---:|---:|"]
    lines += [
        f"| {each['region']} | {each['sales']} | {each['items']} | {money(each['cents'])} |"
        for each in regions
    ]
    lines += ["", f"Total: **{money(total_cents)}**"]
    lines += [f"Database and files agree: {'yes' if agreed else 'no'}", ""]
    lines += ["| file | bytes | lines |", "|---|---:|---:|"]
    lines += [f"| {each['path']} | {each['bytes']} | {each['lines']} |" for each in files]
    lines += ["", f"Archive: {archive.strip()}", ""]
    path = HERE / out / "report.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return {"path": f"{out}/report.md", "total": money(total_cents)}


def report_is_complete(out: str) -> str:
    """Verify the report: it is there, and has a row for every listed file."""
    text = (HERE / out / "report.md").read_text(encoding="utf-8")
    with closing(sqlite3.connect(HERE / out / "inventory.sqlite3")) as database:
        listed = [path for (path,) in database.execute("select path from files")]
    missing = [path for path in listed if f"| {path} |" not in text]
    if missing:
        raise ValueError(f"the report lacks {missing}")
    return f"the report names {len(listed)} files"


def money(cents: int) -> str:
    """12345 -> `123.45`."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
