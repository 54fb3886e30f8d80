"""Strings that are spelled in one module only, and modules without clock, randomness and I/O."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support import sources
from tests.support.sources import ROOT

KEYS = re.compile(r"(^|/)(updates|evaluations|experience|global|orders|answers)/|jsonl\.zst")
OBJECTS = re.compile(r"\.(safetensors|json|jsonl|zst)$")
"""How names of objects in the bucket end."""
ON_DISK = {
    "hansa/compare/drive.py",
    "hansa/compare/results.py",
    "server_image/hansa_server/stream.py",
}
"""Modules that put such a name together for a file on this machine."""
LABELS = re.compile(r"hansa\.dev/")
PURE = [
    "hansa/plan/federation.py",
    "hansa/plan/attempts.py",
    "hansa/plan/rollback.py",
    "hansa/plan/builder.py",
    "hansa/plan/summary.py",
    "hansa/plan/remote_silos.py",
    "hansa/plan/member_conditions.py",
    "hansa/plan/member_plan.py",
    "hansa/members/limits.py",
    "hansa/plan/member_windows.py",
    *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "hansa/plan/policy").glob("*.py")),
]
IMPURE_MODULES = {
    *("time", "random", "uuid", "secrets"),
    *("os", "io", "pathlib", "shutil", "tempfile", "socket", "http", "urllib"),
    *("threading", "asyncio", "concurrent", "multiprocessing", "subprocess", "logging"),
}
IMPURE_CALLS = {"now", "utcnow", "today", "monotonic", "perf_counter", "open", "print", "input"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sources.FILES:
        yield str(file.relative_to(ROOT)), sources.tree(file)


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string of the code; docstrings and other bare strings are prose."""
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "pattern, homes",
    [
        pytest.param(KEYS, {"hansa/api/bucket_keys.py"}, id="bucket keys"),
        pytest.param(
            LABELS,
            {"hansa/api/constants.py", "hansa/api/status.py", "hansa/api/member_spec.py"},
            id="API group",
        ),
    ],
)
def test_a_shared_name_is_spelled_once(pattern: re.Pattern[str], homes: set[str]) -> None:
    wrong = [
        f"{name}:{line} spells {text!r}"
        for name, tree in modules()
        if name not in homes
        for line, text in literals(tree)
        if pattern.search(text) and " " not in text  # a sentence may name a folder
    ]
    assert wrong == []


def test_which_states_are_over_is_said_once() -> None:
    """Groups of environment states, `CONCLUDED` for one, have one home, hansa/api/constants.py."""
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        if name != "hansa/api/constants.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Set | ast.Tuple | ast.List)
        and {"Updated", "Empty"} <= (texts := {getattr(e, "value", None) for e in node.elts})
        and len(texts) < 4  # an order of all of them is no group
    ]
    assert wrong == []


def names_put_together(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts with values in them, or added to a value, that end as the name of an object does."""
    for node in ast.walk(tree):
        last: ast.expr | None = None
        if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
            last = node.values[-1]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            last = node.right
        if (
            isinstance(last, ast.Constant)
            and isinstance(last.value, str)
            and OBJECTS.search(last.value)
            and " " not in ast.unparse(node).replace(" + ", "")
        ):
            yield node.lineno, ast.unparse(node)


def test_only_one_module_puts_the_name_of_an_object_together() -> None:
    wrong = [
        f"{name}:{line} spells {text}"
        for name, tree in modules()
        if name != "hansa/api/bucket_keys.py" and name not in ON_DISK
        for line, text in names_put_together(tree)
    ]
    assert wrong == []


def test_an_error_of_pydantic_becomes_a_sentence_in_one_place() -> None:
    """`hansa.validation.messages.first_misfit`; manifests/load.py gives all errors."""
    wrong = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        if name not in {"hansa/validation/messages.py", "hansa/validation/fit.py"}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "errors"
        and any(keyword.arg == "include_url" for keyword in node.keywords)
    ]
    assert wrong == []


def test_a_key_that_is_put_together_elsewhere_is_noticed() -> None:
    code = 'key = f"{_folder(its)}finetuned-{number:05d}.safetensors"\nother = folder + "a.json"'
    assert len(list(names_put_together(ast.parse(code)))) == 2


@pytest.mark.parametrize("name", PURE)
def test_decisions_have_no_clock_no_randomness_and_no_io(name: str) -> None:
    tree = sources.tree(ROOT / name)
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    called = {
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert imported & IMPURE_MODULES == set()
    assert called & IMPURE_CALLS == set()
