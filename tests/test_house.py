"""The laws of the house: what no single room can keep alone."""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import attrs
import pytest

import loopfsm
from loopfsm import errors

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "loopfsm"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

MODULE_LINES, FUNCTION_LINES, TEST_LINES = 400, 60, 600


def name_of(path: Path) -> str:
    """`loopfsm/model/step.py` -> `loopfsm.model.step`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Imports


HEAVY = ("networkx", "graphviz", "hypothesis", "rich", "click", "pygments")


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `statement`."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_importing_the_library_loads_nothing_heavy() -> None:
    """`import loopfsm` loads no graph, drawing, property-test or terminal library."""
    assert set() == loaded_by("import loopfsm") & set(HEAVY)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """Names resolved on first use do not hide misspelled ones."""
    with pytest.raises(AttributeError, match="no attribute 'Looop'"):
        loopfsm.Looop  # type: ignore[attr-defined]  # noqa: B018  # the access is the test


def test_every_module_stands_on_a_floor() -> None:
    """No module escapes the import contract by not being named in it."""
    contracts = {each["id"]: each for each in PROJECT["tool"]["importlinter"]["contracts"]}
    floors = {
        name.strip().strip("()")
        for layer in contracts["floors"]["layers"]
        for name in re.split(r"[|:]", layer)
    }
    parents = {floor.rpartition(".")[0] for floor in floors}
    homeless = [
        name
        for name in map(name_of, SOURCES)
        if name not in parents and not any(f"{name}.".startswith(f"{floor}.") for floor in floors)
    ]
    assert [] == homeless


def test_a_package_between_the_floors_holds_nothing() -> None:
    """A package whose modules stand on several floors has an empty `__init__`, except the root."""
    assert "" == (PACKAGE / "recovery" / "__init__.py").read_text(encoding="utf-8").strip()


# The public face


def test_public_names_are_sorted_and_unique() -> None:
    """`__all__` is sorted: a new name has one place."""
    assert sorted(set(loopfsm.__all__)) == list(loopfsm.__all__)


@pytest.mark.parametrize("name", loopfsm.__all__)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    """Each name in `__all__` can be had, shows up in `dir()`, and has words of its own."""
    value = getattr(loopfsm, name)
    assert name in dir(loopfsm)
    if not name.startswith("__"):
        assert vars(value).get("__doc__") or inspect.getdoc(value)


def test_every_public_function_and_class_is_documented() -> None:
    """A public class or function of any module says in one line what it is."""
    bare = [
        f"{where(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and "overload" not in map(ast.unparse, node.decorator_list)
        and ast.get_docstring(node) is None
    ]
    assert [] == bare


def test_every_module_says_what_it_is() -> None:
    """A module that holds anything opens with a docstring."""
    bare = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if tree.body and ast.get_docstring(tree) is None:
            bare.append(where(path))
    assert [] == bare


# Sizes and names


def too_long(paths: list[Path], limit: int) -> list[str]:
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        excuse = ast.get_docstring(ast.parse(text)) or ""
        if lines > limit and f"{limit} lines" not in excuse:
            found.append(f"{where(path)}: {lines} lines")
    return found


def test_no_module_grows_too_large() -> None:
    """A module above 400 lines says why in its docstring, naming the limit ("400 lines")."""
    assert [] == too_long(SOURCES, MODULE_LINES)


def test_no_test_file_grows_too_large() -> None:
    """A test file above 600 lines says why in its docstring, naming the limit ("600 lines")."""
    assert [] == too_long(TESTS, TEST_LINES)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_function_grows_too_long() -> None:
    """No function has more than 60 lines."""
    long = []
    for path in SOURCES:
        for node in functions(path):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                long.append(f"{where(path)}:{node.lineno} {node.name}: {lines} lines")
    assert [] == long


def test_every_module_has_a_name_that_says_something() -> None:
    """No module is called after what it is not about."""
    nothing_said = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
    assert [] == [where(path) for path in SOURCES if nothing_said & set(path.stem.split("_"))]


# Exceptions


class Branch(NamedTuple):
    """One line of the tree drawn in the docstring of `errors`."""

    name: str
    parents: tuple[str, ...]


def drawn_tree() -> list[Branch]:
    """The exceptions as drawn: each with the one it hangs from and the builtin it also is."""
    line = re.compile(r"^(?P<rail>(?:    |\|   )*(?:[|`]-- )?)(?P<name>[A-Z]\w+)(?: \((\w+)\))?")
    doc = inspect.getdoc(errors) or ""
    drawing = next(
        block for block in inspect.cleandoc(doc).split("\n\n") if "LoopfsmError" in block
    )
    path: list[str] = []
    tree = []
    for text in inspect.cleandoc(f"\n{drawing}").splitlines():
        found = line.match(text)
        assert found, f"not a line of the tree: {text!r}"
        depth = len(found["rail"]) // 4
        builtin = (found[3],) if found[3] else ()
        above = tuple(path[depth - 1 : depth]) or ("Exception",)
        tree.append(Branch(found["name"], (*above, *builtin)))
        path[depth:] = [found["name"]]
    return tree


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(loopfsm.__path__, "loopfsm."):
        if found.name != "loopfsm.__main__":
            yield importlib.import_module(found.name)


def public_exceptions() -> dict[str, type[BaseException]]:
    """Every public exception that the package defines, wherever it does."""
    return {
        name: value
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__.startswith("loopfsm")
        and not name.startswith("_")
    }


BESIDE_THE_TREE = {"ToolFailed"}
"""Raised by the host's tools, so no error of the library."""


