"""What tools declare of their situations: in advance, and in the moment."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.model.situation import Probe, Situation, SituationKind
from loopfsm.ports import ToolContext
from loopfsm.situations.contract import validate_situation
from loopfsm.situations.declared import Declared, When
from loopfsm.tools.python import DaemonThreads, PythonTool
from loopfsm.tools.registry import ToolRegistry, tool
from loopfsm.tools.shell import NO_DIRECTORY, NO_PROGRAM, UNBLOCK, ShellTool

TABLE: Mapping[str, Any] = {
    "when": {"exit": 4},
    "kind": "auth",
    "subject": " GH ",
    "unblock": "gh auth login",
    "interactive": True,
    "probe": {"tool": "status", "args": {"binary": "gh"}},
}
SIGNED_OUT = Declared(
    when=When(exit=4),
    kind=SituationKind.AUTH,
    subject="gh",
    unblock="gh auth login",
    interactive=True,
    probe=Probe(tool="status", args={"binary": "gh"}),
)


def nothing() -> None:
    """A function."""


MAKERS: Mapping[str, Callable[..., Any]] = {
    "a program": lambda **declared: ShellTool(name="gh", argv=["gh"], **declared),
    "a function": lambda **declared: PythonTool(name="gh", function=nothing, **declared),
    "the decorator": lambda **declared: tool(name="gh", **declared)(nothing),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_tool_takes_its_situations_in_both_ways(maker: str) -> None:
    """As `Declared`, or as a plan file writes them; they are on the tool, in order."""
    made = MAKERS[maker](situations=[TABLE, SIGNED_OUT], interactive=True)
    assert (SIGNED_OUT, SIGNED_OUT) == made.situations
    assert made.interactive is True
    assert (SIGNED_OUT, SIGNED_OUT) == attrs.evolve(made, name="hub").situations
    bare = MAKERS[maker]()
    assert ((), False) == (bare.situations, bare.interactive)


MALFORMED: Mapping[str, tuple[Any, str]] = {
    "no list": (TABLE, "expected a list"),
    "a text": ("auth", "expected a list"),
    "a number": (5, "expected a list"),
    "no table": (["auth"], "'auth', expected a table of its keys"),
    "an unknown kind": ([{**TABLE, "kind": "login"}], "login"),
    "a kind that is no text": ([{**TABLE, "kind": ["auth"]}], "auth"),
    "no subject": ([{**TABLE, "subject": " "}], "subject"),
    "no condition": ([{**TABLE, "when": {}}], "exactly one of exit, stderr and http"),
    "nothing at all": ([{}], "exactly one of exit, stderr and http"),
    "a success": ([{**TABLE, "when": {"exit": 0}}], "exit = 0 is a success"),
    "an unknown key": ([{**TABLE, "unblok": "x"}], "unknown key 'unblok'"),
    "a flag that is a text": ([{**TABLE, "interactive": "yes"}], "'interactive'"),
    "a probe without a tool": ([{**TABLE, "probe": {"args": {}}}], "probe"),
    "args that are no table": ([{**TABLE, "probe": {"tool": "t", "args": "gh"}}], "args"),
    "an object made wrongly": (
        [attrs.evolve(SIGNED_OUT, unblock=7)],  # type: ignore[arg-type]  # that is the mistake
        "'unblock'",
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_situation_is_refused_when_the_tool_is_made(maker: str, kind: str) -> None:
    """`ToolError`, a `ValueError`, that names the tool and what is wrong (R4)."""
    situations, says = MALFORMED[kind]
    with pytest.raises(ToolError) as caught:
        MAKERS[maker](situations=situations)
    assert caught.value.tool == "gh"
    assert says in caught.value.problem
    assert isinstance(caught.value, ValueError)


# The registry


def test_the_registry_knows_what_each_tool_declares() -> None:
    """By name; a name or a tool that declares nothing has no situations (R18)."""
    registry = ToolRegistry([ShellTool(name="gh", situations=[TABLE]), nothing])
    assert (SIGNED_OUT,) == registry.situations_of("gh")
    assert () == registry.situations_of("nothing") == registry.situations_of("nobody")


@attrs.frozen
class Foreign:
    """A tool of somebody else's making."""

    name: str = "foreign"
    timeout_s: float | None = None
    read_only: bool = True
    idempotent: bool = True
    situations: Any = ()
    interactive: Any = False

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> None:
        """Do nothing."""


def test_a_foreign_tool_is_checked_when_it_is_registered() -> None:
    """What it declares has to be as it is in our own tools."""
    for given in (SIGNED_OUT, TABLE):
        registry = ToolRegistry([Foreign(situations=[given])])
        assert (SIGNED_OUT,) == registry.situations_of("foreign")
    for wrong in ({"situations": ("auth",)}, {"interactive": "yes"}):
        with pytest.raises(ToolError, match="foreign"):
            ToolRegistry([Foreign(**wrong)])


