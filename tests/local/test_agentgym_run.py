"""A federation plays on an AgentGym server: a good one, one that loses answers, and none."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import small
from tests.support.agentgym_server import serving
from tests.support.small import hansa

pytestmark = pytest.mark.slow


def write(folder: Path, url: str, **changes: Any) -> Path:
    options = {"environment": "maze", "url": url, "prompt": "none", "start_timeout_seconds": 2}
    gym = {"name": "gym", "world": "agentgym", "options": options}
    return small.write_beside_maze(folder, gym, **changes)


def test_episodes_whose_answers_were_lost_are_left_out_and_the_round_goes_on(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    with serving("maze") as server:
        server.fail("/maze/step", "drop", "no", "half", "no", "status 500", "huge")
        manifest = write(tmp_path, server.url, maxBrokenEpisodes=0.5)
        small.finish(manifest, out, "--embedded-store")
        opened = server.games[0].opened
        assert 1 < opened < 40
        assert server.paths().count("/maze/reset") >= 12
    printed = hansa("status", out, "-o", "json")
    status = json.loads(printed.stdout)["status"]
    assert status["phase"] == "Succeeded"
    assert set(status["history"][-1]["success"]) == {"maze", "gym"}


def test_a_server_that_is_not_there_is_named_to_the_person_who_runs(tmp_path: Path) -> None:
    manifest = write(tmp_path, "http://127.0.0.1:9")
    with small.Run(manifest, tmp_path / "run", "--embedded-store") as run:
        assert run.wait() != 0
        said = run.said
    assert "options.url: got http://127.0.0.1:9, where no AgentGym server for maze answers" in said
    assert "(connection refused), expected one within 2 seconds" in said
