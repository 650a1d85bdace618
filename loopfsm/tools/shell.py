"""Programs as tools: a command line or an argv, in a process group of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from attrs import field, frozen

from loopfsm.errors import ToolError, ToolFailed
from loopfsm.model.situation import SituationKind
from loopfsm.model.step import FromEnvironment
from loopfsm.ports import Clock, ToolContext
from loopfsm.situations.declared import Declared
from loopfsm.tools.declaring import as_given, declarations, not_started
from loopfsm.tools.leftovers import marks, noted
from loopfsm.tools.process import Group, Output, within

KEYS = ("argv", "command", "cwd", "env", "stdin")
"""The args of a step that a shell tool understands."""

NO_PROGRAM: Mapping[int, SituationKind] = {
    errno.ENOENT: SituationKind.NOT_INSTALLED,  # named by a path: NOT_FOUND, see `_missing`
    errno.ENOTDIR: SituationKind.NOT_FOUND,
    errno.EACCES: SituationKind.PERMISSION,
    errno.EPERM: SituationKind.PERMISSION,
    errno.ETXTBSY: SituationKind.LOCKED,  # somebody is still writing it
    errno.E2BIG: SituationKind.BAD_ARGS,
    errno.ENAMETOOLONG: SituationKind.BAD_ARGS,
}
"""What it means when the program cannot be started; nothing more is known of any other reason."""

NO_DIRECTORY: Mapping[int, SituationKind] = {
    errno.ENOENT: SituationKind.WRONG_CWD,
    errno.ENOTDIR: SituationKind.WRONG_CWD,
    errno.EACCES: SituationKind.PERMISSION,
}
"""What it means when the working directory cannot be entered."""

UNBLOCK: Mapping[SituationKind, str] = {
    SituationKind.NOT_INSTALLED: "install {}, or put its directory on PATH",
    SituationKind.PERMISSION: "let this user execute {}",
    SituationKind.LOCKED: "wait until {} has been written",
}
"""What a person can do about a program that cannot be started."""


def _not_started(message: str) -> ToolFailed:
    return ToolFailed(message, executed=False)


def _text(value: object, place: str) -> str:
    """Argument and environment values are text; a number from another step's output counts."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise _not_started(f"{place} is {value!r}, expected text or a number")


def _told(text: str) -> str:
    """How a text is shown: one from the environment by its name."""
    return text.shown if isinstance(text, FromEnvironment) else text


@frozen(kw_only=True)
class _Program:
    """What is to be started, all references resolved."""

    command: str | tuple[str, ...]
    cwd: str
    told_cwd: str
    env: Mapping[str, str]
    stdin: str | None

    @property
    def told(self) -> str | list[str]:
        """What results say was run: values of the environment by their names."""
        if isinstance(self.command, str):
            return _told(self.command)
        return [_told(part) for part in self.command]

    @property
    def argv(self) -> tuple[str, ...]:
        if isinstance(self.command, str):
            return ("/bin/sh", "-c", self.command)
        return self.command

    @property
    def shown(self) -> str:
        """How messages call it."""
        line = _told(self.command if isinstance(self.command, str) else self.command[0])
        return line if len(line) <= 60 else f"{line[:57]}..."


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(path).absolute()


def _absolute_or_none(path: str | os.PathLike[str] | None) -> Path | None:
    return None if path is None else _absolute(path)


def _settled(argv: Sequence[str] | None) -> Sequence[str] | None:
    return tuple(argv) if isinstance(argv, list) else argv


