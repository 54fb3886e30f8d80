"""A foreign server, llama.cpp's own, writes with a round's adapter what torch writes with it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hansa.adapter import Tensors
from hansa.assignment import Assignment
from hansa_client.endpoint.engine import Engine
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import EpisodeJob, Play
from tests import llamas

Assign = Callable[..., Assignment]
GREEDY = Play(
    temperature=0.0,
    max_length=512,
    batch_episodes=4,
    round=1,
    source="exploration",
    max_new_tokens=12,
    max_broken=0.0,
)


def random_adapter(base: Base, assignment: Assignment, seed: int) -> Tensors:
    """Strong enough to change every answer."""
    draw = np.random.default_rng(seed)
    shapes = lora.shapes(base.model, assignment.adapter)
    return {
        name: (0.3 * draw.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


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
        assert assignment.endpoint
        jobs = [
            EpisodeJob(task, 0, seed)
            for seed, task in enumerate(tasks.make_world(assignment).tasks("train")[:8])
        ]
        answers = []
        for seed in (1, 2):
            tensors = random_adapter(base, assignment, seed)

            def play(engine: Engine | None) -> episodes.Played:
                return episodes.play(
                    base, lambda: tasks.make_world(assignment), jobs, GREEDY, decoders=engine
                )

            by_server = play(Engine(assignment, assignment.endpoint, tensors))
            with lora.merged(base.model, assignment.adapter, tensors):
                by_torch = play(None)
            assert first_turns(by_server) == first_turns(by_torch)
            answers.append(first_turns(by_server))
    assert answers[0] != answers[1]
    assert len(list(offered.glob("*.gguf"))) == 1, "the older one is not kept"
