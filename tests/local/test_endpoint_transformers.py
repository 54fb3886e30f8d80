"""A federation whose silos play through a server that is not ours: `transformers serve`."""

from pathlib import Path

import pytest

from tests import small, transformers_serve

pytestmark = pytest.mark.slow


def test_two_silos_play_a_round_by_one_server(tmp_path: Path) -> None:
    offered, served = tmp_path / "offered", tmp_path / "server"
    offered.mkdir()
    served.mkdir()
    with transformers_serve.serving(served) as url:
        endpoint = {
            "url": f"{url}/v1",
            "server": "transformers",
            "adapterFolder": str(offered),
            "timeoutSeconds": 600,  # two cores, and other tests beside it
            "patienceSeconds": 600,
        }
        manifest = small.write_manifest(
            tmp_path,
            rounds=1,
            exploration={"tasksPerRound": 4, "maxNewTokens": 16, "engine": "openai"},
            evaluation={"tasks": 2},
            environments=[{**each, "endpoint": endpoint} for each in small.SPEC["environments"]],
        )
        with small.Run(manifest, tmp_path / "run") as run:
            run.finish()
    (_, round_) = small.status(run.out)["history"]
    assert round_["updates"] == "2/2" and set(round_["success"]) == set(small.ENVIRONMENTS)
    for environment in small.ENVIRONMENTS:
        log = (run.out / f"jobs/small-r1-{environment}-a1/log.txt").read_text()
        assert f"engine={url}" in log and "episodes_dropped" not in log, log
    assert list(offered.iterdir()) == [], "merged models are as large as the base"
