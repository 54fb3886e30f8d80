"""A client's round that is refused: another run's, another model's, or of changed bytes."""

from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import FederationDocument, canonical, sha256
from hansa.core.errors import AnotherRun, Corrupt, Diverged, PermanentError
from hansa_client.models import base_model
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import UPDATE, Assign, manifest, play


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes the global adapter before a silo trains on it",
    result="refused: the order names its digest",
)
def test_a_start_adapter_with_other_bytes_is_refused(
    whole: tuple[MemoryStore, ClientReport], assign: Assign
) -> None:
    store = MemoryStore()
    store.objects["run/global/00001/adapter_model.safetensors"] = b"other"
    with pytest.raises(Corrupt, match=r"^run/global/00001/.*it was changed since"):
        play(store, assign(round=2, start={"round": 1, "sha256": "a" * 64}))
    store.objects.clear()
    with pytest.raises(Corrupt, match="got nothing, expected the round's start adapter"):
        play(store, assign(round=2, start={"round": 1, "sha256": "a" * 64}))


def test_another_runs_update_is_refused_with_its_field(
    whole: tuple[MemoryStore, ClientReport], assign: Assign
) -> None:
    store = MemoryStore()
    store.objects = dict(whole[0].objects)
    with pytest.raises(
        AnotherRun,
        match=r"^storage.s3: s3://.*/run holds another run .*learningRate 0.001 there, 0.5",
    ):
        play(store, assign(training={"learningRate": 0.5, "batchTokens": 1024, "epochs": 1}))


def owned(store: MemoryStore, assignment: Assignment, **changes: Any) -> None:
    owner = FederationDocument(program="1", identity=assignment.identity(), base_model="b" * 64)
    document = {**owner.to_json(), **changes}
    store.objects["run/federation.json"] = canonical(document)


def test_a_prefix_that_another_run_owns_is_refused(assign: Assign) -> None:
    store = MemoryStore()
    owned(store, assign(seed=9))
    with pytest.raises(AnotherRun, match="seed 9 there, 7 here"):
        play(store, assign())


def test_another_base_model_than_the_owners_is_refused(assign: Assign) -> None:
    store = MemoryStore()
    owned(store, assign())
    with pytest.raises(AnotherRun, match=r"model\.sha256 'bbb"):
        play(store, assign())
    store.objects["run/federation.json"] = b"[]"
    with pytest.raises(Corrupt, match=r"^run/federation.json"):
        play(store, assign())


def test_another_base_model_than_the_spec_names_is_refused_before_it_is_played(
    assign: Assign,
) -> None:
    store = MemoryStore()
    digest = base_model.compute_digest(base_model.resolve("builtin:tiny"))
    pinned = {"source": "builtin:tiny", "sha256": "b" * 64}
    with pytest.raises(PermanentError, match=rf"model\.sha256: got b{{64}}, expected {digest}"):
        play(store, assign(model=pinned))
    assert not store.written


def test_an_adapter_of_other_shapes_than_the_spec_names_is_refused_before_it_is_played(
    assign: Assign,
) -> None:
    store = MemoryStore()
    play(store, assign(evaluate=False))
    shapes = lora.shapes(lora.decode(store.objects[UPDATE + bucket_keys.ADAPTER]))
    digest = lora.shapes_digest(dict(reversed(shapes.items())))
    other = MemoryStore()
    named = {**assign().adapter.to_json(), "shapes": "b" * 64}
    with pytest.raises(PermanentError, match=rf"adapter\.shapes: got b{{64}}, expected {digest}"):
        play(other, assign(adapter=named))
    assert not other.written
    play(other, assign(adapter={**named, "shapes": digest}, evaluate=False))
    for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG):
        assert other.objects[UPDATE + name] == store.objects[UPDATE + name]
    assert manifest(other).inputs == manifest(store).inputs


@pytest.mark.slow
def test_an_adapter_that_no_model_survives_ends_as_a_training_that_diverged(
    whole: tuple[MemoryStore, ClientReport], assign: Assign
) -> None:
    """Finite values so large that every logit is none: the exit says so, and no traceback."""
    made = lora.decode(whole[0].objects[UPDATE + bucket_keys.ADAPTER])
    ruined = lora.encode({name: np.full_like(value, 1e30) for name, value in made.items()})
    store = MemoryStore()
    store.objects[bucket_keys.global_folder("run", 1) + bucket_keys.ADAPTER] = ruined
    assignment = assign(
        round=2,
        start={"round": 1, "sha256": sha256(ruined)},
        exploration={"tasksPerRound": 1},
    )
    with pytest.raises(Diverged):
        play(store, assignment)
