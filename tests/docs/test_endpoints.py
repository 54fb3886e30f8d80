"""docs/endpoints.md can be typed, and Jobs are made from its manifests as it says."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api.endpoint import ENV_API_KEY
from tests.support import small
from tests.support.pages import blocks
from tests.support.served import served
from tests.unit.hansa_operator.objects import build_job, make_federation

PAGE = (Path(__file__).parents[2] / "docs/endpoints.md").read_text()
FOLDER = "/tmp/hansa-adapters"


def silo(text: str) -> dict[str, Any]:
    (environment,) = yaml.safe_load(text)["environments"]
    return dict(environment)


@pytest.mark.slow
def test_the_page_can_be_typed(tmp_path: Path) -> None:
    program = f"{shlex.quote(sys.executable)} -m hansa.cli.main"
    folder = tmp_path / "adapters"
    lines = [line[2:] for text in blocks(PAGE, "console") for line in text.splitlines()]
    make, serve = (line.replace(FOLDER, str(folder)) for line in lines)
    subprocess.run(["bash", "-c", make], check=True)
    text = blocks(PAGE, "yaml")[0].replace(FOLDER, str(folder))
    with served(serve.replace("hansa", program, 1), tmp_path, os.environ) as url:
        own = silo(text.replace("http://127.0.0.1:8000", url))
        exploration = {"tasksPerRound": 2, "maxNewTokens": 8, "engine": "openai"}
        changes = {"environments": [own], "exploration": exploration, "rounds": 1}
        manifest = small.write_manifest(tmp_path, evaluation={"tasks": 2}, **changes)
        with small.Run(manifest, tmp_path / "run") as run:
            run.finish()


def test_the_sidecars_manifest_becomes_a_job_that_shares_a_folder_and_a_key() -> None:
    own = silo(blocks(PAGE, "yaml")[-1])
    pod = build_job(make_federation(own))["spec"]["template"]["spec"]
    (client,), (sidecar,) = pod["containers"], pod["initContainers"]
    folder = own["endpoint"]["adapterFolder"]
    for each in (client, sidecar):
        assert folder in [mount["mountPath"] for mount in each["volumeMounts"]]
    (key,) = [e for e in client["env"] if e["name"] == ENV_API_KEY]
    (same,) = [e for e in sidecar["env"] if e["name"] == "VLLM_API_KEY"]
    assert key["valueFrom"] == same["valueFrom"]
    assert sidecar["restartPolicy"] == "Always"
