"""A foreign server, llama.cpp's own, writes with a round's adapter what torch writes with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from hansa_client.models import base_model
from hansa_client.rollout import episodes
from tests.support import llamas
from tests.unit.hansa_client.endpoint.playing import HOW, play, random_adapter
from tests.unit.hansa_client.rounds import Assign

GREEDY = replace(HOW, temperature=0.0, max_new_tokens=12)


def first_turns(played: episodes.Played) -> list[str]:
    """Later ones follow from tokens that a server makes of the text, and a random model's own
    tokens are seldom those."""
    return [each.turns[1].text for each in played.episodes]


@pytest.mark.slow
def test_it_writes_what_torch_writes_with_each_of_two_adapters(
    assign: Assign, tmp_path: Path
) -> None:
    folder, file = llamas.make(tmp_path)
    source = f"path:{folder}"
    base = base_model.load(source, folder, 1)
    offered = tmp_path / "offered"
    offered.mkdir()
    with llamas.serving(file, offered) as url:
        endpoint = {"url": url, "server": "llama.cpp", "adapterFolder": str(offered)}
        assignment = assign(model={"source": source}, endpoint=endpoint)
        answers = []
        for seed in (1, 2):
            tensors = random_adapter(base, assignment, seed)
            by_server, by_torch = (
                play(assignment, base, tensors, by_endpoint, GREEDY)
                for by_endpoint in (True, False)
            )
            assert first_turns(by_server) == first_turns(by_torch)
            answers.append(first_turns(by_server))
    assert answers[0] != answers[1]
    assert len(list(offered.glob("*.gguf"))) == 1, "the older one is not kept"
