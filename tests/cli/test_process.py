"""`python -m loopfsm` as a process: signals, closed pipes, real tools."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEAF = """\
import asyncio, pathlib

async def deaf(fifo: str) -> None:
    said = "started"
    while True:
        pathlib.Path(fifo).write_text(said)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            said = "cancelled"
"""

BLOCKING = """\
import pathlib, time

async def block(fifo: str) -> None:
    pathlib.Path(fifo).write_text("started")
    time.sleep(600)
"""

ROOT = Path(__file__).resolve().parents[2]

# each test starts the command as a process of its own
pytestmark = pytest.mark.slow


def plan_of(directory: Path, command: str, more: str = "") -> Path:
    """A plan of one shell command; the command must hold no quotes of its own."""
    path = directory / "plan.toml"
    args = f"args = {{ command = '''{command}''' }}"
    text = f'goal = "g"\n[[steps]]\nid = "one"\ntool = "shell"\n{args}\n{more}'
    path.write_text(text, encoding="utf-8")
    return path


def started(plan: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "loopfsm", "run", str(plan), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def taking_hangups_as(handler: signal.Handlers) -> Iterator[None]:
    """What is started meanwhile inherits that, however the tests themselves were started."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # a zombie that nobody collects, as in a container without init, is dead
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def heard(process: subprocess.Popen[str]) -> str:
    """The line with which the command says that it has heard the first signal."""
    assert process.stderr is not None
    return process.stderr.readline()


