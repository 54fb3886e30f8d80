"""Adapters that are loaded and forgotten while a server answers, by vLLM's calls."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

from hansa.api import bucket_documents, bucket_keys
from hansa_client.models.base_model import Base
from hansa_client.serving.life import ServingSettings, run_server
from hansa_client.serving.server import ChatServer
from hansa_client.serving.sources import AdapterSource
from tests.unit.hansa_client.serving.conftest import KEY, TINY, write_adapter

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"


@pytest.fixture(scope="module")
def offered(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offered")
    for seed, name in enumerate(("one", "two")):
        write_adapter(base, folder / name, seed)
    write_adapter(base, folder.parent / f"{folder.name}-outside", 3)
    (folder / "link").symlink_to(folder.parent / f"{folder.name}-outside")
    return folder


@pytest.fixture(scope="module")
def loading(offered: Path) -> Iterator[ChatServer]:
    """A server that begins with the base alone."""
    settings = ServingSettings(
        port=0, api_key=KEY, slots=8, drain_seconds=5, adapter_folder=offered
    )
    with run_server(AdapterSource(model=TINY, entries=[]), settings) as running:
        yield running


def ask(server: ChatServer, path: str, body: Any, key: str = KEY) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    method = "POST" if body is not None else "GET"
    answer = urllib3.request(method, server.url + path, body=data, headers=headers, retries=False)
    return answer.status, answer.json()


def say(server: ChatServer, model: str) -> tuple[int, str]:
    turn = {"role": "user", "content": "Reach the goal."}
    body = {"model": model, "messages": [turn], "temperature": 0, "max_tokens": 12}
    status, document = ask(server, "/v1/chat/completions", body)
    return status, document["choices"][0]["message"]["content"] if status == 200 else ""


def test_an_adapter_is_served_from_its_loading_to_its_unloading(
    loading: ChatServer, offered: Path
) -> None:
    plain = say(loading, "base")
    assert say(loading, "mine")[0] == 404
    loaded = {"lora_name": "mine", "lora_path": str(offered / "one")}
    assert ask(loading, LOAD, loaded)[0] == 200
    digest = bucket_documents.sha256((offered / "one" / bucket_keys.ADAPTER).read_bytes())
    status, about = ask(loading, "/v1/models/mine", None)
    assert (status, about["adapter_sha256"]) == (200, digest)
    assert say(loading, "mine")[1] not in ("", plain[1])
    assert say(loading, "base") == plain
    status, error = ask(loading, LOAD, loaded)
    assert (status, "loaded already" in error["error"]["message"]) == (400, True)
    assert ask(loading, UNLOAD, {"lora_name": "mine"})[0] == 200
    assert say(loading, "mine")[0] == 404
    assert ask(loading, UNLOAD, {"lora_name": "mine"})[0] == 404


def test_answers_under_way_are_written_while_others_load(
    loading: ChatServer, offered: Path
) -> None:
    def turn(number: int) -> bool:
        if number % 3:
            return say(loading, "base") == plain
        name = {"lora_name": f"n{number}", "lora_path": str(offered / "two")}
        is_loaded = ask(loading, LOAD, name)[0] == 200
        return is_loaded and ask(loading, UNLOAD, {"lora_name": f"n{number}"})[0] == 200

    plain = say(loading, "base")
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(turn, range(36)))
    assert loading.completions.catalogue.names == ["base"]


@pytest.mark.parametrize(
    "body, said",
    [
        pytest.param({"lora_name": "x", "lora_path": "/etc"}, "folder below", id="outside"),
        pytest.param({"lora_name": "x", "lora_path": "{}"}, "folder below", id="the folder itself"),
        pytest.param({"lora_name": "x", "lora_path": "{}/../"}, "folder below", id="above it"),
        pytest.param({"lora_name": "x", "lora_path": "{}/link"}, "folder below", id="by a link"),
        pytest.param({"lora_name": "x", "lora_path": "{}/none"}, "no adapter", id="nothing there"),
        pytest.param({"lora_name": "x", "lora_path": "one"}, "absolute", id="a relative path"),
        pytest.param({"lora_name": "base", "lora_path": "{}/one"}, "already", id="the base's name"),
        pytest.param({"lora_name": "a b", "lora_path": "{}/one"}, "lora_name", id="a name"),
        pytest.param({"lora_name": 3, "lora_path": "{}/one"}, "lora_name", id="no text"),
        pytest.param({"lora_path": "{}/one"}, "lora_name", id="no name"),
        pytest.param({"lora_name": "x", "lora_path": "/a\0b"}, "lora_path", id="a zero byte"),
        pytest.param({"lora_name": "x", "rank": 8}, "rank: unknown field", id="unknown field"),
        pytest.param(b"[" * 10_000, "the body", id="deep JSON"),
        pytest.param(b"\xff", "the body", id="no text at all"),
    ],
)
def test_what_may_not_be_loaded_is_refused_in_a_sentence(
    loading: ChatServer, offered: Path, body: Any, said: str
) -> None:
    if isinstance(body, dict) and isinstance(body.get("lora_path"), str):
        body = {**body, "lora_path": body["lora_path"].replace("{}", str(offered))}
    status, error = ask(loading, LOAD, body)
    assert status == 400 and said in error["error"]["message"], error
    assert loading.completions.catalogue.names == ["base"]


def test_a_wrong_key_loads_nothing(loading: ChatServer, offered: Path) -> None:
    body = {"lora_name": "x", "lora_path": str(offered / "one")}
    assert ask(loading, LOAD, body, key="another")[0] == 401


def test_adapters_of_the_start_stay(server: ChatServer, folders: dict[str, Path]) -> None:
    status, error = ask(server, UNLOAD, {"lora_name": "a"})
    assert (status, "--adapter-folder" in error["error"]["message"]) == (404, True)
    status, about = ask(server, "/v1/models", None)
    digests = {each["id"]: each.get("adapter_sha256") for each in about["data"]}
    assert digests == {
        **{
            name: bucket_documents.sha256((path / bucket_keys.ADAPTER).read_bytes())
            for name, path in folders.items()
        },
        "base": None,
    }
