"""The registry of tools, and `@tool`."""

import asyncio
from typing import Any

import pytest

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.ports import Tool, ToolContext
from loopfsm.testing import ScriptedTool, tool_context
from loopfsm.tools.registry import ToolRegistry, tool


@tool
def add(first: int, second: int = 1) -> int:
    return first + second


def refusal(used: Tool, args: dict[str, Any]) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        asyncio.run(_call(used, args))
    return caught.value


async def _call(used: Tool, args: dict[str, Any]) -> Any:
    return await used.call(args, tool_context())


def test_a_decorated_function_is_a_tool_under_its_own_name() -> None:
    """`@tool` without arguments keeps the function's name and claims nothing about it."""
    assert isinstance(add, Tool)
    expected = ("add", False, False, 300.0)
    assert expected == (add.name, add.idempotent, add.read_only, add.timeout_s)


def test_a_decorated_function_is_still_the_function() -> None:
    """Called directly, the tool does what the function does."""
    assert add(2, second=3) == 5


def test_the_decorator_takes_the_declaration() -> None:
    """What `@tool(...)` says is what the tool says."""

    @tool(name="files.count", idempotent=True, read_only=True, timeout_s=2.5)
    def count() -> int:
        return 0

    expected = ("files.count", True, True, 2.5)
    assert expected == (count.name, count.idempotent, count.read_only, count.timeout_s)


def test_a_registered_tool_is_found_by_name() -> None:
    """Whatever `register` accepted, `get` returns; names keep their order."""
    scripted = ScriptedTool("scripted")
    registry = ToolRegistry([scripted])
    assert registry.register(add) is add
    assert registry.get("add") is add
    assert registry.names == ("scripted", "add")
    assert "add" in registry
    assert "subtract" not in registry
    assert [scripted, add] == list(registry)
    assert len(registry) == 2


def test_a_bare_function_becomes_a_tool() -> None:
    """A function that nobody decorated is registered under its `__name__`."""

    async def fetch(url: str) -> str:
        return f"got {url}"

    registry = ToolRegistry()
    registry.register(fetch)
    assert asyncio.run(_call(registry.get("fetch"), {"url": "x"})) == "got x"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    """A misspelled name is refused, naming the valid name that is nearest to it."""
    registry = ToolRegistry([add, ScriptedTool("inventory")])
    with pytest.raises(ToolError, match="did you mean 'inventory'") as caught:
        registry.get("inventroy")
    assert caught.value.tool == "inventroy"


def test_an_unknown_name_like_no_other_is_answered_with_all() -> None:
    """When nothing is near, the refusal lists what there is."""
    with pytest.raises(ToolError, match="known: 'add'"):
        ToolRegistry([add]).get("zzz")


def test_a_name_is_given_once() -> None:
    """A second tool of the same name is refused and the first one stays."""
    registry = ToolRegistry([add])
    with pytest.raises(ToolError, match="taken"):
        registry.register(ScriptedTool("add"))
    assert registry.get("add") is add


def _yields() -> Any:
    yield 1


def _by_position(value: int, /) -> int:
    return value


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (lambda: None, "no name of its own"),
        (_yields, "yields"),
        (_by_position, "positional-only"),
        (42, "expected a function"),
        (ScriptedTool(" "), "needs a name"),
        (ScriptedTool("slow", timeout_s=0), "more than 0"),
        (ScriptedTool("slow", timeout_s=float("nan")), "more than 0"),
        (ScriptedTool("slow", timeout_s="5"), "expected seconds"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_a_wrong_declaration_is_refused_at_the_door(declared: Any, says: str) -> None:
    """What could never be called is refused when it is registered."""
    registry = ToolRegistry()
    with pytest.raises(ToolError, match=says):
        registry.register(declared)
    assert registry.names == ()


def test_a_missing_argument_is_named_and_nothing_was_executed() -> None:
    """A call without a required argument fails before the function is entered."""
    failed = refusal(add, {})
    assert failed.executed is False
    assert "missing argument 'first'" in failed.message


def test_an_unknown_argument_is_named_and_nothing_was_executed() -> None:
    """A call with an argument the function lacks fails before the function is entered."""
    failed = refusal(add, {"first": 1, "secnod": 2})
    assert failed.executed is False
    assert "unknown argument 'secnod'" in failed.message


def test_a_type_error_of_the_function_is_its_own() -> None:
    """A `TypeError` raised inside the function is not mistaken for a call that does not fit."""

    @tool
    async def broken() -> None:
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        asyncio.run(_call(broken, {}))


def test_the_context_is_given_to_whoever_asks() -> None:
    """A parameter annotated `ToolContext`, or a bare `context`, receives the context."""

    @tool
    async def annotated(value: int, about: ToolContext | None = None) -> Any:
        return value, about

    @tool
    async def named(context, value):  # type: ignore[no-untyped-def]  # that is the case
        return value, context

    async def both() -> None:
        context = tool_context(step_id="asked")
        assert await annotated.call({"value": 1}, context) == (1, context)
        assert await named.call({"value": 2}, context) == (2, context)

    asyncio.run(both())


def test_the_context_is_known_by_the_words_of_its_annotation() -> None:
    """Where an annotation cannot be resolved at run time, what it says is enough."""

    async def asks(about: Any, other: Any = None) -> Any:
        return about

    asks.__annotations__ = {"about": "ToolContext | None", "other": "ForCheckersOnly"}

    async def call() -> bool:
        context = tool_context()
        return await tool(asks).call({}, context) is context

    assert asyncio.run(call())


def test_a_context_of_another_type_is_an_ordinary_argument() -> None:
    """A parameter `context` annotated as something else belongs to the plan."""

    @tool
    async def prompt(context: str) -> str:
        return context

    assert asyncio.run(_call(prompt, {"context": "words"})) == "words"


def test_the_context_cannot_come_from_the_plan() -> None:
    """An argument that would take the place of the context is refused."""

    @tool
    async def asks(context: ToolContext, **rest: Any) -> None:
        raise AssertionError

    assert "unknown argument 'context'" in refusal(asks, {"context": 1, "other": 2}).message


def test_further_keywords_are_passed_on() -> None:
    """A function with `**rest` takes any further argument."""

    @tool
    async def collects(**rest: Any) -> dict[str, Any]:
        return rest

    assert asyncio.run(_call(collects, {"a": 1, "b": 2})) == {"a": 1, "b": 2}