def test_every_exception_is_in_the_tree_that_is_drawn() -> None:
    """The drawing in `errors` and the classes are equal, bases included."""
    defined = {
        Branch(name, tuple(base.__name__ for base in value.__bases__))
        for name, value in public_exceptions().items()
    }
    drawn = {*drawn_tree(), *(Branch(name, ("Exception",)) for name in BESIDE_THE_TREE)}
    assert drawn == defined


def test_every_exception_is_defined_on_the_bottom_floor() -> None:
    """Whoever catches our errors imports one module."""
    elsewhere = {
        name: value.__module__
        for name, value in public_exceptions().items()
        if value.__module__ != "loopfsm.errors"
    }
    assert {} == elsewhere


def test_every_exception_is_public() -> None:
    """What can be raised can be caught by its public name."""
    assert set() == set(public_exceptions()) - set(loopfsm.__all__)


EXAMPLES: dict[str, Any] = {
    "float": 1.5,
    "str": "text",
    "bool": False,
    "int": 7,
    "tuple[str, ...]": ("one", "two"),
    "tuple[Problem, ...]": (errors.Problem("steps[0].tool", "unknown tool 'shel'"),),
    "tuple[Attempted, ...]": (errors.Attempted("STEP-04", "budget_left", "no budget is spent"),),
    "Mapping[str, Any]": {"exit_code": 1},
}


def facts_of(kind: Any) -> tuple[str, ...]:
    """The names of the facts that errors of this class carry."""
    return tuple(each.name for each in attrs.fields(kind)) if attrs.has(kind) else ()


def example_of(kind: Any) -> BaseException:
    if not facts_of(kind):
        made = kind("something to say")
    else:
        made = kind(*(EXAMPLES[str(each.type)] for each in attrs.fields(kind)))
    assert isinstance(made, BaseException)
    return made


@pytest.mark.parametrize("name", sorted({branch.name for branch in drawn_tree()} | BESIDE_THE_TREE))
@pytest.mark.parametrize("way", ["pickle", "copy", "deepcopy"])
def test_every_exception_survives_a_round_trip(name: str, way: str) -> None:
    """An error that crosses a process keeps its class, its facts and its words."""
    ways = {
        "pickle": lambda value: pickle.loads(pickle.dumps(value)),
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
    }
    before = example_of(getattr(errors, name))
    after = ways[way](before)
    assert type(before) is type(after)
    assert str(before) == str(after)
    assert before.args == after.args
    for fact in facts_of(type(before)):
        assert getattr(before, fact) == getattr(after, fact)


@pytest.mark.parametrize("name", sorted({branch.name for branch in drawn_tree()} | BESIDE_THE_TREE))
def test_every_exception_can_be_raised_from_another_and_take_a_note(name: str) -> None:
    """Frozen facts do not get in the way of what Python writes on an exception."""
    kind = getattr(errors, name)
    error, cause = example_of(kind), KeyError("the cause")
    error.add_note("seen in step 'report'")
    with pytest.raises(kind) as caught:
        raise error from cause
    assert cause is caught.value.__cause__
    assert ["seen in step 'report'"] == caught.value.__notes__


def test_the_branches_are_builtins_that_callers_already_catch() -> None:
    """The builtin that the drawing names is one of Python's."""
    named = {parent for branch in drawn_tree() for parent in branch.parents[1:]}
    expected = {"AssertionError", "LookupError", "RuntimeError", "TypeError", "ValueError"}
    assert expected == named
    assert all(hasattr(builtins, name) for name in named)


# The project around the package


def test_every_runtime_dependency_has_its_reason() -> None:
    """docs/adr/0001 holds exactly one line for each runtime dependency."""
    text = (ROOT / "docs/adr/0001-runtime-dependencies.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| (\w+) \| [^|]+ \| .{20,} \|$", text, flags=re.MULTILINE)
    declared = [re.split(r"[<>=\[]", each)[0] for each in PROJECT["project"]["dependencies"]]
    assert sorted(declared) == explained


def test_every_owned_package_is_a_dependency() -> None:
    """The contracts that give each third-party package an owner name the declared ones."""
    owned = {
        each["forbidden_modules"][0]
        for each in PROJECT["tool"]["importlinter"]["contracts"]
        if each["id"].startswith("owner-")
    }
    declared = {re.split(r"[<>=\[]", each)[0] for each in PROJECT["project"]["dependencies"]}
    assert declared - {"attrs"} == owned


def test_every_ignored_warning_has_its_reason_on_the_line() -> None:
    """`# type: ignore`, `# noqa` and `# pragma` are followed by a second comment that says why."""
    ignore = re.compile(r"#\s*(type: ignore|noqa|pragma)(?P<rest>.*)$")
    silent = []
    for path in (*SOURCES, *TESTS):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = ignore.search(line)
            if found and path != Path(__file__) and "#" not in found["rest"]:
                silent.append(f"{where(path)}:{number} {line.strip()}")
    assert [] == silent
