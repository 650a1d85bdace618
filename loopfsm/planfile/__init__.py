"""Plan files: TOML in, a plan and its tools out, or every mistake at once."""

from __future__ import annotations

from loopfsm.planfile.read import PlanFile, load, loads

__all__ = ["PlanFile", "load", "loads"]
