"""`builtin:tiny` and the worlds fit: every text has tokens, and comes back as it was."""

import json
import random

import pytest
import yaml
from tokenizers import Tokenizer

from hansa.cli import demo
from hansa_client.models.base_model import resolve
from hansa_worlds import DEMO_OPTIONS, make

TINY = resolve("builtin:tiny")


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(TINY / "tokenizer.json"))


@pytest.mark.parametrize("options", ["demo", "whole"])
@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_every_text_of_a_world_has_tokens_and_comes_back_exactly(name, options, tokenizer):
    world = make(name, DEMO_OPTIONS[name] if options == "demo" else {})
    draw, texts = random.Random(1), set()
    for task in world.tasks("test")[:: max(1, len(world.tasks("test")) // 80)]:
        seen = world.start(task)
        while not seen.done:
            move = world.expert()
            texts.update({seen.text, move.text, move.action})
            action = draw.choice([*world.legal(), move.action, "nonsense"])
            texts.update({action} - {"nonsense"})
            seen = world.step(action)
        texts.add(seen.text)
    unknown = tokenizer.token_to_id("<|unk|>")
    for text in texts:
        ids = tokenizer.encode(text).ids
        assert unknown not in ids, text
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_what_is_no_word_of_the_worlds_is_unknown_not_an_error(tokenizer):
    assert tokenizer.encode("Quetzalcoatl").ids == [tokenizer.token_to_id("<|unk|>")]


def test_the_model_was_trained_on_the_demo_options_of_today():
    """Change a demo option or a world's text, and the base must be made again."""
    scores = json.loads((TINY / "base_scores.json").read_text())
    assert scores["options"] == DEMO_OPTIONS


def test_the_demo_plays_with_those_options():
    environments = yaml.safe_load(demo.MANIFEST.read_text())["spec"]["environments"]
    assert {
        environments_of_demo["world"]: environments_of_demo["options"]
        for environments_of_demo in environments
    } == DEMO_OPTIONS


def test_the_base_leaves_room_to_evolve():
    scores = json.loads((TINY / "base_scores.json").read_text())["scores"]
    assert 0.2 < scores["macro_sampled"] < 0.45
    assert scores["macro_greedy"] > scores["macro_sampled"] + 0.2
    for name in DEMO_OPTIONS:
        assert 0.1 <= scores[name]["sampled"]["success"] <= 0.6


def test_the_weights_are_small_enough_to_ship():
    assert (TINY / "model.safetensors").stat().st_size <= 8_000_000
