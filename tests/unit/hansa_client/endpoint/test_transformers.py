"""A foreign server, `transformers serve`, writes with a round's adapter what torch writes."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansa.api.assignment import Assignment
from hansa.core.errors import PermanentError
from hansa_client.endpoint.adapters import TRANSFORMERS
from hansa_client.endpoint.engine import make_offer
from hansa_client.models import base_model
from hansa_client.models.base_model import Base
from tests.support import transformers_serve
from tests.unit.hansa_client.endpoint.playing import HOW, play, random_adapter
from tests.unit.hansa_client.rounds import Assign

GREEDY = replace(HOW, temperature=0.0)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with transformers_serve.serving(tmp_path_factory.mktemp("server")) as address:
        yield address


def given(assign: Assign, url: str, folder: Path | None, **fields: Any) -> Assignment:
    offered = {"adapterFolder": str(folder)} if folder else {}
    return assign(endpoint={"url": url, "server": "transformers", **offered, **fields})


def test_it_writes_what_torch_writes_with_each_of_two_adapters(
    assign: Assign, base: Base, url: str, tmp_path: Path
) -> None:
    assignment = given(assign, url, tmp_path)
    texts = []
    for size in (0.0, 0.05):  # strong ones write words in an order that nobody writes
        tensors = random_adapter(base, assignment, 3, size)
        by_server = play(assignment, base, tensors, True, GREEDY)
        assert by_server.episodes == play(assignment, base, tensors, False, GREEDY).episodes
        assert by_server.engine == url
        texts.append(str([turn.text for each in by_server.episodes for turn in each.turns]))
    assert texts[0] != texts[1]
    assert list(tmp_path.iterdir()) == [], "merged models are as large as the base"


def test_turns_are_drawn_by_their_seeds_where_one_is_asked_for_at_a_time(
    assign: Assign, base: Base, url: str, tmp_path: Path
) -> None:
    assignment = given(assign, url, tmp_path, concurrency=1)
    tensors = random_adapter(base, assignment, 3, 0.0)
    first, again = (play(assignment, base, tensors, True).episodes for _ in range(2))
    assert first == again
    likeliest = play(assignment, base, tensors, False, GREEDY).episodes
    assert [each.turns[1].text for each in first] != [each.turns[1].text for each in likeliest]


def test_without_a_folder_there_is_nothing_that_it_could_load(
    assign: Assign, base: Base, url: str
) -> None:
    assignment = given(assign, url, None)
    with pytest.raises(PermanentError, match=r"serves nothing, expected the adapter") as refused:
        play(assignment, base, random_adapter(base, assignment, 3), True)
    assert refused.value.hint.startswith("set endpoint.adapterFolder to a folder")


@pytest.mark.full
def test_a_server_that_is_pinned_to_a_model_says_so(
    assign: Assign, base: Base, tmp_path: Path
) -> None:
    pinned = base_model.resolve("builtin:tiny")
    offered = tmp_path / "offered"
    offered.mkdir()
    with transformers_serve.serving(tmp_path, str(pinned)) as url:
        assignment = given(assign, url, offered, loadSeconds=1)
        with pytest.raises(
            PermanentError, match=f"refused to load it: Server is pinned to '{pinned}'"
        ):
            play(assignment, base, random_adapter(base, assignment, 3), True)
    assert list(offered.iterdir()) == []


def test_another_base_or_another_adapter_has_another_name(
    assign: Assign, base: Base, tmp_path: Path
) -> None:
    """The server keeps what it has loaded under a name for minutes."""
    assignment = given(assign, "http://127.0.0.1:9", tmp_path)
    other = shutil.copytree(base_model.resolve("builtin:tiny"), tmp_path / "other")
    with (other / "config.json").open("a") as config:
        config.write("\n")
    elsewhere = assignment.model_copy(
        update={"model": assignment.model.model_copy(update={"source": f"path:{other}"})}
    )
    one, two = (random_adapter(base, assignment, seed) for seed in (1, 2))
    names = [
        make_offer(lines, TRANSFORMERS, tensors, base_model.resolve(lines.model.source), base).name
        for lines, tensors in [(assignment, one), (assignment, two), (elsewhere, one)]
    ]
    assert len(set(names)) == 3
