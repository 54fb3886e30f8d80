"""A server in this process, with the builtin model and adapters that change what it says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import openai
import pytest

from hansa.adapter import lora as adapter
from hansa.api import bucket_keys
from hansa.api.spec import Adapter
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.serving.catalogue import ServedModel
from hansa_client.serving.life import ServingSettings, run_server
from hansa_client.serving.server import ChatServer
from hansa_client.serving.sources import AdapterSource

TINY = "builtin:tiny"
KEY = "a-key-of-the-tests"


def write_adapter(base: Base, folder: Path, seed: int, size: float = 0.3) -> Path:
    """A PEFT folder with random matrices, strong enough to change greedy answers."""
    draw = np.random.default_rng(seed)
    shapes = lora.shapes(base.model, Adapter())
    tensors = {
        name: (size * draw.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    folder.mkdir()
    (folder / bucket_keys.ADAPTER).write_bytes(adapter.encode(tensors))
    config = adapter.render_config(Adapter(), TINY, adapter.target_names(tensors))
    (folder / bucket_keys.CONFIG).write_bytes(config)
    return folder


@pytest.fixture(scope="session")
def folders(base: Base, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two adapters by name."""
    root = tmp_path_factory.mktemp("adapters")
    return {name: write_adapter(base, root / name, seed) for seed, name in enumerate(("a", "b"))}


@pytest.fixture(scope="session")
def source(folders: dict[str, Path]) -> AdapterSource:
    """The builtin model with both."""
    entries = [ServedModel(name=name, folder=folder) for name, folder in folders.items()]
    return AdapterSource(model=TINY, entries=entries)


@pytest.fixture(scope="session")
def server(source: AdapterSource) -> Iterator[ChatServer]:
    """A server for all tests of this folder."""
    with run_server(
        source, ServingSettings(port=0, api_key=KEY, slots=16, drain_seconds=5)
    ) as running:
        yield running


@pytest.fixture
def client(server: ChatServer) -> Iterator[openai.OpenAI]:
    """The real client of OpenAI's API."""
    url = f"{server.url}/v1"
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=120) as made:
        yield made


def _value(server: ChatServer, name: str) -> float:
    return server.completions.metrics.registry.get_sample_value(name) or 0.0


@pytest.fixture
def metric(server: ChatServer) -> Callable[[str], float]:
    """Reads one of the server's metrics."""
    return lambda name: _value(server, name)