@frozen(kw_only=True)
class ShellTool:
    """Run a program and return what it printed. Linux and macOS.

    The program comes from the tool's declaration or from the step's args, as `argv` (a
    sequence of text) or as `command` (a line for `/bin/sh -c`). Args of the step: `argv` or
    `command` when the tool declares neither, `cwd`, `env` (added to the tool's), `stdin`.

    The environment of the program is exactly this process's own with `env` on top, or `env`
    alone with `inherit_env=False`; in either case it has LOOPFSM_RUN, LOOPFSM_STEP,
    LOOPFSM_ATTEMPT and LOOPFSM_IDEMPOTENCY_KEY too. A program that has outlived its driver is
    ended when the run is taken up. Standard input is closed unless `stdin` is given. What it
    left running in its process group when it ended gets `grace_s` to finish its output, then
    is ended like the group of a cancelled call.

    The result: status ("success" or "error"), command, stdout, stderr, return_code,
    duration_seconds, cwd, output_truncated, and stdout_file or stderr_file (all of that
    output) where the text was cut at the context's cap. An exit code other than 0 raises
    `ToolFailed` with this result as evidence; a program that could not be started raises
    `ToolFailed(executed=False)`, with the situation in its evidence where the system says which.
    """

    name: str = "shell"
    argv: Sequence[str] | None = field(default=None, converter=_settled)
    command: str | None = None
    env: Mapping[str, str] = field(factory=dict)
    inherit_env: bool = True
    workspace: Path = field(default=Path(), converter=_absolute)
    """The plan's directory; a relative `cwd` starts here."""
    cwd: str | os.PathLike[str] = "."
    stdin: str | None = None
    timeout_s: float | None = 300.0
    idempotent: bool = False
    read_only: bool = False
    situations: tuple[Declared, ...] = field(default=(), converter=as_given, hash=False)
    """What its failing results mean; tables of the keys of `Declared` are taken, too."""
    interactive: bool = False
    """It needs a person beside it."""
    grace_s: float = 0.5
    """Seconds between SIGTERM and SIGKILL."""
    output_dir: Path | None = field(default=None, converter=_absolute_or_none)
    """Where long outputs are kept; None: with the run, else in a fresh temporary directory."""
    clock: Clock | None = field(default=None, eq=False, repr=False)
    """For `duration_seconds`; None: the event loop's own time."""

    def __attrs_post_init__(self) -> None:
        if sys.platform == "win32":
            raise ToolError(self.name, "programs as tools are not supported on Windows yet")
        if self.argv is not None and self.command is not None:
            raise ToolError(self.name, "it declares argv and command; give one of them")
        object.__setattr__(self, "situations", declarations(self.name, self.situations))
        try:
            if self.argv is not None or self.command is not None:
                self._program({})
        except ToolFailed as failed:
            raise ToolError(self.name, failed.message) from failed

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run the program to its end; cancelled, end its whole group first."""
        try:
            program = self._program(args)
        except ToolFailed as failed:
            raise not_started(failed.message, SituationKind.BAD_ARGS, self.name) from failed
        now = asyncio.get_running_loop().time if self.clock is None else self.clock.now
        started = now()
        process = _start(program, marks(context))
        assert process.stdout is not None  # both were asked for
        assert process.stderr is not None
        group = Group(process)
        new_file = self._namer(context)
        cap = context.output_cap_bytes
        out = Output(process.stdout, cap, lambda: new_file("stdout"))
        err = Output(process.stderr, cap, lambda: new_file("stderr"))
        with noted(context.output_dir, process.pid):
            try:
                await group.exited.wait()
                if group.send(0):  # somebody is left: in a pipeline, perhaps with more to say
                    await within(self.grace_s, asyncio.gather(out.ended.wait(), err.ended.wait()))
                await group.end(self.grace_s)
            except asyncio.CancelledError:
                await group.end(self.grace_s)
                raise
            except GeneratorExit:  # the loop is gone: nothing can be awaited any more
                group.send(signal.SIGKILL)
                raise
            finally:
                out.drain()
                err.drain()
        result = _result(program, process.returncode, out, err, now() - started)
        if process.returncode != 0:
            raise ToolFailed(_message(program, process.returncode, err), evidence=result)
        return result

    def _program(self, args: Mapping[str, Any]) -> _Program:
        """The declaration and the args as one; `ToolFailed(executed=False)` when they clash."""
        unknown = [key for key in args if key not in KEYS]
        if unknown:
            takes = ", ".join(KEYS)
            raise _not_started(
                f"unknown argument {unknown[0]!r} of {self.name!r}; it takes {takes}"
            )
        env = args.get("env") or {}
        if not isinstance(env, Mapping):
            raise _not_started(f"env is {env!r}, expected a table of names and values")
        own = {str(k): _text(v, f"env.{k}") for k, v in {**self.env, **env}.items()}
        stdin = args.get("stdin", self.stdin)
        cwd = _text(args.get("cwd", self.cwd), "cwd")
        return _Program(
            command=self._command(args),
            cwd=str(self.workspace / cwd),
            told_cwd=_told(cwd) if isinstance(cwd, FromEnvironment) else str(self.workspace / cwd),
            env={**os.environ, **own} if self.inherit_env else own,
            stdin=None if stdin is None else _text(stdin, "stdin"),
        )

    def _command(self, args: Mapping[str, Any]) -> str | tuple[str, ...]:
        given = [
            (owner, key, value)
            for owner, key, value in (
                ("the tool", "argv", self.argv),
                ("the tool", "command", self.command),
                ("the step", "argv", args.get("argv")),
                ("the step", "command", args.get("command")),
            )
            if value is not None
        ]
        if not given:
            raise _not_started(f"{self.name!r} has nothing to run: give argv or command")
        if len(given) > 1:
            both = " and ".join(f"{owner} gives {key}" for owner, key, _ in given)
            raise _not_started(f"{self.name!r} has more than one program: {both}")
        _, key, value = given[0]
        if key == "command":
            if not isinstance(value, str) or not value.strip():
                raise _not_started(f"command is {value!r}, expected a command line")
            return value
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not value:
            raise _not_started(f"argv is {value!r}, expected a list: the program, its arguments")
        return tuple(_text(item, f"argv[{index}]") for index, item in enumerate(value))

    def _namer(self, context: ToolContext) -> Callable[[str], IO[bytes]]:
        """Names the files of one call: in one directory, readable by the owner alone."""
        directory = self.output_dir or context.output_dir
        step = re.sub(r"[^\w.-]", "_", context.step_id)[:60]

        def new_file(stream: str) -> IO[bytes]:
            nonlocal directory
            if directory is None:
                directory = Path(tempfile.mkdtemp(prefix="loopfsm-"))
            directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
            return tempfile.NamedTemporaryFile(
                prefix=f"{step}-{context.attempt}-",
                suffix=f".{stream}",
                dir=directory,
                delete=False,
            )

        return new_file


def _start(program: _Program, marked: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the program in a session of its own."""
    try:
        with tempfile.TemporaryFile() as text:
            # A file, not a pipe: nobody has to feed it, and none can wait for the other.
            text.write((program.stdin or "").encode())
            text.seek(0)
            return subprocess.Popen(
                program.argv,
                stdin=subprocess.DEVNULL if program.stdin is None else text,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=program.cwd,
                env={**program.env, **marked},
                start_new_session=True,
            )
    except OSError as error:
        raise _why_not(program, error) from error
    except ValueError as error:  # a NUL byte, or a "=" in the name of a variable
        message = f"{program.shown!r} could not be started: {error}"
        raise not_started(message, SituationKind.BAD_ARGS, program.shown) from error