@pytest.mark.parametrize("order", [1, -1], ids=["probe last", "probe first"])
@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({}, "not read_only"),
        ({"interactive": True, "read_only": True}, "interactive"),
        ({"read_only": True}, ""),
    ],
    ids=["mutating", "interactive", "fine"],
)
def test_a_probe_only_looks_and_asks_nobody(order: int, declared: Any, says: str) -> None:
    """A probe that may change the world or needs a person is refused (A28)."""
    prober = ShellTool(name="gh", argv=["gh"], situations=[TABLE])
    probe = ShellTool(name="status", argv=["gh", "auth", "status"], **declared)
    registry = ToolRegistry()
    first, second = (prober, probe)[::order]
    registry.register(first)
    if says:
        with pytest.raises(ToolError, match=says):
            registry.register(second)
        assert (first.name,) == registry.names
    else:
        registry.register(second)


# Our own tools, in the moment


CONTEXT = ToolContext(
    run_id="run",
    step_id="one",
    attempt=1,
    idempotency_key="key",
    deadline=None,
    log=logging.LoggerAdapter(logging.getLogger("loopfsm"), {}),
    spend=lambda tokens, cost: None,
)


def failure(called: Any, args: Mapping[str, Any]) -> ToolFailed:
    async def call() -> Any:
        return await called.call(args, CONTEXT)

    with pytest.raises(ToolFailed) as caught:
        asyncio.run(call())
    return caught.value


def situation(failed: ToolFailed) -> Situation | None:
    """What the failure declares; its evidence reads like the result of a failing tool."""
    if not failed.evidence:
        return None
    assert ("error", failed.message) == (failed.evidence["status"], failed.evidence["error"])
    assert failed.executed is False
    return validate_situation("shell", failed.evidence["situation"])


def files(directory: Path) -> None:
    (directory / "data").write_text("x", encoding="utf-8")
    script = directory / "script"
    script.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    script.chmod(0o700)


@pytest.mark.parametrize(
    ("args", "kind", "subject"),
    [
        ({"argv": ["no-such-program"]}, "not_installed", "no-such-program"),
        ({"argv": ["./no-such-program"]}, "not_found", "./no-such-program"),
        ({"argv": ["/no/such/program"]}, "not_found", "/no/such/program"),
        ({"argv": ["./data/program"]}, "not_found", "./data/program"),
        ({"argv": ["./data"]}, "permission", "./data"),
        ({"argv": ["x" * 5000]}, "bad_args", f"{'x' * 57}..."),
        ({"argv": ["true", "x" * (1 << 22)]}, "bad_args", "true"),
        ({"argv": ["true"], "cwd": "/no/such/place"}, "wrong_cwd", "/no/such/place"),
        ({"argv": ["true"], "cwd": "/etc/passwd"}, "wrong_cwd", "/etc/passwd"),
        ({"argv": ["nul\0byte"]}, "bad_args", "nul\0byte"),
        ({"argv": []}, "bad_args", "shell"),
        ({}, "bad_args", "shell"),
        ({"command": "true", "timeout": 3}, "bad_args", "shell"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_program_that_cannot_start_says_what_is_the_matter(
    tmp_path: Path, args: dict[str, Any], kind: str, subject: str
) -> None:
    """The system's own error number decides, never the words."""
    files(tmp_path)
    found = situation(failure(ShellTool(workspace=tmp_path), args))
    assert found is not None
    assert (kind, subject) == (found.kind, found.subject)
    assert (found.unblock is not None) == (found.kind in UNBLOCK)


def test_what_is_not_known_is_not_declared(tmp_path: Path) -> None:
    """A script whose interpreter is missing: something is not installed, but what?"""
    files(tmp_path)
    assert None is situation(failure(ShellTool(workspace=tmp_path), {"argv": ["./script"]}))


@pytest.mark.parametrize("number", [errno.EACCES, errno.ETXTBSY, errno.EAGAIN, errno.ENOEXEC])
def test_each_error_number_means_what_the_table_says(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """`NO_PROGRAM` and `NO_DIRECTORY`; a number that is in neither means nothing."""

    def refuse(argv: Any, cwd: str, **_: Any) -> Any:
        raise OSError(number, os.strerror(number), cwd if argv[0] == "there" else argv[0])

    monkeypatch.setattr(subprocess, "Popen", refuse)
    for program, table in (("here", NO_PROGRAM), ("there", NO_DIRECTORY)):
        found = situation(failure(ShellTool(), {"argv": [program]}))
        assert table.get(number) == (found and found.kind)


def test_a_program_that_ran_declares_nothing_by_itself() -> None:
    """What its exit code means is for its declaration, or to be inferred."""
    failed = failure(ShellTool(), {"command": "exit 4"})
    assert "situation" not in failed.evidence


def test_a_call_with_wrong_args_says_so() -> None:
    """Its caller can put it right."""
    found = situation(failure(tool(nothing), {"x": 1}))
    assert found is not None
    assert (SituationKind.BAD_ARGS, "nothing") == (found.kind, found.subject)


def test_threads_that_are_held_by_abandoned_calls_are_a_lock() -> None:
    """Whoever holds them lets go in the end; until then somebody may want to know."""
    found = situation(failure(tool(threads=DaemonThreads(max_abandoned=0))(nothing), {}))
    assert found is not None
    assert (SituationKind.LOCKED, "threads") == (found.kind, found.subject)
    assert found.unblock
