"""`import hansa`: docs/python.md typed from top to bottom, and a notebook in a real kernel."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hansa
from hansa.core.errors import HansaError, InputError
from tests.support import own_environment, small
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/python.md").read_text()
NOTEBOOK = ROOT / "examples/09-notebook/federation.ipynb"
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
here = {"metadata": {"path": sys.argv[2]}}
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=here).execute()
nbformat.write(notebook, sys.argv[2] + "/done.ipynb")
"""


@pytest.mark.slow
def test_the_page_can_be_typed_and_ends_with_the_bytes_of_the_command(
    tmp_path: Path, in_one_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.write_manifest(tmp_path, rounds=1)
    monkeypatch.chdir(tmp_path)
    typed: dict[str, Any] = {}
    blocks = [b for b in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "two-worlds" not in b]
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), typed)  # noqa: S102  # the page itself
    assert typed["ended"].status.phase == "Succeeded"
    assert small.adapter(tmp_path / "runs/mine") == small.adapter(in_one_place / "run")
    best = hansa.read_status("runs/mine").status.best
    assert best and best.round in (0, 1)
    assert (typed["folder"] / "adapter_config.json").exists()
    again = hansa.run("federation.yaml", "runs/mine", quiet=True)
    assert again.status == typed["ended"].status


@pytest.mark.parametrize(
    "manifest, sentence",
    [
        pytest.param("no-such.yaml", "no-such.yaml", id="no file"),
        pytest.param({"kind": "Federation"}, "apiVersion", id="no version"),
        pytest.param({}, "apiVersion", id="nothing"),
    ],
)
def test_a_manifest_that_does_not_fit_is_a_sentence(manifest: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        hansa.load_manifest(manifest)


def test_a_mapping_is_checked_as_a_file_is(tmp_path: Path) -> None:
    file = small.write_manifest(tmp_path)
    document = json.loads(file.read_text())
    assert hansa.load_manifest(document) == hansa.load_manifest(file)
    document["spec"]["environments"][0]["world"] = "no-such-world"
    with pytest.raises(InputError, match=r"spec.environments\[0\].world: got 'no-such-world'"):
        hansa.load_manifest(document)


def test_a_folder_without_a_run_and_a_pull_without_a_place_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        hansa.read_status(tmp_path)
    with pytest.raises(InputError, match="to: got nothing"):
        hansa.pull("two-worlds")
    with pytest.raises(InputError, match="endpoint: got one"):
        hansa.pull(tmp_path, endpoint="http://127.0.0.1:1")


@pytest.mark.slow
def test_a_run_that_fails_raises_its_reason(tmp_path: Path) -> None:
    manifest = small.write_manifest(tmp_path, participation={"roundTimeoutSeconds": 1})
    with pytest.raises(HansaError, match="did not answer within 1 s") as failed:
        hansa.run(manifest, tmp_path / "run", quiet=True)
    assert failed.value.hint and "hansa retry" in failed.value.hint


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs_in_a_real_kernel(tmp_path: Path) -> None:
    python = own_environment.install("notebook") / "python"
    ours = [path for path in sys.path if path]  # the project, and all that it needs
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {
        **os.environ,
        "PATH": programs,
        "PYTHONPATH": os.pathsep.join(ours),
        "JUPYTER_RUNTIME_DIR": str(tmp_path),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    done = subprocess.run(
        [python, "-c", EXECUTE, NOTEBOOK, tmp_path],
        env=environ,
        capture_output=True,
        text=True,
        timeout=small.PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    run = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in run] == list(range(1, len(run) + 1))
    text = json.dumps([cell["outputs"] for cell in run])
    assert "'Succeeded'" in text and "(1, 1)" in text and "adapter_model.safetensors" in text
    assert all(not cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"])
