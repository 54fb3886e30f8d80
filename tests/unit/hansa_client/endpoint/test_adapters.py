"""The right adapter at an endpoint: loaded by `hansa serve`, found by its digest, or refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.core.errors import PermanentError, WorldBroken
from hansa_client.endpoint import adapters
from hansa_client.endpoint.adapters import OfferedAdapter, Served
from hansa_client.endpoint.api import Api
from hansa_client.endpoint.engine import make_offer
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.serving.catalogue import ServedModel
from hansa_client.serving.life import ServingSettings, run_server
from hansa_client.serving.server import ChatServer
from hansa_client.serving.sources import AdapterSource
from hansa_worlds import DEMO_OPTIONS
from tests.unit.hansa_client.endpoint.playing import HOW, play
from tests.unit.hansa_client.endpoint.scripted import Endpoint, Reply, listening, turn
from tests.unit.hansa_client.rounds import Assign

OPTIONS = {**DEMO_OPTIONS["maze"], "max_turns": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("offered")


@pytest.fixture(scope="module")
def other(base: Base, assign_shape: dict[str, Any]) -> Tensors:
    draw = np.random.default_rng(3)
    return {
        name: (0.3 * draw.standard_normal(shape)).astype(np.float32)
        for name, shape in assign_shape.items()
    }


@pytest.fixture(scope="module")
def assign_shape(base: Base) -> dict[str, Any]:
    from hansa.api.spec import Adapter

    return dict(lora.shapes(base.model, Adapter()))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ChatServer]:
    """`hansa serve` with the base alone, which loads what lies in the folder."""
    source = AdapterSource(model="builtin:tiny", entries=[])
    settings = ServingSettings(port=0, slots=8, drain_seconds=5, adapter_folder=folder)
    with run_server(source, settings) as running:
        yield running


def given(assign: Assign, url: str, **fields: Any) -> Assignment:
    return assign(endpoint={"url": url, "server": "hansa", **fields}, options=OPTIONS)


def test_greedy_episodes_are_those_of_torch_token_by_token(
    assign: Assign, base: Base, server: ChatServer, folder: Path, other: Tensors
) -> None:
    from dataclasses import replace

    assignment = given(assign, server.url, adapterFolder=str(folder))
    greedy = replace(HOW, temperature=0.0)
    texts = []
    for size in (0.0, 0.15):  # strong ones write words in an order that nobody writes
        tensors = {name: np.float32(size) * array for name, array in other.items()}
        by_server = play(assignment, base, tensors, True, greedy)
        assert by_server.episodes == play(assignment, base, tensors, False, greedy).episodes
        texts.append(str([turn.text for each in by_server.episodes for turn in each.turns]))
    assert len(set(texts)) == 2
    assert by_server.engine == server.url
    assert server.completions.catalogue.names == ["base"], "it forgets what it loaded"
    assert list(folder.iterdir()) == []


def test_drawn_episodes_follow_their_seeds(
    assign: Assign, base: Base, server: ChatServer, folder: Path, start: Tensors
) -> None:
    assignment = given(assign, server.url, adapterFolder=str(folder))
    first, again = (play(assignment, base, start, True).episodes for _ in range(2))
    assert first == again
    assert len({each.turns[1].text for each in first}) > 1


def test_what_a_killed_attempt_has_loaded_is_forgotten(
    assign: Assign, base: Base, server: ChatServer, folder: Path, start: Tensors, other: Tensors
) -> None:
    assignment = given(assign, server.url, adapterFolder=str(folder))
    assert assignment.endpoint
    own = base_model.resolve(assignment.model.source)
    left = make_offer(assignment, assignment.endpoint.server, other, own, base)
    kept = OfferedAdapter(silo="fed-maze-2", digest=left.digest, files=left.files)
    (folder / f".{left.owner}a1b_c2d3").mkdir()  # half of one is written there
    for offer in (left, kept):
        place = adapters._EndpointAdapter(Api(assignment.endpoint, ""), assignment.endpoint, offer)
        assert place.offer(folder)
    play(assignment, base, start, True)
    assert server.completions.catalogue.names == [kept.name, "base"]
    assert [path.name for path in folder.iterdir()] == [kept.name]
    # Nor is another silo's taken for one's own: it may be unloaded any time.
    play(assignment, base, other, True)
    server.completions.catalogue.remove(kept.name)


def test_an_adapter_that_is_served_already_is_used_by_whatever_name(
    assign: Assign, base: Base, other: Tensors, tmp_path: Path
) -> None:
    served = tmp_path / "best"
    served.mkdir()
    (served / bucket_keys.ADAPTER).write_bytes(adapter.encode(other))
    shape, targets = assign().adapter, adapter.target_names(other)
    (served / bucket_keys.CONFIG).write_bytes(adapter.render_config(shape, "builtin:tiny", targets))
    source = AdapterSource(model="builtin:tiny", entries=[ServedModel(name="best", folder=served)])
    with run_server(source, ServingSettings(port=0, slots=8, drain_seconds=5)) as running:
        assignment = given(assign, running.url)
        assert len(play(assignment, base, other, True).episodes) == 6
        wrong = {name: array + 1 for name, array in other.items()}
        wanted = bucket_documents.sha256(adapter.encode(wrong))[:16]
        with pytest.raises(PermanentError) as caught:
            play(assignment, base, wrong, True)
    assert caught.value.message == (
        f"endpoint.url: {running.url} serves best, base, expected the adapter {wanted}... as its "
        "adapter_sha256 or in its name"
    )
    assert "endpoint.adapterFolder" in caught.value.hint


def test_a_server_that_loads_nothing_is_told_so(
    assign: Assign, base: Base, other: Tensors, tmp_path: Path
) -> None:
    source = AdapterSource(model="builtin:tiny", entries=[])
    with run_server(source, ServingSettings(port=0, slots=8, drain_seconds=5)) as running:
        assignment = given(assign, running.url, adapterFolder=str(tmp_path))
        with pytest.raises(PermanentError, match="refused to load it: this server loads no adap"):
            play(assignment, base, other, True)


def test_a_folder_that_cannot_be_written_is_refused(
    assign: Assign, base: Base, server: ChatServer, other: Tensors
) -> None:
    assignment = given(assign, server.url, adapterFolder="/proc/none")
    with pytest.raises(PermanentError, match=r"endpoint.adapterFolder: got /proc/none, which cann"):
        play(assignment, base, other, True)


def test_a_server_that_is_away_may_be_back(assign: Assign, base: Base, start: Tensors) -> None:
    assignment = given(assign, "http://127.0.0.1:9", patienceSeconds=0)
    with pytest.raises(
        WorldBroken, match=r"127.0.0.1:9 did not say which adapter it serves \(conn"
    ):
        play(assignment, base, start, True)


def test_no_episode_counts_when_the_adapter_was_exchanged_while_they_were_played(
    assign: Assign, base: Base, start: Tensors
) -> None:
    digest = bucket_documents.sha256(adapter.encode(start))

    def script(place: int, _: dict[str, Any]) -> Reply:
        if place == 5:
            endpoint.digest = "0" * 64
        return turn("move up")

    with listening(Endpoint(digest, script)) as endpoint:
        assignment = given(assign, endpoint.url)
        with pytest.raises(WorldBroken, match=r"served another adapter than .* none of them coun"):
            play(assignment, base, start, True)


@pytest.mark.parametrize(
    "server, listed, expected",
    [
        pytest.param(
            "vllm",
            {"data": [{"id": "m"}, {"id": "lora-{digest}", "parent": "m"}]},
            "lora-{digest}",
            id="vLLM's name holds the digest",
        ),
        pytest.param(
            "sglang",
            {"data": [{"id": "m"}, {"id": "lora-{digest}", "parent": "m"}]},
            "m:lora-{digest}",
            id="SGLang wants the base's name before it",
        ),
        pytest.param("vllm", {"data": [{"id": "m"}, {"id": "final"}]}, "", id="another name"),
        pytest.param(
            "hansa",
            {"data": [{"id": "x-{digest}", "adapter_sha256": "0" * 64}]},
            "",
            id="a digest counts more than a name",
        ),
        pytest.param("other", {"data": [1, {"id": 2}, {}]}, "", id="garbage"),
        pytest.param("other", [], "", id="no object"),
        pytest.param("other", None, "", id="no JSON"),
    ],
)
def test_how_a_server_says_which_adapter_it_serves(server: str, listed: Any, expected: str) -> None:
    digest = "ab" * 32

    class Scripted(Endpoint):
        def models(self) -> Reply:
            text = "nothing" if listed is None else json.dumps(listed)
            return Reply(body=text.replace("{digest}", digest[:16]).encode())

    with listening(Scripted(digest, lambda *_: turn("x"))) as running:
        endpoint = adapters.Endpoint.model_validate({"url": running.url, "server": server})
        offer = OfferedAdapter(silo="fed-maze", digest=digest, files=dict)
        found = adapters._EndpointAdapter(Api(endpoint, ""), endpoint, offer).find()
    wanted = expected.replace("{digest}", digest[:16])
    assert found == (Served(wanted, adapters.PLAIN.get(server, {})) if expected else None)


def test_vllm_and_sglang_are_asked_by_their_own_calls(
    assign: Assign, base: Base, start: Tensors, tmp_path: Path
) -> None:
    """Their documents say which; neither runs without a GPU, so this listens instead."""

    class Loading(Endpoint):
        def __init__(self) -> None:
            super().__init__("", lambda *_: Reply())
            self.loaded: list[dict[str, Any]] = []
            self.said: list[dict[str, Any]] = []

        def models(self) -> Reply:
            return Reply(body=json.dumps({"data": [{"id": "m"}, *self.loaded]}).encode())

        def chat(self, body: dict[str, Any], key: str | None) -> Reply:
            if "lora_name" not in body:
                return turn("move up")
            self.said.append(body)
            self.loaded = [{"id": body["lora_name"], "parent": "m"}] if "lora_path" in body else []
            return Reply(body=b"Success: LoRA adapter was added")

    for server in ("vllm", "sglang"):
        with listening(Loading()) as running:
            fields = {"server": server, "adapterFolder": str(tmp_path)}
            assignment = given(assign, running.url, **fields)
            assert len(play(assignment, base, start, True).episodes) == 6
        loaded, unloaded = running.said
        name = loaded["lora_name"]
        assert loaded == {"lora_name": name, "lora_path": f"{tmp_path}/{name}"}
        assert unloaded == {"lora_name": name}
        assert name.startswith("offered-fed-maze-")