def resumed(journal: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loopfsm", "resume", "last", "--journal", str(journal)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_interrupt_lets_the_running_step_end_and_the_run_can_be_resumed(
    tmp_path: Path, journal: Path, number: signal.Signals
) -> None:
    """What runs is finished and recorded once, nothing more starts, and resume does the rest."""
    go, ready = tmp_path / "go", tmp_path / "ready"
    os.mkfifo(go)
    os.mkfifo(ready)
    second = (
        '[[steps]]\nid = "two"\ntool = "shell"\nneeds = ["one"]\n'
        f'args = {{ command = "echo two >> {tmp_path}/done" }}\n'
    )
    command = f"echo > {ready}; cat {go}; echo one >> {tmp_path}/done"
    with taking_hangups_as(signal.SIG_DFL):
        process = started(plan_of(tmp_path, command, second))
    with process:
        ready.read_text()  # waits until the step runs
        process.send_signal(number)
        first = heard(process)
        go.write_text("go")
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "1 step is finished first (one)" in first
    assert "interrupt once more" in first
    assert (tmp_path / "done").read_text() == "one\n"
    command = complaint.splitlines()[-1].partition("go on with: ")[2]
    run_id = command.removeprefix("loopfsm resume ")
    done = resumed(journal)
    assert f"run {run_id} goes on" in done.stdout
    assert (0, "one\ntwo\n") == (done.returncode, (tmp_path / "done").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_interrupt_stops_the_tools_and_ends_with_130(
    tmp_path: Path, journal: Path, number: signal.Signals
) -> None:
    """It ends what was running, children included; the step is interrupted when resumed."""
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    plan = plan_of(tmp_path, f"sleep 600 & echo $! > {fifo}; wait")
    with started(plan, "--json") as process:
        child = int(fifo.read_text())  # waits until the tool has written it
        process.send_signal(number)
        first = heard(process)
        process.send_signal(number)
        shown, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert first.startswith("interrupted")
    assert "Traceback" not in complaint
    assert not is_alive(child)
    last = json.loads(shown.splitlines()[-1])
    assert ("interrupted", True) == (last["type"], last["resumable"])
    assert f"loopfsm resume {last['run_id']}" == last["resume"]
    done = resumed(journal)
    assert done.returncode == 3
    assert "was interrupted" in done.stdout


@pytest.mark.parametrize("last", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_third_interrupt_kills_what_does_not_end(
    tmp_path: Path, first: signal.Signals, last: signal.Signals
) -> None:
    """Within the grace already, and children included: nothing is left running."""
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    stubborn = f"trap 'echo heard > {fifo}' TERM; {{ trap '' TERM; sleep 600; }} & echo $! > {fifo}"
    plan = plan_of(tmp_path, "placeholder")
    command = f"{stubborn}; while :; do wait; done"
    plan.write_text(plan.read_text().replace("'''placeholder'''", json.dumps(command)))
    with started(plan) as process:
        child = int(fifo.read_text())
        process.send_signal(first)
        assert heard(process).startswith("interrupted")
        process.send_signal(last)
        assert fifo.read_text() == "heard\n"  # the grace has begun
        process.send_signal(last)
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert complaint.startswith("interrupted")
    assert "Traceback" not in complaint
    assert not is_alive(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_third_signal_ends_the_wait_for_a_tool_that_never_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A function that ignores each cancellation cannot hold the command."""
    (tmp_path / "deaf_tools.py").write_text(DEAF, encoding="utf-8")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'goal = "g"\n[tools.deaf]\npython = "deaf_tools:deaf"\n[[steps]]\nid = "a"\n'
        f'tool = "deaf"\nargs = {{ fifo = "{fifo}" }}\n',
        encoding="utf-8",
    )
    with started(plan) as process:
        assert fifo.read_text() == "started"
        process.send_signal(number)
        assert heard(process).startswith("interrupted")
        process.send_signal(number)
        assert fifo.read_text() == "cancelled"
        process.send_signal(number)
        fifo.read_text()  # it is cancelled once more, and is left alone
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert complaint.startswith("interrupted")


def test_signals_get_through_to_a_tool_that_holds_the_event_loop_up(tmp_path: Path) -> None:
    """An async function that blocks: the loop hears nothing, and the command ends all the same."""
    (tmp_path / "blocking_tools.py").write_text(BLOCKING, encoding="utf-8")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'goal = "g"\n[tools.block]\npython = "blocking_tools:block"\n[[steps]]\nid = "a"\n'
        f'tool = "block"\nargs = {{ fifo = "{fifo}" }}\n',
        encoding="utf-8",
    )
    with started(plan) as process:
        assert fifo.read_text() == "started"
        until = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < until:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        _, complaint = process.communicate(timeout=30)
    assert process.returncode in (130, -signal.SIGTERM)  # the last one may come after the end
    assert "interrupted" in complaint or process.returncode < 0


def test_a_closed_terminal_does_not_end_what_nohup_has_started(tmp_path: Path) -> None:
    """SIGHUP stays ignored where whoever started the command ignores it."""
    go, ready = tmp_path / "go", tmp_path / "ready"
    os.mkfifo(go)
    os.mkfifo(ready)
    plan = plan_of(tmp_path, f"echo > {ready}; cat {go}")
    with taking_hangups_as(signal.SIG_IGN):
        process = started(plan)
    with process:
        ready.read_text()
        process.send_signal(signal.SIGHUP)
        go.write_text("go")
        _, complaint = process.communicate(timeout=30)
    assert (0, "") == (process.returncode, complaint)


def test_what_a_tool_prints_gives_no_orders_to_the_terminal(tmp_path: Path) -> None:
    """Control sequences in a failure are taken out of progress and summary."""
    (tmp_path / "said").write_bytes(b"\x1b[31mred\x1b]0;owned\x07\n")
    with started(plan_of(tmp_path, "cat said >&2; exit 3")) as process:
        shown, complaint = process.communicate(timeout=30)
    assert (3, "") == (process.returncode, complaint)
    assert "red" in shown
    assert "\x1b" not in shown
    assert "owned" not in shown


def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    """With nobody reading, the run goes on in silence to its end."""
    marker = tmp_path / "done"
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    plan = plan_of(
        tmp_path,
        f"cat {fifo}",
        f'[[steps]]\nid = "two"\ntool = "shell"\nneeds = ["one"]\n'
        f'args = {{ command = "touch {marker}" }}\n',
    )
    with started(plan) as process:
        assert process.stdout is not None
        process.stdout.close()
        fifo.write_text("go")  # waits until the first step reads it
        process.stdout = None
        _, complaint = process.communicate(timeout=30)
    assert (0, "") == (process.returncode, complaint)
    assert marker.exists()


def test_an_input_that_is_no_plan_is_no_traceback(tmp_path: Path) -> None:
    """Bytes from anywhere end in 2 and one clear line."""
    plan = tmp_path / "plan.toml"
    plan.write_bytes(bytes(range(256)))
    with started(plan) as process:
        shown, complaint = process.communicate(timeout=30)
    assert (2, "") == (process.returncode, shown)
    assert "Traceback" not in complaint
