"""Programs as tools: results, refusals, and nothing left running."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.ports import Tool
from loopfsm.testing import FakeClock, tool_context
from loopfsm.tools.leftovers import marks
from loopfsm.tools.shell import ShellTool

SHAPE = {
    "status",
    "command",
    "stdout",
    "stderr",
    "return_code",
    "duration_seconds",
    "cwd",
    "output_truncated",
}


def run(
    used: ShellTool, cap: int = 65536, output_dir: Path | None = None, **args: Any
) -> dict[str, Any]:
    context = tool_context(output_cap_bytes=cap, output_dir=output_dir)
    return asyncio.run(used.call(args, context))


def failure(used: ShellTool, **args: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        run(used, **args)
    return caught.value


def alive(pids: Sequence[int]) -> list[int]:
    """Those of the processes that still run; dead ones that nobody collected do not count."""
    ps = ["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, pids))]
    lines = subprocess.run(ps, capture_output=True, text=True, check=False).stdout.splitlines()
    states = dict(line.split() for line in lines)
    return [pid for pid in pids if not states.get(str(pid), "Z").startswith("Z")]


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A pipe with a name, through which a program tells that it is ready."""
    os.mkfifo(tmp_path / "ready")
    return tmp_path / "ready"


async def heard(fifo: Path) -> str:
    """What a program says through the pipe; an error when it says nothing for long."""
    loop = asyncio.get_running_loop()
    end = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    readable = asyncio.Event()
    loop.add_reader(end, readable.set)
    try:
        async with asyncio.timeout(10):
            await readable.wait()
        return os.read(end, 4096).decode()
    finally:
        loop.remove_reader(end)
        os.close(end)


async def started(
    used: ShellTool, script: str, fifo: Path
) -> "tuple[asyncio.Task[Any], list[int]]":
    """A call under way, and the process ids that its script has written to the fifo."""
    call = used.call({"command": script, "env": {"READY": fifo}}, tool_context())
    task = asyncio.create_task(call)
    return task, [int(pid) for pid in (await heard(fifo)).split()]


async def cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ------------------------------------------------------------------------- results


def test_a_result_has_its_shape() -> None:
    """A program that succeeds returns what it printed, apart, and how it was run."""
    clock = FakeClock(start=5)
    used = ShellTool(clock=clock, workspace=Path("/"))
    result = run(used, command="echo out; echo err >&2")
    expected = {
        "status": "success",
        "command": "echo out; echo err >&2",
        "stdout": "out\n",
        "stderr": "err\n",
        "return_code": 0,
        "duration_seconds": 0.0,
        "cwd": "/",
        "output_truncated": False,
    }
    assert expected == result
    assert set(expected) == SHAPE


def test_argv_reaches_the_program_item_by_item() -> None:
    """No shell stands between argv and the program; numbers and paths are written as text."""
    argv = ["printf", "%s|", "a b", "$HOME", 3, Path("p")]
    result = run(ShellTool(), argv=argv)
    assert result["stdout"] == "a b|$HOME|3|p|"
    assert result["command"] == ["printf", "%s|", "a b", "$HOME", "3", "p"]


def test_it_is_a_tool() -> None:
    """The shell tool satisfies the port, with the declared defaults."""
    used = ShellTool()
    assert isinstance(used, Tool)
    expected = ("shell", 300.0, False, False)
    assert expected == (used.name, used.timeout_s, used.idempotent, used.read_only)


def test_a_declared_program_runs_without_args() -> None:
    """What the tool declares, a step need not say."""
    used = ShellTool(argv=["cat"], stdin="declared", env={"A": "1"})
    assert run(used)["stdout"] == "declared"
    assert run(used, stdin="of the step")["stdout"] == "of the step"


def test_bytes_that_are_no_text_are_replaced() -> None:
    """Output that is not UTF-8 is decoded with replacement, never refused."""
    assert run(ShellTool(), command=r"printf 'a\377b'")["stdout"] == "a\ufffdb"


def test_standard_input_is_closed_unless_given() -> None:
    """A program that reads finds the end at once, or the given text."""
    assert run(ShellTool(), argv=["cat"])["stdout"] == ""
    assert (
        run(ShellTool(), argv=["cat"], stdin="\u00e4" * 200_000, cap=10**6)["stdout"]
        == "\u00e4" * 200_000
    )


