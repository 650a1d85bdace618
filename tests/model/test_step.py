"""The words of a step: what they imply, and which are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from loopfsm.errors import PlanError
from loopfsm.model.step import Call, StepSpec, output


def test_needs_follow_from_the_outputs_that_are_used() -> None:
    """What the args and the verifying call use is needed, once, after what was said."""
    verify = Call("look", {"own": output("c"), "other": output("d")})
    spec = StepSpec(
        id="c", tool="t", needs=["a", "a"], args={"x": [output("b", "y"), 1]}, verify=verify
    )
    assert ("a", "b", "d") == spec.needs


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, True, "1"])
def test_a_time_limit_is_seconds_above_zero(seconds: Any) -> None:
    """Any other is refused where it is said."""
    with pytest.raises(PlanError, match="step a: timeout_s: found"):
        StepSpec(id="a", tool="t", timeout_s=seconds)


@pytest.mark.parametrize("retries", [-1, 1.5, True, "1"])
def test_retries_are_a_whole_number(retries: Any) -> None:
    """Any other is refused where it is said."""
    with pytest.raises(PlanError, match="step a: max_retries: found"):
        StepSpec(id="a", tool="t", max_retries=retries)
