"""Every key a plan file can have: its type, its default, and where it goes.

A key that is not in `KEYS` is refused, never ignored. `NOT_YET` names the keys of the
plan-file reference whose feature is not there yet; they are refused as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen

from loopfsm.model.failure import LAST_RUNGS, RecoveryStrategy
from loopfsm.model.plan import UNCLASSIFIED, WhenExhausted
from loopfsm.model.situation import SituationKind
from loopfsm.planfile.checks import (
    Check,
    arguments,
    at_least_a_second,
    command_line,
    duration,
    filled_text,
    flag,
    list_of,
    matching,
    number,
    one_of,
    table,
    table_of,
    text,
    text_or_reference,
    whole,
)

REQUIRED = "required"
"""The default of a key that has none."""


@frozen
class Key:
    """One key: its name, its type, what holds when it is absent, and where it goes."""

    name: str
    check: Check
    default: object
    goes: str


FUNCTION = matching(r"[\w.]+:[\w.]+", 'a text of the form "module:function"')
STEP_ID = matching(r"[A-Za-z0-9_-]+", "a text of letters, digits, - and _")
ARGV = list_of(text_or_reference, "texts or references", at_least_one=True)
MORE_ARGV = list_of(text_or_reference, "texts or references")
ENV = table_of(text_or_reference, "texts or references")
TEXTS = list_of(text, "texts")
TABLES = list_of(table, "tables")
TOOLS = table_of(table, "tables")

_PROGRAM_ARGS = (
    Key("env", ENV, None, "ShellTool.env"),
    Key("cwd", text_or_reference, None, "ShellTool.cwd"),
    Key("stdin", text_or_reference, None, "ShellTool.stdin"),
)

KEYS: Mapping[str, tuple[Key, ...]] = MappingProxyType(
    {
        "": (
            Key("goal", filled_text, REQUIRED, "Plan.goal"),
            Key("journal", filled_text, None, "PlanFile.journal"),
            Key("workspace", filled_text, ".", "PlanFile.workspace"),
            Key("policy", table, None, "Plan.policy"),
            Key("tools", TOOLS, None, "PlanFile.tools"),
            Key("steps", TABLES, REQUIRED, "Plan.steps"),
        ),
        "policy": (
            Key("max_parallel", whole(1), 8, "Policy.max_parallel"),
            Key("max_retries", whole(0), None, "Policy.max_retries"),
            Key("backoff_base_s", number, 1, "Policy.backoff_base_s"),
            Key("backoff_cap_s", number, 60, "Policy.backoff_cap_s"),
            Key("recoveries", whole(0), 6, "Policy.recoveries"),
            Key(
                "when_exhausted",
                one_of(*(word.value for word in WhenExhausted)),
                WhenExhausted.ASK.value,
                "Policy.when_exhausted",
            ),
            Key("may_abstain", flag, True, "Policy.may_abstain"),
            Key("question_deadline_s", number, None, "Policy.question_deadline_s"),
            Key("output_cap_bytes", whole(1), 65536, "Policy.output_cap_bytes"),
            Key("lease_s", at_least_a_second, 30, "Policy.lease_s"),
            Key("ladder", table, None, "Policy.ladder"),
            Key("budget", table, None, "Policy.budget"),
        ),
        "policy.budget": (
            Key("steps", whole(0), None, "Budget.steps"),
            Key("tool_calls", whole(0), None, "Budget.tool_calls"),
            Key("seconds", number, None, "Budget.seconds"),
            Key("tokens", whole(0), None, "Budget.tokens"),
            Key("cost", number, None, "Budget.cost"),
        ),
        "tools.NAME": (
            Key("command", command_line, None, "ShellTool.command"),
            Key("argv", ARGV, None, "ShellTool.argv"),
            Key("python", FUNCTION, None, "PythonTool.function"),
            Key("env", ENV, None, "ShellTool.env"),
            Key("cwd", filled_text, None, "ShellTool.cwd"),
            Key("stdin", text_or_reference, None, "ShellTool.stdin"),
            Key("timeout_s", duration, 300, "Tool.timeout_s"),
            Key("idempotent", flag, False, "Tool.idempotent"),
            Key("read_only", flag, False, "Tool.read_only"),
            Key("interactive", flag, False, "Tool.interactive"),
            Key("situations", TABLES, None, "Tool.situations"),
        ),
        "tools.NAME.situations": (
            Key("when", table, REQUIRED, "Declared.when"),
            Key("kind", one_of(*(kind.value for kind in SituationKind)), REQUIRED, "Declared.kind"),
            Key("subject", filled_text, REQUIRED, "Declared.subject"),
            Key("unblock", filled_text, None, "Declared.unblock"),
            Key("interactive", flag, False, "Declared.interactive"),
            Key("probe", table, None, "Declared.probe"),
            Key("detail", text, "", "Declared.detail"),
        ),
        "tools.NAME.situations.when": (
            Key("exit", whole(1, 255), None, "When.exit"),
            Key("stderr", filled_text, None, "When.stderr"),
            Key("http", whole(300, 599), None, "When.http"),
        ),
        "tools.NAME.situations.probe": (
            Key("tool", filled_text, REQUIRED, "Probe.tool"),
            Key("args", arguments, None, "Probe.args"),
        ),
        "steps": (
            Key("id", STEP_ID, REQUIRED, "StepSpec.id"),
            Key("description", text, "", "StepSpec.description"),
            Key("tool", filled_text, REQUIRED, "StepSpec.tool"),
            Key("args", arguments, None, "StepSpec.args"),
            Key("needs", TEXTS, None, "StepSpec.needs"),
            Key("verify", table, None, "StepSpec.verify"),
            Key("optional", flag, False, "StepSpec.optional"),
            Key("critical", flag, False, "StepSpec.critical"),
            Key("idempotent", flag, None, "StepSpec.idempotent"),
            Key("timeout_s", duration, None, "StepSpec.timeout_s"),
            Key("max_retries", whole(0), None, "StepSpec.max_retries"),
        ),
        "verify": (
            Key("tool", filled_text, REQUIRED, "Call.tool"),
            Key("args", arguments, None, "Call.args"),
        ),
        "args of shell": (
            Key("argv", ARGV, None, "ShellTool.argv"),
            Key("command", command_line, None, "ShellTool.command"),
            *_PROGRAM_ARGS,
        ),
        "args of python": (
            Key("script", filled_text, REQUIRED, "PythonProgram.script"),
            Key("argv", MORE_ARGV, None, "PythonProgram.argv"),
            *_PROGRAM_ARGS,
        ),
        "args of a declared program": _PROGRAM_ARGS,
    }
)

NOT_YET: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "": ("planner",),
        "policy": (
            "replans_per_step",
            "rollbacks_per_step",
            "plan_revisions",
            "unattended",
            "max_workarounds_after_blocker",
            "max_workarounds_after_inferred_blocker",
        ),
        "tools.NAME": ("http", "subject", "max_parallel"),
        "steps": ("expect", "artifacts", "alternatives", "models", "revisions"),
    }
)

TOOLS_NOT_YET = ("http", "files")
"""Tools that will be built in; no plan may take their names."""

FAILURE_CLASSES = (UNCLASSIFIED,)
"""The classes of failure that a ladder can list strategies for."""

STRATEGIES: tuple[str, ...] = (
    RecoveryStrategy.RETRY.value,
    RecoveryStrategy.RETRY_WITH_BACKOFF.value,
)
"""The strategies that a ladder can list."""

STRATEGIES_NOT_YET: tuple[str, ...] = tuple(
    each.value for each in RecoveryStrategy if each not in (*STRATEGIES, *LAST_RUNGS)
)

COMMAND_KEYS = ("command", "argv", "env", "cwd", "stdin")
"""The keys of a tool that runs a program; they say nothing to a Python function."""
