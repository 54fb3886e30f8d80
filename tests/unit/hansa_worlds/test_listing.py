"""The scores that come with us are those that anybody can measure."""

import json
from pathlib import Path

import pytest

from hansa_worlds import listing, players, registry
from hansa_worlds.players import PLAYERS

RECORD = json.loads(Path(registry.__file__).with_name("scores.json").read_text())


def test_every_world_of_the_demo_has_its_scores_with_us():
    assert {entry["world"] for entry in RECORD} == set(registry.DEMO_OPTIONS)
    for entry in RECORD:
        assert list(entry["players"]) == list(PLAYERS)
        assert (entry["options"], entry["split"], entry["seed"]) == ({}, "test", 7)


@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", ["maze", "wordle", "textcraft"])
def test_scores_can_be_measured_again_to_the_last_figure(name, player):
    """They change with a world's rules or texts: hansa worlds --score -o json > scores.json."""
    measured = listing.to_data(players.score(name, {}, player))
    measured.pop("groups")  # the record has no kinds
    assert listing.find_recorded_scores(name, {})[player] == measured


@pytest.mark.slow
@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("name", ["babyai", "webshop"])
def test_scores_of_large_splits_agree_with_a_sample(name, player):
    recorded = listing.find_recorded_scores(name, {})[player]
    sample = players.score(name, {}, player, episodes=200, seed=8).whole
    spread = max(0.01, (sample.success.high - sample.success.low) / 2)
    assert abs(sample.success.value - recorded["success"]) <= 1.5 * spread


def test_worlds_are_what_the_project_promises():
    """Experts solve all, nearly all in webshop and babyai; chance stays low but for babyai."""
    for entry in RECORD:
        expert, chance = entry["players"]["expert"], entry["players"]["random"]
        least = 0.98 if entry["world"] in {"webshop", "babyai"} else 1.0
        assert expert["success"] >= least, entry["world"]
        assert chance["success"] < 0.15 or entry["world"] == "babyai", entry["world"]


def test_scores_of_other_options_or_worlds_are_not_known():
    assert listing.find_recorded_scores("maze", {"map": "generated"}) is None
    assert listing.find_recorded_scores("agentgym", {}) is None
    assert listing.find_recorded_scores("somebody's", {}) is None
