"""A federation whose silos play through a server that is not ours: `transformers serve`."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support import small, transformers_serve
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/endpoints.md").read_text().split("## With transformers serve\n")[1]
PORT = 8001


def shown(language: str) -> str:
    """The section's first block in a language."""
    block = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert block
    return block[1]


def test_the_page_starts_it_as_it_is_started_here() -> None:
    last = shown("sh").splitlines()[-1]
    assert last.split() == ["transformers", "serve", *transformers_serve.arguments(PORT)]


@pytest.mark.slow
def test_two_silos_play_a_round_by_one_server(tmp_path: Path) -> None:
    offered, served = tmp_path / "offered", tmp_path / "server"
    offered.mkdir()
    served.mkdir()
    with transformers_serve.serving(served) as url:
        text = shown("yaml").replace(f"http://127.0.0.1:{PORT}", url)
        endpoint = yaml.safe_load(text.replace("/tmp/hansa-adapters", str(offered)))["endpoint"]
        # Two cores, and other tests beside it.
        endpoint |= {"timeoutSeconds": 600, "patienceSeconds": 600}
        manifest = small.write_manifest(
            tmp_path,
            rounds=1,
            exploration={"tasksPerRound": 4, "maxNewTokens": 16, "engine": "openai"},
            evaluation={"tasks": 2},
            environments=[{**each, "endpoint": endpoint} for each in small.SPEC["environments"]],
        )
        run = small.finish(manifest, tmp_path / "run")
    (_, round_) = small.status(run.out)["history"]
    assert round_["updates"] == "2/2" and set(round_["success"]) == set(small.ENVIRONMENTS)
    for environment in small.ENVIRONMENTS:
        log = (run.out / f"jobs/small-r1-{environment}-a1/log.txt").read_text()
        assert f"engine={url}" in log and "episodes_dropped" not in log, log
    assert list(offered.iterdir()) == [], "merged models are as large as the base"
