"""The examples hold what they say: manifests that are valid, and Pods that the operator makes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from hansa.cli.validate import summarize
from hansa.manifests.load import load
from hansa_operator import podtemplate
from hansa_operator.settings import Settings
from tests.unit.hansa_operator.jobcases import unknown_fields
from tests.unit.hansa_operator.objects import build_job, make_federation

EXAMPLES = Path(__file__).parents[2] / "examples"
SIDECARS = [EXAMPLES / "02-agentgym-sidecar", EXAMPLES / "11-openenv-sidecar"]


def of_each_sidecar(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("folder", SIDECARS, ids=lambda each: each.name)(test)


@pytest.mark.parametrize(
    "file", sorted(EXAMPLES.glob("*/federation.yaml")), ids=lambda f: f.parent.name
)
def test_every_manifest_is_valid_and_the_operator_takes_it(file: Path) -> None:
    federation = load(file, here=False)
    assert summarize(federation)
    assert podtemplate.list_violations(federation, Settings()) == []


def test_the_exporter_is_made_of_fields_that_kubernetes_has() -> None:
    *_, job = yaml.safe_load_all((EXAMPLES / "13-tracking/exporter.yaml").read_text())
    assert unknown_fields(job, client.V1Job, client) == []


@of_each_sidecar
def test_a_server_is_a_sidecar_of_its_own_client_only(folder: Path) -> None:
    spec = yaml.safe_load((folder / "federation.yaml").read_text())["spec"]
    for environment in spec.pop("environments"):
        pod: dict[str, Any] = build_job(make_federation(environment, **spec))["spec"]["template"]
        if environment["world"] == "maze":
            assert not pod["spec"].get("initContainers")
            continue
        (server,) = pod["spec"]["initContainers"]
        assert server["name"] == environment["name"]
        assert server["restartPolicy"] == "Always"
        assert server["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@of_each_sidecar
def test_the_sidecars_worlds_can_be_made_without_their_servers(folder: Path) -> None:
    assert load(folder / "federation.yaml", here=True)


@of_each_sidecar
def test_the_page_shows_the_sidecar_as_the_manifest_has_it(folder: Path) -> None:
    page = (folder / "README.md").read_text()
    fragment = re.search(r"```yaml\n(.*?)```", page, re.S)
    assert fragment
    (shown,) = yaml.safe_load(fragment[1])
    manifest = yaml.safe_load((folder / "federation.yaml").read_text())
    held = manifest["spec"]["environments"][0]
    assert _is_part(shown, held)
    command = re.sub(r'[",]', "", (folder / "Dockerfile").read_text())
    port = held["options"]["url"].rpartition(":")[2]
    assert f"--port {port}" in command.replace("${PORT:-36001}", "36001")
    assert "--host 127.0.0.1" in command


def _is_part(shown: Any, held: Any) -> bool:
    if isinstance(shown, dict):
        return all(name in held and _is_part(value, held[name]) for name, value in shown.items())
    if isinstance(shown, list):
        return len(shown) == len(held) and all(map(_is_part, shown, held))
    return bool(shown == held)
