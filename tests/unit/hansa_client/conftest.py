"""Models that the client's tests share: the builtin one, and a random one made on the spot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora as adapter
from hansa.api.assignment import Assignment
from hansa.api.spec import Adapter
from hansa.api.status import RoundSettings
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_worlds import DEMO_OPTIONS
from tests.unit.hansa_client import tinymodel

TINY = "builtin:tiny"


@pytest.fixture(scope="session")
def base() -> Base:
    """The builtin model, loaded once."""
    return base_model.load(TINY, base_model.resolve(TINY), 1)


@pytest.fixture(scope="session")
def start(base: Base) -> adapter.Tensors:
    """The untrained adapter of the builtin model."""
    return adapter.init_adapter(lora.shapes(base.model, Adapter()), Adapter().rank, 7)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small Llama with random weights."""
    return tinymodel.make(tmp_path_factory.mktemp("model"))


@pytest.fixture
def assign() -> Callable[..., Assignment]:
    """Makes a small assignment; settings by section, other fields by name."""

    def make(**fields: Any) -> Assignment:
        sections = RoundSettings.model_fields.keys() & fields.keys()
        settings = RoundSettings.model_validate(
            {
                "exploration": {"tasksPerRound": 6, "maxNewTokens": 64},
                "experience": {"demonstrations": 3, "thoughts": False},
                "training": {"learningRate": 1e-3, "batchTokens": 1024, "epochs": 1},
                "evaluation": {"tasks": 4},
                **{name: fields.pop(name) for name in sections},
            }
        )
        given = {
            "role": "client",
            "federation": "fed",
            "seed": 7,
            "model": {"source": TINY},
            "adapter": {},
            "round": 1,
            "start": {},
            "settings": settings,
            "storage": {"bucket": "bucket", "prefix": "run"},
            "environments": ["babyai", "maze"],
            "environment": "maze",
            "world": "maze",
            "options": DEMO_OPTIONS["maze"],
        }
        return Assignment.model_validate({**given, **fields})

    return make