def test_the_environment_is_the_parents_with_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    """`env` of tool and step come on top of what this process has, the step's last."""
    monkeypatch.setenv("OURS", "inherited")
    used = ShellTool(env={"A": "tool", "B": "tool"}, command="echo $OURS $A $B")
    assert run(used, env={"B": "step"})["stdout"] == "inherited tool step\n"


def test_the_environment_can_be_given_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without inheritance the program sees `env` and nothing else."""
    monkeypatch.setenv("OURS", "inherited")
    used = ShellTool(inherit_env=False, env={"A": "1"}, argv=["/usr/bin/env"])
    seen = dict(line.split("=", 1) for line in run(used)["stdout"].splitlines())
    assert {"A": "1", **marks(tool_context())} == seen


def test_the_directory_starts_at_the_workspace(tmp_path: Path) -> None:
    """A relative `cwd` is looked for in the workspace, an absolute one stands for itself."""
    (tmp_path / "inner").mkdir()
    used = ShellTool(workspace=tmp_path, argv=["pwd", "-P"])
    assert run(used)["stdout"].strip() == str(tmp_path.resolve())
    assert run(used, cwd="inner")["stdout"].strip() == str((tmp_path / "inner").resolve())
    assert run(used, cwd="/")["cwd"] == "/"


# -------------------------------------------------------------------------- output


def test_output_beyond_the_cap_is_whole_in_a_file(tmp_path: Path) -> None:
    """The text stops at the cap, without half a character; the file has everything."""
    used = ShellTool(output_dir=tmp_path / "outputs")
    result = run(used, cap=5, command="printf 'ää€ä'; echo error >&2")
    assert ("ää", True) == (result["stdout"], result["output_truncated"])
    assert Path(result["stdout_file"]).read_text() == "ää€ä"
    assert Path(result["stdout_file"]).parent == tmp_path / "outputs"
    assert Path(result["stdout_file"]).stat().st_mode & 0o777 == 0o600
    assert Path(result["stderr_file"]).read_text() == "error\n"
    assert SHAPE | {"stdout_file", "stderr_file"} == set(result)


def test_a_long_output_is_kept_with_its_run(tmp_path: Path) -> None:
    """Where the run's journal keeps such files, they last as long as it does."""
    kept = tmp_path / "journal.files"
    result = run(ShellTool(command="printf 123456"), cap=5, output_dir=kept)
    assert kept == Path(result["stdout_file"]).parent
    assert 0o700 == kept.stat().st_mode & 0o777


def test_output_of_exactly_the_cap_needs_no_file(tmp_path: Path) -> None:
    """Only what is beyond the cap makes a file."""
    result = run(ShellTool(output_dir=tmp_path), cap=4, command="printf abcd")
    assert ("abcd", False) == (result["stdout"], result["output_truncated"])
    assert list(tmp_path.iterdir()) == []


def test_a_flood_stays_out_of_memory(tmp_path: Path) -> None:
    """Of 32 MiB the cap is kept in memory, the file has every byte, stderr its last line."""
    script = (
        "head -c 33554432 /dev/zero; head -c 100000 /dev/zero >&2; echo >&2; echo last >&2; exit 1"
    )
    failed = failure(ShellTool(output_dir=tmp_path), command=script)
    assert failed.message.endswith("ended with exit code 1: last")
    assert len(failed.evidence["stdout"]) == 65536
    assert Path(failed.evidence["stdout_file"]).stat().st_size == 33554432


def test_a_file_that_cannot_be_written_does_not_stop_the_program(tmp_path: Path) -> None:
    """When the rest of the output has nowhere to go the program goes on and the result says so."""
    (tmp_path / "file").touch()
    result = run(ShellTool(output_dir=tmp_path / "file"), cap=3, command="printf abcdef")
    assert ("abc", True) == (result["stdout"], result["output_truncated"])
    assert "stdout_file" not in result
    assert "exists" in result["stdout_file_problem"]


# ------------------------------------------------------------------------ failures


def test_an_exit_code_is_a_failure_with_evidence() -> None:
    """A non-zero exit fails the call, with the last line of stderr and the whole result."""
    failed = failure(ShellTool(), command="echo first >&2; echo ' second ' >&2; echo >&2; exit 3")
    assert failed.message.endswith("ended with exit code 3: second")
    assert failed.executed is True
    assert (failed.evidence["status"], failed.evidence["return_code"]) == ("error", 3)
    assert set(failed.evidence) == SHAPE


