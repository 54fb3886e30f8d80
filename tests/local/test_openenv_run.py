"""A federation plays on a real OpenEnv server, beside a world of our own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import openenvs, small
from tests.small import hansa

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with openenvs.serving(tmp_path_factory.mktemp("openenv")) as address:
        yield address


def write(folder: Path, url: str, **changes: Any) -> Path:
    options = {"url": url, "prompt": "none", "max_turns": 3, "success": 0.5, "retries": 1}
    return small.write_manifest(
        folder,
        rounds=1,
        experience={"demonstrations": 0},
        exploration={"tasksPerRound": 12, "batchEpisodes": 8, **changes},
        participation={"retries": 0},
        environments=[
            {"name": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}},
            {"name": "echo", "world": "openenv", "options": {**options, "end_on_success": True}},
        ],
    )


def test_their_echo_environment_is_a_silo_beside_a_maze(tmp_path: Path, url: str) -> None:
    out = tmp_path / "run"
    with small.Run(write(tmp_path, f"{url}/echo"), out, "--embedded-store") as run:
        run.finish()
    status = json.loads(hansa("status", "--out", out, "-o", "json").stdout)["status"]
    assert status["phase"] == "Succeeded"
    assert set(status["history"][-1]["success"]) == {"maze", "echo"}
    echo = next(each for each in status["environments"] if each["name"] == "echo")
    assert (echo["explored"], echo["broken"]) == (12, 0)
    assert echo["succeeded"] > 0  # five letters are easily said


def test_a_server_with_too_little_room_is_named_to_the_person_who_runs(
    tmp_path: Path, url: str
) -> None:
    """Their template has room for one session, and eight episodes are played at a time."""
    with small.Run(write(tmp_path, f"{url}/one"), tmp_path / "run", "--embedded-store") as run:
        assert run.wait() != 0
        said = " ".join(run.said.split())
    assert f"options.url: got {url}/one, a server that has no room beside our 1 sessions" in said