def _why_not(program: _Program, error: OSError) -> ToolFailed:
    reason, number = error.strerror or str(error), error.errno or 0
    if error.filename == program.cwd:
        where = f"working directory {program.told_cwd!r}"
        message = f"{program.shown!r} was not started: {where}: {reason}"
        return not_started(message, NO_DIRECTORY.get(number), program.told_cwd)
    kind = NO_PROGRAM.get(number)
    if number == errno.ENOENT:
        reason = "no such program (or the interpreter in its first line is missing)"
        kind = _missing(program)
    message = f"{program.shown!r} could not be started: {reason}"
    unblock = UNBLOCK[kind].format(program.shown) if kind and kind in UNBLOCK else None
    return not_started(message, kind, program.shown, unblock=unblock)


def _missing(program: _Program) -> SituationKind | None:
    """A name that is on no PATH is not installed; a path that leads nowhere is a wrong path."""
    named = program.argv[0]
    if "/" not in named:
        return NO_PROGRAM[errno.ENOENT]
    # what is there misses its interpreter: which one, is not known
    return None if os.path.exists(os.path.join(program.cwd, named)) else SituationKind.NOT_FOUND


def _result(
    program: _Program, return_code: int, out: Output, err: Output, seconds: float
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "status": "success" if return_code == 0 else "error",
        "command": program.told,
        "stdout": out.text,
        "stderr": err.text,
        "return_code": return_code,
        "duration_seconds": seconds,
        "cwd": program.told_cwd,
        "output_truncated": False,
    }
    for stream, output in (("stdout", out), ("stderr", err)):
        if output.path is not None:
            result |= {"output_truncated": True, f"{stream}_file": str(output.path)}
        if output.file_problem:
            result |= {"output_truncated": True, f"{stream}_file_problem": output.file_problem}
    return result


def _message(program: _Program, return_code: int, err: Output) -> str:
    if return_code < 0:
        try:
            ended = f"was killed by {signal.Signals(-return_code).name}"
        except ValueError:  # a real-time signal has no name
            ended = f"was killed by signal {-return_code}"
    else:
        ended = f"ended with exit code {return_code}"
    message = f"{program.shown!r} {ended}"
    return f"{message}: {err.last_line}" if err.last_line else message
