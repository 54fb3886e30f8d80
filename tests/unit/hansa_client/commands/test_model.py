"""`hansa model`: the digests that a client would find, in a form to paste into the manifest."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa_client.models import base_model
from tests.support.commands import hansa
from tests.unit.hansa_client import tinymodel

PAGE = Path(__file__).parents[4] / "docs" / "cli.md"
SILOS = [
    {"name": name, "world": name, "credentialsSecret": {"name": f"hansa-{name}"}}
    for name in ("maze", "wordle")
]


def write(folder: Path, **fields: Any) -> Path:
    """A federation of two parties."""
    file = folder / "federation.yaml"
    document = {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "two-worlds"},
        "spec": {"storage": {"s3": {"bucket": "hansa"}}, "environments": SILOS, **fields},
    }
    file.write_text(yaml.safe_dump(document))
    return file


def printed(capsys: pytest.CaptureFixture[str], file: Path) -> dict[str, Any]:
    assert hansa("model", "-f", file, "-o", "json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_it_prints_what_a_client_compares_the_manifest_with(
    start: Tensors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("model", "-f", write(tmp_path)) == 0
    files = base_model.compute_digest(base_model.resolve("builtin:tiny"))
    shapes = lora.shapes_digest(lora.shapes(start))
    assert capsys.readouterr().out == f"model.sha256:   {files}\nadapter.shapes: {shapes}\n"


@pytest.mark.slow
def test_a_folder_of_ones_own_and_other_layers_have_other_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = printed(capsys, write(tmp_path))
    source = f"path:{tinymodel.make(tmp_path / 'model')}"
    own = printed(capsys, write(tmp_path, model={"source": source}))
    assert own["model"]["source"] == source
    assert own["model"]["sha256"] == base_model.compute_digest(tmp_path / "model")
    assert own["adapter"]["shapes"] != tiny["adapter"]["shapes"]
    fewer = printed(capsys, write(tmp_path, adapter={"rank": 4, "targetModules": ["q_proj"]}))
    assert fewer["model"] == tiny["model"]
    assert fewer["adapter"]["shapes"] != tiny["adapter"]["shapes"]
    assert (fewer["adapter"]["rank"], fewer["adapter"]["targetModules"]) == (4, ["q_proj"])


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_it_prints_is_pasted_into_the_spec_and_leaves_nothing_to_warn_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    file = write(tmp_path, adapter={"rank": 4})
    hansa("validate", file)
    assert "`hansa model FILE` prints them" in capsys.readouterr().err
    assert hansa("model", "-f", file, "-o", form) == 0
    pasted = write(tmp_path, **yaml.safe_load(capsys.readouterr().out))
    assert hansa("validate", pasted) == 0
    assert "hansa model" not in capsys.readouterr().err
    assert hansa("model", "-f", pasted) == 0
    assert "note" not in capsys.readouterr().err


def test_a_digest_in_the_manifest_that_is_not_the_one_here_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(capsys, write(tmp_path))
    assert hansa("model", "-f", write(tmp_path, model={"sha256": "a" * 64})) == 0
    wrong = f"note: spec.model.sha256: got {'a' * 64}, expected {found['model']['sha256']}\n"
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize(
    "fields, wrong",
    [
        ({"model": {"source": "path:/nowhere"}}, "spec.model.source: got path:/nowhere, which is"),
        ({"adapter": {"targetModules": ["nose"]}}, "spec.adapter.targetModules: got ['nose']"),
    ],
)
def test_what_no_client_could_load_is_refused_in_its_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], wrong: str
) -> None:
    assert hansa("model", "-f", write(tmp_path, **fields)) == 2
    said = capsys.readouterr()
    assert f"error: {wrong}" in said.err
    assert (said.out, "Traceback" in said.err) == ("", False)


def test_the_page_shows_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa("model", "-f", write(tmp_path)) == 0
    assert f"$ hansa model federation.yaml\n{capsys.readouterr().out}" in PAGE.read_text()
