"""The command line. It starts nothing heavy before it knows what is asked."""

from __future__ import annotations

from loopfsm.cli.command import main

__all__ = ["main"]
