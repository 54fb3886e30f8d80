"""A silo serves what does best on its own validation tasks, and keeps it to itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hansa import adapter, keys, logs
from hansa.adapter import Tensors
from hansa.assignment import Assignment, EvaluateReport
from hansa.manifest import PersonalManifest, sha256
from hansa_client import personal
from hansa_client.round import Client
from hansa_client.worlds import DEMO_OPTIONS
from tests.memory_store import MemoryStore
from tests.merging import draw, shapes_of

Assign = Callable[..., Assignment]
Stores = tuple[MemoryStore, MemoryStore]
FOLDER = keys.personal_folder("silo", "maze", 1)
SMALL: dict[str, Any] = {
    "options": {**DEMO_OPTIONS["maze"], "max_turns": 4},
    "experience_storage": {"bucket": "bucket", "prefix": "silo"},
    "training": {"learningRate": 5e-3, "batchTokens": 1024, "epochs": 1},
    "evaluation": {"tasks": 12},
}


def play(told: Assignment, stores: Stores) -> Any:
    client = Client(told, *stores, logs.get("client"))
    return client.play_round() if told.role == "client" else client.evaluate_only()


def last(assign: Assign, data: bytes, mode: str = "best", **fields: Any) -> Assignment:
    """The evaluate-only Job after a round whose global adapter is this."""
    settings = {**assign(**SMALL).settings.to_json(), "personalization": mode}
    start = {"round": 1, "sha256": sha256(data)}
    told = assign(**SMALL, role="evaluate", start=start, **fields)
    return told.model_copy(update={"settings": type(told.settings).model_validate(settings)})


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    """Objects of both stores after a round, once they are there."""
    return {}


def after_round(assign: Assign, cache: dict[str, Any]) -> tuple[Stores, bytes]:
    """Fresh stores as they are after round 1, and the silo's update; trained once for all."""
    if not cache:
        stores = MemoryStore(), MemoryStore()
        play(assign(**SMALL), stores)
        cache["objects"] = [dict(store.objects) for store in stores]
    stores = MemoryStore(), MemoryStore()
    for store, objects in zip(stores, cache["objects"], strict=True):
        store.objects.update(objects)
    own = stores[0].objects[keys.update_folder("run", "maze", 1) + keys.ADAPTER]
    return stores, own


def share(stores: Stores, data: bytes) -> None:
    stores[0].objects[keys.global_folder("run", 1) + keys.ADAPTER] = data


def broken(own: bytes) -> bytes:
    """A global adapter with which nobody can play."""
    tensors = adapter.decode(own)
    random = np.random.RandomState(1)
    noise: Tensors = {
        name: random.standard_normal(array.shape).astype(np.float32) * 3
        for name, array in tensors.items()
    }
    return adapter.encode(noise)


@pytest.mark.slow
def test_a_silo_that_the_global_adapter_harms_serves_something_better(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, own = after_round(assign, trained)
    harmful = broken(own)
    share(stores, harmful)
    before = set(stores[0].objects)
    report: EvaluateReport = play(last(assign, harmful), stores)
    made = PersonalManifest.model_validate_json(stores[1].objects[FOLDER + keys.MANIFEST])
    assert set(made.validation) == {"global", "own", "mix-25", "mix-50", "mix-75", "finetuned"}
    assert (made.validation[made.choice].ratio or 0) > (made.validation["global"].ratio or 0)
    assert report.serves == made.choice != "global"
    assert report.personal is not None and report.personal.successes > report.evaluation.successes
    # Only the evaluation of the global adapter is for others to see.
    assert set(stores[0].objects) - before == {keys.evaluation("run", "maze", 1)}
    assert set(made.files) == {keys.ADAPTER, keys.CONFIG}
    assert sha256(stores[1].objects[FOLDER + keys.ADAPTER]) == made.files[keys.ADAPTER].sha256


@pytest.mark.slow
def test_a_tie_is_the_global_adapters_and_a_second_job_finds_the_choice(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, own = after_round(assign, trained)
    share(stores, own)  # the global adapter is the silo's own update, so every mix is, too
    told = last(assign, own, "interpolate")
    first = play(told, stores)
    assert first.serves == "global" and first.personal.successes == first.evaluation.successes
    assert FOLDER + keys.ADAPTER not in stores[1].objects
    written = [list(store.written) for store in stores]
    again = play(told, stores)
    assert [list(store.written) for store in stores] == written
    assert (again.serves, again.personal) == (first.serves, first.personal)


@pytest.mark.parametrize(
    "mode, fields",
    [
        pytest.param("none", {}, id="nobody asked"),
        pytest.param("best", {"own_start": True}, id="nothing is shared"),
    ],
)
def test_without_a_choice_nothing_is_kept(
    assign: Assign, trained: dict[str, Any], mode: str, fields: dict[str, Any]
) -> None:
    stores, own = after_round(assign, trained)
    share(stores, own)
    report = play(last(assign, own, mode, **fields), stores)
    assert (report.personal, report.serves) == (None, "")
    assert not [key for key in stores[1].objects if "personal" in key]


def test_a_mix_is_exactly_the_mean_of_both_products() -> None:
    shapes = shapes_of(4, (6, 5))
    one, other = draw(1, shapes), draw(2, shapes)
    mixed = personal.mix(one, other, 0.25)
    for name in (n for n in one if adapter.side(n) == "A"):
        b = name.replace("lora_A", "lora_B")
        expected = 0.75 * (one[b] @ one[name]) + 0.25 * (other[b] @ other[name])
        np.testing.assert_allclose(mixed[b] @ mixed[name], expected, rtol=1e-5, atol=1e-6)


def test_what_a_silo_serves_changes_no_update(assign: Assign) -> None:
    usual = assign(**SMALL)
    settings = usual.settings.model_copy(update={"personalization": "best"})
    assert usual.model_copy(update={"settings": settings}).inputs() == usual.inputs()
