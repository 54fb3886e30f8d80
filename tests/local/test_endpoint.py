"""Federations whose silos play through endpoints: `hansa serve`, dying ones, and wrong ones."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hansa.api.endpoint import ENV_API_KEY
from tests.support import processes, small
from tests.support.own_environment import free_port
from tests.support.served import served
from tests.unit.hansa_client.endpoint.scripted import Endpoint, Reply, listening

pytestmark = pytest.mark.slow
SERVE = f"{shlex.quote(sys.executable)} -m hansa.cli.main serve"
KEY = "a-key-of-the-tests"


def environments(**endpoints: dict[str, Any]) -> list[dict[str, Any]]:
    """The small federation's silos, each with an endpoint."""
    known = {each["name"]: each for each in small.SPEC["environments"]}
    return [
        {**known.get(name, known["maze"]), "name": name, "endpoint": {"server": "hansa", **given}}
        for name, given in endpoints.items()
    ]


def spec(rounds: int = 2, **participation: Any) -> dict[str, Any]:
    exploration = {**small.SPEC["exploration"], "engine": "openai"}
    return {"rounds": rounds, "exploration": exploration, "participation": participation}


def rounds(run: small.Run) -> list[tuple[int, str, str]]:
    """What became of each."""
    history = small.status(run.out)["history"]
    return [(each["round"], each["outcome"], each["updates"]) for each in history[1:]]


def log_of(run: small.Run, job: str) -> str:
    return (run.out / "jobs" / job / "log.txt").read_text()


def test_two_silos_evolve_by_hansa_serve_and_only_clients_have_its_key(tmp_path: Path) -> None:
    offered, key = tmp_path / "offered", tmp_path / "key"
    offered.mkdir()
    key.write_text(KEY)
    command = f"{SERVE} --adapter-folder {offered} --api-key-file {key}"
    with served(command, tmp_path, os.environ) as url:
        given = {"url": url, "adapterFolder": str(offered)}
        both = dict.fromkeys(small.ENVIRONMENTS, given)
        manifest = small.write_manifest(tmp_path, environments=environments(**both), **spec())
        run = small.finish(manifest, tmp_path / "run", **{ENV_API_KEY: KEY})
        assert list(offered.iterdir()) == []
    status = small.status(run.out)
    assert status["phase"] == "Succeeded" and status["completed"] == 2
    for round_ in (1, 2):
        for environment in small.ENVIRONMENTS:
            log = log_of(run, f"small-r{round_}-{environment}-a1")
            assert f"engine={url}" in log and "episodes_dropped" not in log
    for path in run.out.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


@contextmanager
def at_port(port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`hansa serve` at a port, which may be killed."""
    command = f"exec {SERVE} --adapter-folder {folder} --port {port}"
    process = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline().strip()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_dies_while_episodes_are_played_costs_an_attempt(tmp_path: Path) -> None:
    offered, port = tmp_path / "offered", free_port()
    offered.mkdir()
    given = {"url": f"http://127.0.0.1:{port}/v1", "adapterFolder": str(offered)}
    silos = environments(maze={**given, "patienceSeconds": 1})
    settings = spec(rounds=1, retries=100)
    # Many, and few at a time: most are still to come when the first are done.
    few = {"tasksPerRound": 240, "batchEpisodes": 4, "maxBrokenEpisodes": 0.01}
    settings["exploration"] |= few
    manifest = small.write_manifest(tmp_path, environments=silos, **settings)
    with small.Run(manifest, tmp_path / "run") as run:
        with at_port(port, offered) as server:
            job = run.wait_for_phase("explore")
            progress = run.out / "jobs" / job / "progress.json"
            processes.until(lambda: json.loads(progress.read_text()).get("done", 0) > 0, "episodes")
            processes.kill(server.pid)
        processes.until(lambda: "the endpoint failed in" in run.said, "the sentence")
        with at_port(port, offered):
            run.finish()
    assert "expected at most 0.01 of them" in run.said
    reasons = r"\((connection refused|the connection broke off), \d tries"
    assert re.search(rf"EndpointFailed at http://127\.0\.0\.1:{port} {reasons}", run.said), run.said
    assert rounds(run) == [(1, "aggregated", "1/1")]


def test_wrong_adapters_and_storms_are_told_and_the_round_goes_on(tmp_path: Path) -> None:
    offered = tmp_path / "offered"
    offered.mkdir()
    busy = Reply(429, body=b"{}", headers=(("Retry-After", "1"),))

    class Storm(Endpoint):
        def models(self) -> Reply:
            return busy

    with (
        served(f"{SERVE} --adapter-folder {offered}", tmp_path, os.environ) as url,
        listening(Storm("", lambda *_: busy)) as storm,
    ):
        silos = environments(
            maze={"url": storm.url, "patienceSeconds": 2},
            webshop={"url": url, "adapterFolder": str(offered)},
            wrong={"url": url},
        )
        settings = spec(rounds=1, minimumUpdates=1, retries=0)
        manifest = small.write_manifest(tmp_path, environments=silos, **settings)
        run = small.finish(manifest, tmp_path / "run")
    assert rounds(run) == [(1, "aggregated", "1/3")]
    assert "did not say which adapter it serves (HTTP 429" in log_of(run, "small-r1-maze-a1")
    said = log_of(run, "small-r1-wrong-a1")
    assert re.search(rf"endpoint.url: {url} serves .*base, expected the adapter", said), said
