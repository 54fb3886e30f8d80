"""`import hansa` is instant, and its functions are typed and documented."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hansa
from hansa.core.errors import InputError
from hansa.local.rundir import RunDir
from tests.support.builders import make_federation
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


@pytest.mark.parametrize("read", [hansa.read_status, lambda *a, **b: hansa.pull(*a, "to", **b)])
def test_a_chosen_cluster_is_meant_even_where_a_run_has_the_name(
    read: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fed").mkdir()
    RunDir(Path("fed")).save(make_federation("maze"))
    assert hansa.read_status("fed").spec.environments[0].name == "maze"
    with pytest.raises(InputError, match="nowhere"):
        read("fed", kubeconfig="nowhere")
    with pytest.raises(InputError, match="runs/fed, which holds no run"):  # no name of a federation
        read("runs/fed", kubeconfig="nowhere")
