"""The scripted tool plays what a test wrote down."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.ports import Tool, ToolContext
from loopfsm.testing import (
    Called,
    Fails,
    FakeClock,
    Hangs,
    Outcome,
    Raises,
    Returns,
    ScriptedTool,
    Sleeps,
    tool_context,
)


async def _call(used: Tool, step_id: str = "step", **args: Any) -> Any:
    return await used.call(args, tool_context(step_id=step_id))


def play(used: Tool, step_id: str = "step", **args: Any) -> Any:
    return asyncio.run(_call(used, step_id, **args))


def test_it_is_a_tool() -> None:
    """A scripted tool satisfies the port and says what it was told to say."""
    used = ScriptedTool("t", [Returns()], idempotent=True, read_only=True, timeout_s=3)
    assert isinstance(used, Tool)
    expected = ("t", True, True, 3)
    assert expected == (used.name, used.idempotent, used.read_only, used.timeout_s)


def test_outcomes_come_in_order_and_the_last_repeats() -> None:
    """Call by call the script is played; after its end the last outcome stays."""
    used = ScriptedTool("t", [Returns(1), Returns(2)])
    assert [play(used) for _ in range(4)] == [1, 2, 2, 2]


def test_each_step_has_its_own_script() -> None:
    """With a script for each step, one step's calls do not use up another's outcomes."""
    used = ScriptedTool("t", {"a": [Returns("a1"), Returns("a2")], "b": [Returns("b1")]})
    assert [play(used, step) for step in "abaa"] == ["a1", "b1", "a2", "a2"]


def test_a_step_without_a_script_is_named() -> None:
    """A step that the script forgot is a mistake of the test, and says so."""
    with pytest.raises(ToolError, match="no script for 'c', only for 'a'"):
        play(ScriptedTool("t", {"a": [Returns()]}), "c")


def test_a_function_may_decide() -> None:
    """A script may be a function of the args and the context."""

    def script(args: Mapping[str, Any], context: ToolContext) -> Outcome:
        return Returns((args["x"], context.step_id))

    assert play(ScriptedTool("t", script), "s", x=5) == (5, "s")


def test_raising_raises_the_very_error() -> None:
    """`Raises(error)` raises that object."""
    error = OSError("disk")
    with pytest.raises(OSError, match="disk") as caught:
        play(ScriptedTool("t", [Raises(error)]))
    assert caught.value is error


@pytest.mark.parametrize("executed", [True, False])
def test_failing_reports_whether_it_was_executed(executed: bool) -> None:
    """`Fails` is a tool's own report of failure."""
    with pytest.raises(ToolFailed) as caught:
        play(ScriptedTool("t", [Fails("broken", executed=executed)]))
    assert ("broken", executed) == (caught.value.message, caught.value.executed)


def test_hanging_ends_only_by_cancellation() -> None:
    """`Hangs` never returns; cancelled, it ends at once."""

    async def run() -> None:
        task = asyncio.create_task(_call(ScriptedTool("t", [Hangs()])))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_sleeping_takes_the_clocks_time() -> None:
    """`Sleeps` ends when the clock has moved so far, then does what comes `then`."""
    clock = FakeClock()
    used = ScriptedTool("t", [Sleeps(5, then=Fails("too tired"))], clock=clock)

    async def run() -> None:
        task = asyncio.create_task(_call(used))
        await asyncio.sleep(0)
        clock.advance(4.9)
        await asyncio.sleep(0)
        assert not task.done()
        clock.advance(0.1)
        with pytest.raises(ToolFailed, match="too tired"):
            await task

    asyncio.run(run())


def test_a_cancelled_sleep_leaves_no_timer() -> None:
    """The timer of a sleeper goes with it."""
    clock = FakeClock()

    async def run() -> None:
        task = asyncio.create_task(_call(ScriptedTool("t", [Sleeps(5)], clock=clock)))
        await asyncio.sleep(0)
        assert clock.pending == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert clock.pending == 0


def test_calls_are_remembered() -> None:
    """Each call is kept as it was received, also one that fails."""
    used = ScriptedTool("t", [Fails()])
    args = {"x": 1}
    context = tool_context(step_id="s", attempt=2, idempotency_key="k")
    with pytest.raises(ToolFailed):
        asyncio.run(used.call(args, context))
    args["x"] = 2
    assert [Called("s", 2, {"x": 1}, "k")] == used.calls


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([], "the script is empty"),
        ({"a": []}, "the script of 'a' is empty"),
        (["text"], "did you mean Returns"),
        ([Sleeps(1)], "needs the clock"),
    ],
    ids=str,
)
def test_a_wrong_script_is_refused_at_the_door(script: Any, says: str) -> None:
    """A script that could not be played is refused when the tool is made."""
    with pytest.raises(ToolError, match=says):
        ScriptedTool("t", script)


def test_a_wrong_outcome_of_a_function_is_refused() -> None:
    """What a script function returns must be an outcome too."""
    with pytest.raises(ToolError, match="did you mean Returns"):
        play(ScriptedTool("t", lambda _args, _context: 5))  # type: ignore[arg-type,return-value]  # the mistake
