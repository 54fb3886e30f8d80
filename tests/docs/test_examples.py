"""The examples hold what they say: manifests that are valid, and Pods that the operator makes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.cli.validate import summary
from hansa.load import load
from hansa_operator import podtemplate
from hansa_operator.settings import Settings
from tests.small import hansa
from tests.unit.hansa_operator.objects import build_job, make_federation

EXAMPLES = Path(__file__).parents[2] / "examples"
SIDECARS = EXAMPLES / "02-agentgym-sidecar"


@pytest.mark.parametrize(
    "file", sorted(EXAMPLES.glob("*/federation.yaml")), ids=lambda f: f.parent.name
)
def test_every_manifest_is_valid_and_the_operator_takes_it(file: Path) -> None:
    federation = load(file, here=False)
    assert summary(federation)
    assert podtemplate.refusals(federation, Settings()) == []


@pytest.mark.parametrize(
    "file, results",
    [("compare", "smollm2"), ("few", "smollm2-few"), ("related", "smollm2-related")],
)
def test_the_figures_of_the_real_model_come_from_its_example_and_can_be_gone_on_from(
    tmp_path: Path, file: str, results: str
) -> None:
    docs = EXAMPLES.parent / "docs/results"
    shutil.copytree(docs / results, tmp_path / "results")
    told = hansa(
        "compare",
        str(EXAMPLES / f"04-real-model/{file}.yaml"),
        "--report-only",
        *("--out", str(tmp_path), "-o", "json"),
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == json.loads((docs / f"compare-{results}.json").read_text())


def test_an_agentgym_server_is_a_sidecar_of_its_own_client_only() -> None:
    spec = yaml.safe_load((SIDECARS / "federation.yaml").read_text())["spec"]
    for environment in spec.pop("environments"):
        pod: dict[str, Any] = build_job(make_federation(environment, **spec))["spec"]["template"]
        (server,) = pod["spec"]["initContainers"]
        assert server["name"] == environment["name"]
        assert server["restartPolicy"] == "Always"
        assert server["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_sidecars_worlds_can_be_made_without_their_servers() -> None:
    assert load(SIDECARS / "federation.yaml", here=True)


def test_the_page_shows_the_sidecar_as_the_manifest_has_it() -> None:
    page = (SIDECARS / "README.md").read_text()
    fragment = re.search(r"```yaml\n(.*?)```", page, re.S)
    assert fragment
    (shown,) = yaml.safe_load(fragment[1])
    manifest = yaml.safe_load((SIDECARS / "federation.yaml").read_text())
    held = manifest["spec"]["environments"][0]
    assert _is_part(shown, held)
    assert "--port ${PORT:-36001}" in (SIDECARS / "Dockerfile").read_text()


def _is_part(shown: Any, held: Any) -> bool:
    if isinstance(shown, dict):
        return all(name in held and _is_part(value, held[name]) for name, value in shown.items())
    if isinstance(shown, list):
        return len(shown) == len(held) and all(map(_is_part, shown, held))
    return bool(shown == held)


def test_a_world_of_ones_own_is_fifty_lines() -> None:
    code = (EXAMPLES / "03-own-world/ticket_triage.py").read_text().splitlines()
    assert len([line for line in code if line.strip()]) <= 55
