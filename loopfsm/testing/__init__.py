"""What tests of code built on loopfsm need: a fake of each port."""

from loopfsm.testing.clock import FakeClock, FakeTimer
from loopfsm.testing.tools import (
    Called,
    Fails,
    Hangs,
    Outcome,
    Raises,
    Returns,
    ScriptedTool,
    Sleeps,
    tool_context,
)

__all__ = [
    "Called",
    "Fails",
    "FakeClock",
    "FakeTimer",
    "Hangs",
    "Outcome",
    "Raises",
    "Returns",
    "ScriptedTool",
    "Sleeps",
    "tool_context",
]
