"""Models that the client's tests share: the builtin one, and a random one made on the spot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora as adapter
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.spec import Adapter
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client import tinymodel
from tests.unit.hansa_client.rounds import PRIVACY, TINY, Assign, make_assignment, play


@pytest.fixture(scope="session")
def base() -> Base:
    """The builtin model, loaded once."""
    return base_model.load(TINY, base_model.resolve(TINY), 1)


@pytest.fixture(scope="session")
def by_library() -> Base:
    """The builtin model as transformers loads it."""
    return base_model.load(TINY, base_model.resolve(TINY), 1, for_peft=True)


@pytest.fixture(scope="session")
def start(base: Base) -> adapter.Tensors:
    """The untrained adapter of the builtin model."""
    return adapter.init_adapter(lora.shapes(base.model, Adapter()), Adapter().rank, 7)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small Llama with random weights."""
    return tinymodel.make(tmp_path_factory.mktemp("model"))


@pytest.fixture
def assign() -> Assign:
    """Makes a small assignment; settings by section, other fields by name."""
    return make_assignment


@pytest.fixture
def private_assign(assign: Assign) -> Callable[..., Assignment]:
    """Makes one with privacy and a private store."""

    def make(privacy: dict[str, Any] | None = None, **more: Any) -> Assignment:
        return assign(
            privacy={**PRIVACY, **(privacy or {})},
            training={"learningRate": 1e-3, "maxSteps": 3},
            evaluation={"tasks": 5, "validationTasks": 3},
            experienceStorage={"bucket": "private", "prefix": "own"},
            **more,
        )

    return make


@pytest.fixture(scope="session")
def assignment() -> Assignment:
    """The small one as it is."""
    return make_assignment()


@pytest.fixture(scope="session")
def whole(assignment: Assignment) -> tuple[MemoryStore, ClientReport]:
    """An undisturbed round; nobody may write to its store."""
    store = MemoryStore()
    return store, play(store, assignment)


@pytest.fixture(scope="module")
def library(random_model: Path) -> Base:
    """A model of transformers with random weights, which can be packed."""
    return base_model.load("path:random", random_model, 1)
