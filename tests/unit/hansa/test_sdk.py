"""`import hansa` is instant, and its functions are typed and documented."""

import inspect
import subprocess
import sys

import hansa
from tests.support.sources import ROOT

FUNCTIONS = ("load_manifest", "pull", "read_status", "run")
LOADED = """
import sys
before = set(sys.modules)
import hansa
print(sorted(set(sys.modules) - before))
"""


def test_importing_hansa_imports_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert set(eval(done.stdout)) <= {"hansa", "hansa.version", "__future__"}  # noqa: S307  # our own line


def test_every_function_is_typed() -> None:
    assert sorted(hansa.__all__) == ["__version__", *FUNCTIONS]
    for name in FUNCTIONS:
        function = getattr(hansa, name)
        assert function.__doc__
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_no_module_hides_a_function() -> None:
    """A module of the same name would take the function's place once somebody imports it."""
    modules = {path.stem for path in (ROOT / "hansa").iterdir() if path.name[0] not in "._"}
    assert modules.isdisjoint(FUNCTIONS)
