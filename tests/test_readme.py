"""The README runs: its Python as it stands, and what it says that is printed."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def test_every_python_block_prints_what_it_says() -> None:
    """The blocks run in order, in one namespace; each printed line is the comment beside it."""
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    namespace: dict[str, object] = {"__name__": "readme"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, "README.md", "exec"), namespace)
    promised = re.findall(r"^print\(.*\)  # (.*)$", "\n".join(blocks), re.M)
    assert promised == printed.getvalue().splitlines()


def test_every_link_leads_somewhere() -> None:
    """What the README links to is there."""
    text = README.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert links
    assert [] == [link for link in links if not (README.parent / link).exists()]