def test_a_signal_is_named() -> None:
    """A program that a signal ended has a negative return code and the signal's name."""
    failed = failure(ShellTool(), command="kill -KILL $$")
    assert failed.message == "'kill -KILL $$' was killed by SIGKILL"
    assert failed.evidence["return_code"] == -signal.SIGKILL


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"argv": ["no-such-program"]}, "no such program"),
        ({"argv": ["/etc"]}, "Permission denied"),
        ({"argv": ["true"], "cwd": "/no/such/place"}, "working directory '/no/such/place'"),
        ({"argv": ["true"], "cwd": "/etc/passwd"}, "Not a directory"),
        ({"argv": ["nul\0byte"]}, "null byte"),
        ({"argv": ["true"], "env": {"A=B": "1"}}, "illegal environment variable name"),
        ({}, "nothing to run"),
        ({"argv": ["true"], "command": "true"}, "more than one program"),
        ({"command": " "}, "expected a command line"),
        ({"argv": "true"}, "expected a list"),
        ({"argv": []}, "expected a list"),
        ({"argv": ["true", None]}, "argv[1] is None"),
        ({"argv": ["true"], "env": {"A": True}}, "env.A is True"),
        ({"argv": ["true"], "env": "A=1"}, "expected a table"),
        ({"argv": ["true"], "timeout": 3}, "unknown argument 'timeout'"),
    ],
    ids=str,
)
def test_what_cannot_be_started_was_not_executed(args: dict[str, Any], says: str) -> None:
    """A program that never ran is a failure that says why, and that nothing was executed."""
    failed = failure(ShellTool(), **args)
    assert says in failed.message
    assert failed.executed is False


def test_a_step_does_not_replace_a_declared_program() -> None:
    """A tool that declares its program runs that one."""
    failed = failure(ShellTool(argv=["true"]), command="false")
    assert "the tool gives argv and the step gives command" in failed.message
    assert failed.executed is False


@pytest.mark.parametrize(
    "declaration", [{"argv": ["a"], "command": "b"}, {"argv": []}, {"argv": "a b"}, {"command": ""}]
)
def test_a_wrong_declaration_is_refused_at_the_door(declaration: dict[str, Any]) -> None:
    """A declaration that could never run is refused when the tool is made."""
    with pytest.raises(ToolError):
        ShellTool(**declaration)


def test_windows_is_refused_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where process groups do not exist the tool says so, instead of leaving orphans."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ToolError, match="Windows"):
        ShellTool()


# ------------------------------------------------------------------ nothing is left


POLITE = "sleep 60 & echo $$ $! > $READY; wait"
"""A program and its child, both of which end by SIGTERM."""

