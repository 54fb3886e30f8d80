"""A model of transformers takes part as the builtin one does: the example with a smaller one."""

import json
from pathlib import Path

import pytest
import yaml
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tests.support.small import hansa
from tests.unit.hansa_client import tinymodel

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/04-real-model/federation.yaml"
LITTLE = {
    "rounds": 2,
    "exploration": {"tasksPerRound": 2, "maxNewTokens": 3},
    "experience": {"demonstrations": 2},
    "training": {"epochs": 1, "maxLength": 200},
    "evaluation": {"tasks": 1},
}
WORLDS = ("babyai", "wordle")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tinymodel.make(tmp_path / "model")


@pytest.fixture
def manifest(tmp_path: Path, model: Path) -> Path:
    document = yaml.safe_load(EXAMPLE.read_text())
    spec = document["spec"]
    for section, fields in LITTLE.items():
        spec[section] = {**spec[section], **fields} if isinstance(fields, dict) else fields
    spec["model"] = {"source": f"path:{model}"}
    spec["environments"] = [e for e in spec["environments"] if e["name"] in WORLDS]
    (tmp_path / "federation.yaml").write_text(json.dumps(document))
    return tmp_path / "federation.yaml"


def test_the_example_runs_and_its_adapter_fits_the_model(
    manifest: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    ended = hansa("run", str(manifest), "--embedded-store", "--out", str(out))
    assert ended.returncode == 0, ended.stderr
    status = json.loads((out / "federation.json").read_text())["status"]
    assert (status["phase"], status["completed"]) == ("Succeeded", 2)
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), out / "adapter")
    trained = [weight for name, weight in loaded.named_parameters() if ".lora_B." in name]
    assert trained and all(weight.abs().sum() > 0 for weight in trained)
