"""What a shell tool shows of values that come from the environment."""

from __future__ import annotations

import asyncio
import copy

from loopfsm.model.step import EnvironmentValue
from loopfsm.testing import tool_context
from loopfsm.tools.shell import ShellTool


def test_a_value_of_the_environment_is_shown_by_its_name() -> None:
    """The program gets the value; the result that is kept names the variable instead."""
    secret = EnvironmentValue("TOKEN").looked_up({"TOKEN": "s3cr3t-value"})
    script = 'test "$1" = s3cr3t-value && echo took it'
    argv = ["/bin/sh", "-c", script, "sh", secret]
    result = asyncio.run(ShellTool(name="sh").call({"argv": argv}, tool_context()))
    assert "took it\n" == result["stdout"]
    assert "$TOKEN" == result["command"][-1]


def test_the_value_is_text_in_every_other_way() -> None:
    """A tool in Python gets a string like any other, also after a copy."""
    value = EnvironmentValue("HOME").looked_up({"HOME": "/somewhere"})
    assert "/somewhere" == value == str(value)
    assert "$HOME" == value.shown
    assert copy.copy([value]) == ["/somewhere"]