STUBBORN = f"trap '' TERM; {POLITE}"
"""The same, ignoring SIGTERM (the child inherits that)."""


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "thread"])
@pytest.mark.parametrize("script", [POLITE, STUBBORN], ids=["polite", "stubborn"])
def test_cancelling_ends_the_whole_group(
    script: str, pidfd: bool, fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the cancellation has returned neither the program nor a child of it runs."""
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)

    async def scenario() -> None:
        task, pids = await started(ShellTool(grace_s=0.05), script, fifo)
        assert alive(pids) == pids
        await cancelled(task)
        assert alive(pids) == []
        with pytest.raises(ChildProcessError):  # the direct child has been collected
            os.waitpid(pids[0], os.WNOHANG)  # noqa: ASYNC222  # WNOHANG

    before = os.listdir("/dev/fd")
    asyncio.run(scenario())
    assert before == os.listdir("/dev/fd")


def test_a_second_cancellation_cuts_the_grace_short(fifo: Path) -> None:
    """Cancelled again while it is polite, the tool kills at once and stays cancelled."""

    async def scenario() -> None:
        task, pids = await started(ShellTool(grace_s=60), STUBBORN, fifo)
        task.cancel()
        await asyncio.sleep(0)
        await cancelled(task)
        assert alive(pids) == []

    asyncio.run(scenario())


ATTENTIVE = """
import os, pathlib, signal, sys

def told(*_):
    pathlib.Path("told").write_text("told")
    if sys.argv[1:] == ["exit"]:
        sys.exit()

signal.signal(signal.SIGTERM, told)
pathlib.Path(os.environ["READY"]).write_text(str(os.getpid()))
while True:
    signal.pause()
"""
"""A program that tells when it is asked to end. (A shell would not do: it loses a signal that
comes while it forks.)"""


@pytest.fixture
def attentive(tmp_path: Path) -> str:
    """The command line of that program."""
    (tmp_path / "attentive.py").write_text(ATTENTIVE)
    return f'"{sys.executable}" -SE attentive.py'


def test_a_cancellation_while_the_rest_is_ended_is_kept(
    attentive: str, fifo: Path, tmp_path: Path
) -> None:
    """Cancelled after the program has ended, while its leftovers have their grace, it stays so."""
    os.mkfifo(tmp_path / "told")
    os.mkfifo(tmp_path / "inner")
    script = f"READY=inner {attentive} >/dev/null 2>&1 & read pid < inner; echo $pid > $READY"

    async def scenario() -> None:
        used = ShellTool(workspace=tmp_path, grace_s=60)
        task, pids = await started(used, script, fifo)
        assert await heard(tmp_path / "told") == "told"
        await cancelled(task)
        assert alive(pids) == []

    asyncio.run(scenario())


def test_a_program_may_use_the_grace_to_clean_up(
    attentive: str, fifo: Path, tmp_path: Path
) -> None:
    """SIGTERM comes first, and whoever obeys it has the time to finish."""

    async def scenario() -> None:
        used = ShellTool(workspace=tmp_path, grace_s=30)
        task, _ = await started(used, f"exec {attentive} exit", fifo)
        await cancelled(task)

    asyncio.run(scenario())
    assert (tmp_path / "told").read_text() == "told"


def test_a_background_child_does_not_outlive_the_program() -> None:
    """A program that ends normally leaves nobody behind, and its result does not wait for them."""
    began = time.monotonic()
    result = run(ShellTool(grace_s=0.05), command="trap '' TERM; sleep 60 & echo $!")
    assert time.monotonic() - began < 5
    assert alive([int(result["stdout"])]) == []
    assert result["return_code"] == 0


def test_the_rest_of_a_pipeline_may_finish_its_output() -> None:
    """What a member of the group still prints within the grace belongs to the output."""
    script = "(sleep 0.05; echo from the rest) &"
    assert run(ShellTool(grace_s=10), command=script)["stdout"] == "from the rest\n"


def test_an_escaped_process_that_holds_the_pipes_holds_up_nothing(fifo: Path) -> None:
    """A daemon in a session of its own keeps the pipe open; the call returns all the same."""
    daemon = "import os, sys, time; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w'))"
    script = f'echo before; "{sys.executable}" -c "{daemon}; time.sleep(60)" "$READY" & wait_for=$!'

    async def scenario() -> None:
        used = ShellTool(grace_s=10)
        task, (pid,) = await started(used, f"{script}; cat {fifo}2", fifo)
        try:
            assert alive([pid]) == [pid]
            await asyncio.to_thread(Path(f"{fifo}2").write_text, "after\n")
            assert (await task)["stdout"] == "before\nafter\n"
        finally:
            os.kill(pid, signal.SIGKILL)

    os.mkfifo(f"{fifo}2")
    began = time.monotonic()
    asyncio.run(scenario())
    assert time.monotonic() - began < 5


def test_a_running_program_does_not_hold_up_the_loop(fifo: Path) -> None:
    """While a program runs the event loop is free for others."""

    async def scenario() -> None:
        task, pids = await started(ShellTool(), POLITE, fifo)
        result = await ShellTool().call({"argv": ["echo", "meanwhile"]}, tool_context())
        assert result["stdout"] == "meanwhile\n"
        assert alive(pids) == pids
        await cancelled(task)

    asyncio.run(scenario())


def test_a_loop_that_ends_takes_its_programs_along(fifo: Path) -> None:
    """A call that is dropped with its event loop leaves no process behind."""
    loop = asyncio.new_event_loop()
    pids: list[int] = []

    async def scenario() -> None:
        task, found = await started(ShellTool(grace_s=0.05), STUBBORN, fifo)
        pids.extend(found)
        task.cancel()

    loop.run_until_complete(scenario())
    loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop), return_exceptions=True))
    loop.close()
    assert alive(pids) == []


def test_a_call_that_is_thrown_away_leaves_nothing_behind(fifo: Path) -> None:
    """Closed without a chance to await anything, the call still kills its group."""

    async def scenario() -> None:
        call = ShellTool().call({"command": STUBBORN, "env": {"READY": fifo}}, tool_context())
        call.send(None)
        pids = [int(pid) for pid in (await heard(fifo)).split()]
        call.close()
        async with asyncio.timeout(5):
            while alive(pids):  # noqa: ASYNC110  # processes tell no event
                await asyncio.sleep(0)

    asyncio.run(scenario())
