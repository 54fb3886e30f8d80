"""Who brought what, in a run of three silos of which one learns from actions drawn by lot."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from hansa import keys
from hansa.contributions import to_others
from hansa.local.objectstore import LocalStore
from hansa.status import FederationStatus
from hansa_worlds import DEMO_OPTIONS
from tests import small
from tests.small import hansa

pytestmark = pytest.mark.slow

MAZE = DEMO_OPTIONS["maze"]
HONEST = ("alder", "birch")
NOISE = "noise"


def write_noise(path: Path) -> Path:
    """An expert's episodes, of which every action is another one, drawn by lot."""
    shown = hansa(
        *("demonstrate", "maze", "--out", path, "-n", "20", "--no-thoughts"),
        *("--options", json.dumps(MAZE)),
    )
    assert shown.returncode == 0, shown.stderr
    episodes = [json.loads(line) for line in path.read_text().splitlines()]
    said = [turn for one in episodes for turn in one["conversations"] if turn["loss"]]
    actions = sorted({turn["value"] for turn in said})
    draw = random.Random(7)
    for turn in said:
        turn["value"] = draw.choice(actions)
    path.write_text("".join(json.dumps(one) + "\n" for one in episodes))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds, killed once while silos play merges, and run again."""
    folder = tmp_path_factory.mktemp("contributions")
    rubbish = {"demonstrationsFrom": str(write_noise(folder / "noise.jsonl"))}
    more: dict[str, dict[str, Any]] = {NOISE: rubbish}
    manifest = small.write_manifest(
        folder,
        exploration={"tasksPerRound": 0, "batchEpisodes": 64, "maxNewTokens": 16},
        experience={"demonstrations": 20, "thoughts": False},
        training={"epochs": 3, "learningRate": 5e-3, "batchTokens": 1024, "maxLength": 512},
        evaluation={"tasks": 1, "validationTasks": 30, "contributions": {}},
        aggregation={"strategy": "mean"},
        environments=[
            {"name": name, "world": "maze", "options": MAZE, **more.get(name, {})}
            for name in (*HONEST, NOISE)
        ],
    )
    with small.Run(manifest, folder / "run") as begun:
        begun.wait_for_phase("evaluate", round_=2)
        begun.kill()
    with small.Run(manifest, folder / "run") as again:
        again.finish()
    return folder / "run"


@pytest.fixture(scope="module")
def status(run: Path) -> FederationStatus:
    return FederationStatus.model_validate_json(json.dumps(small.status(run)))


def test_the_silo_whose_updates_are_noise_is_found(status: FederationStatus) -> None:
    found = {name: to_others(name, status.contributions or {}) for name in (*HONEST, NOISE)}
    limits = {name: each[0] for name, each in found.items() if each}
    assert {name: each[1] for name, each in found.items() if each} == dict.fromkeys(found, 2)
    assert limits[NOISE].high < 0, "it costs the others success, beyond its limits"
    assert limits[NOISE].high < min(limits[name].low for name in HONEST)
    assert all(limits[name].low > 0 for name in HONEST)


def test_it_is_said_wherever_one_looks(run: Path, status: FederationStatus) -> None:
    shown = " ".join(hansa("status", "--out", run).stdout.split())
    ended = run.with_name("run.stderr").read_text()
    page = (run / "report.html").read_text()
    lines = {line.name: line.contribution for line in status.environments}
    assert lines[NOISE].startswith("costs the others ") and lines[NOISE].endswith(" in 2 rounds")
    assert all(lines[name].startswith("brings the others +") for name in HONEST)
    assert all(f"{n} {said}" in shown and f"{n} {said}" in ended for n, said in lines.items())
    table = page[page.rindex("Who brought what?") :].partition("</section>")[0]
    assert all(name in table for name in lines)


def test_the_aggregator_may_remove_the_merges_that_nobody_plays_any_more(run: Path) -> None:
    root = keys.subsets_root(small.NAME)
    with LocalStore(run / "store", (*HONEST, NOISE), prefix=small.NAME) as store:
        rounds = {keys.number(root, key) for key in store.store().list(root)}
    assert rounds == {2}, "those of the last round stay"


def test_the_run_audits_equal(run: Path) -> None:
    assert hansa("audit", "--out", run).stderr == "2 equal\n"
