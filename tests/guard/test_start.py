"""A cold Job imports what its round needs and no more: every second of it is paid in each round."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND_LINE = {"rich", "typer", "click"}
OPERATOR = {"kopf", "kubernetes", "prometheus_client", "aiohttp"}
LIBRARIES = {"boto3", "transformers", "peft", "accelerate", "huggingface_hub", "httpx", "jinja2"}
COMPILERS = {"torch._dynamo", "torch._inductor", "sympy", "triton", "torchvision"}

CLIENT = """
from hansa.core import logs
from hansa.api.assignment import Assignment
from hansa.store.s3 import preload
from hansa_client import __main__
from hansa_client.last import evaluate_only
from hansa_client.round import play_round
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
preload()
assignment = Assignment.model_validate({
    "role": "client", "federation": "f", "seed": 7, "model": {"source": "builtin:tiny"},
    "adapter": {}, "round": 1, "start": {}, "storage": {"bucket": "bucket", "prefix": "p"},
    "environments": ["maze"], "environment": "maze", "world": "maze",
    "settings": {
        "exploration": {"tasksPerRound": 1}, "experience": {"demonstrations": 2, "thoughts": False},
        "training": {"epochs": 1, "maxSteps": 1}, "evaluation": {"tasks": 1},
        "aggregation": {},
    },
})
store = MemoryStore()
assert play_round(Silo(assignment, store, store, logs.get("client"))).trained
"""
SERVER = """
from hansa.store.s3 import preload
from hansa_server import __main__, round
from hansa.manifests.plugins import STRATEGY, make
for name in set(STRATEGY.builtin) - {'none'}:
    make(STRATEGY, name, None)
preload()
"""


@pytest.mark.parametrize(
    "work, unwanted",
    [
        pytest.param(
            CLIENT,
            COMMAND_LINE | OPERATOR | LIBRARIES | COMPILERS,
            id="a client's round with the builtin model",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            SERVER,
            COMMAND_LINE | OPERATOR | LIBRARIES | COMPILERS | {"torch"},
            id="the aggregator",
        ),
    ],
)
def test_a_cold_job_imports_only_what_it_needs(work: str, unwanted: set[str]) -> None:
    program = f"{work}\nimport sys\nprint(sorted({unwanted!r} & sys.modules.keys()))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr
