"""`tools/tiny_words.py`: words that the model's training never showed."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from hansa_client.models.base_model import resolve

ROOT = Path(__file__).resolve().parents[3]
TINY = resolve("builtin:tiny")


@pytest.fixture
def _tool(monkeypatch, tmp_path):
    """The tool's names, and a copy of the model to change."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    shutil.copytree(TINY, tmp_path / "tiny")
    return runpy.run_path(str(ROOT / "tools" / "tiny_words.py")), tmp_path / "tiny"


def test_a_new_word_gets_a_token_and_a_row_and_is_told_in_the_scores_file(_tool, monkeypatch):
    tool, folder = _tool
    before = json.loads((folder / "base_scores.json").read_text())
    monkeypatch.setattr(tool["tokens"], "item_words", lambda: ["xylophone", " xylophone"])
    tool["main"](folder)
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode("xylophone xylophone").ids
    assert len(set(ids)) == 2
    rows = load_file(folder / "model.safetensors")[tool["EMBEDDING"]]
    assert (rows[ids[0]] == rows[ids[1]]).all()
    after = json.loads((folder / "base_scores.json").read_text())
    added = before.get("words_added_after_training", 0) + 2
    assert after == {**before, "words_added_after_training": added}


def test_more_words_than_spare_tokens_make_the_model_larger(_tool, monkeypatch):
    tool, folder = _tool
    before = json.loads((folder / "base_scores.json").read_text())["parameters"]
    monkeypatch.setattr(tool["tokens"], "item_words", lambda: [f"word{n}" for n in range(64)])
    tool["main"](folder)
    config = json.loads((folder / "config.json").read_text())
    rows = load_file(folder / "model.safetensors")[tool["EMBEDDING"]]
    assert len(rows) == config["vocab_size"]
    after = json.loads((folder / "base_scores.json").read_text())["parameters"]
    assert after == before + 64 * config["hidden_size"]


def test_words_that_are_known_change_nothing(_tool):
    tool, folder = _tool
    tool["main"](folder)
    assert (
        load_file(folder / "model.safetensors")[tool["EMBEDDING"]]
        == load_file(TINY / "model.safetensors")[tool["EMBEDDING"]]
    ).all()
