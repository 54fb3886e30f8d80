"""A silo serves what does best on its own validation tasks, and keeps it to itself."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, EvaluateReport
from hansa.api.bucket_documents import (
    FileEntry,
    PersonalManifest,
    UpdateManifest,
    canonical,
    sha256,
)
from hansa.core.errors import Corrupt, Diverged
from hansa_client import learners, personalize
from hansa_client.agent import Agent
from hansa_client.experience.shards import Shards, decode, encode
from hansa_client.learners import TrainingSet
from hansa_client.silo import Silo
from hansa_worlds import DEMO_OPTIONS, make
from tests.support.memory_store import MemoryStore
from tests.support.merging import draw, make_shapes
from tests.unit.hansa_client.rounds import (
    UPDATE,
    Assign,
    Killed,
    Stores,
    after_round,
    play_job,
    unplayable,
)

FOLDER = bucket_keys.personal_folder("silo", "maze", 1)
FINETUNED = FOLDER + "finetuned-00001.safetensors"
SMALL: dict[str, Any] = {
    "options": {**DEMO_OPTIONS["maze"], "max_turns": 4},
    "experience_storage": {"bucket": "bucket", "prefix": "silo"},
    "training": {"learningRate": 5e-3, "batchTokens": 1024, "epochs": 1},
    "evaluation": {"tasks": 12},
}


def last(
    assign: Assign, data: bytes, mode: str = "best", round_: int = 1, **fields: Any
) -> Assignment:
    """The evaluate-only Job after a round whose global adapter is this."""
    settings = {**assign(**SMALL).settings.to_json(), "personalization": mode}
    start = {"round": round_, "sha256": sha256(data)}
    assignment = assign(**SMALL, role="evaluate", round=round_, start=start, **fields)
    return assignment.model_copy(
        update={"settings": type(assignment.settings).model_validate(settings)}
    )


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    """Objects of both stores after a round, once they are there."""
    return {}


def share(stores: Stores, data: bytes, round_: int = 1) -> None:
    stores[0].objects[bucket_keys.global_folder("run", round_) + bucket_keys.ADAPTER] = data


def swap(store: MemoryStore, data: bytes) -> None:
    """Another update, with a manifest that fits it."""
    key = UPDATE + bucket_keys.MANIFEST
    made = UpdateManifest.model_validate_json(store.objects[key])
    files = {**made.files, bucket_keys.ADAPTER: FileEntry(sha256=sha256(data), size=len(data))}
    store.objects[UPDATE + bucket_keys.ADAPTER] = data
    store.objects[key] = canonical(made.model_copy(update={"files": files}).to_json())


@pytest.mark.slow
def test_a_silo_that_the_global_adapter_harms_serves_something_better(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, own = after_round(assign(**SMALL), trained)
    harmful = unplayable(own)
    share(stores, harmful)
    before = set(stores[0].objects)
    report: EvaluateReport = play_job(last(assign, harmful), stores)
    made = PersonalManifest.model_validate_json(stores[1].objects[FOLDER + bucket_keys.MANIFEST])
    assert set(made.validation) == {"global", "own", "mix-25", "mix-50", "mix-75", "finetuned-1"}
    assert (made.validation[made.choice].ratio or 0) > (made.validation["global"].ratio or 0)
    assert report.serves == made.choice != "global"
    assert report.personal is not None and report.personal.successes > report.evaluation.successes
    # Only the evaluation of the global adapter is for others to see.
    assert set(stores[0].objects) - before == {bucket_keys.evaluation("run", "maze", 1)}
    assert set(made.files) == {bucket_keys.ADAPTER, bucket_keys.CONFIG}
    assert (
        sha256(stores[1].objects[FOLDER + bucket_keys.ADAPTER])
        == made.files[bucket_keys.ADAPTER].sha256
    )


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes a silo's update, to have the silo serve it",
    result="refused",
)
@pytest.mark.slow
def test_an_update_of_its_own_that_was_changed_in_the_bucket_is_not_served(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, own = after_round(assign(**SMALL), trained)
    changed = {name: 2 * array for name, array in lora.decode(own).items()}
    stores[0].objects[UPDATE + bucket_keys.ADAPTER] = lora.encode(changed)
    with pytest.raises(Corrupt, match="it was changed since"):
        play_job(last(assign, own), stores)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="replaces a silo's update together with its manifest, where the silo runs elsewhere",
    result="refused: the silo knows what it answered with",
)
@pytest.mark.slow
def test_an_update_that_was_replaced_with_its_manifest_is_not_served(
    assign: Assign, trained: dict[str, Any]
) -> None:
    """Whoever holds the bucket can make both fit; not the digest that the silo answered with."""
    stores, own = after_round(assign(**SMALL), trained)
    answered = sha256(stores[0].objects[UPDATE + bucket_keys.MANIFEST])
    play_job(last(assign, own, own_manifest=answered), stores)
    stores, own = after_round(assign(**SMALL), trained)
    other = lora.encode({name: 2 * array for name, array in lora.decode(own).items()})
    swap(stores[0], other)
    with pytest.raises(Corrupt) as stop:
        play_job(last(assign, own, own_manifest=answered), stores)
    now = sha256(stores[0].objects[UPDATE + bucket_keys.MANIFEST])
    key = UPDATE + bucket_keys.MANIFEST
    assert stop.value.message == f"{key}: got {now}, expected {answered}: it was changed since"
    assert stop.value.exit == 42
    assert FOLDER + bucket_keys.MANIFEST not in stores[1].objects


@pytest.mark.slow
def test_a_silo_that_knows_of_no_update_of_its_own_tries_none(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, own = after_round(assign(**SMALL), trained)
    play_job(last(assign, own, "interpolate", own_manifest=""), stores)
    made = PersonalManifest.model_validate_json(stores[1].objects[FOLDER + bucket_keys.MANIFEST])
    assert set(made.validation) == {"global"}


@pytest.mark.slow
def test_a_tie_is_the_global_adapters_and_a_second_job_finds_the_choice(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, own = after_round(assign(**SMALL), trained)
    assignment = last(assign, own, "interpolate")  # every mix is the global adapter, too
    first = play_job(assignment, stores)
    assert first.serves == "global" and first.personal.successes == first.evaluation.successes
    assert FOLDER + bucket_keys.ADAPTER not in stores[1].objects
    written = [list(store.written) for store in stores]
    again = play_job(assignment, stores)
    assert [list(store.written) for store in stores] == written
    assert (again.serves, again.personal) == (first.serves, first.personal)


@pytest.mark.slow
def test_a_silo_evolves_on_after_a_kill_without_doing_anything_twice_and_serves_the_same(
    assign: Assign, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, done = [], list[list[str]]()
    train, explore = learners.get("success-sft"), Silo.play_training

    def counted(*given: Any) -> Any:
        done[-1].append("train")
        return train(*given)

    def explored(*given: Any) -> Any:
        done[-1].append("explore")
        return explore(*given)

    monkeypatch.setattr(learners, "get", lambda *_: counted)
    monkeypatch.setattr(Silo, "play_training", explored)
    for dies in (False, True):
        done.append([])
        stores, own = after_round(assign(**SMALL), trained)
        share(stores, own, 3)
        assignment = last(assign, own, "finetune", 3)
        if dies:
            with monkeypatch.context() as patch:
                patch.setattr(personalize, "try_until_no_better", killed_at_the_second)
                with pytest.raises(Killed):
                    play_job(assignment, stores)
            assert done[-1] == ["explore", "train"] * 2
        play_job(assignment, stores)
        chosen.append(dict(stores[1].objects))
    assert chosen[0] == chosen[1] and done[0] == done[1]
    folder = bucket_keys.personal_folder("silo", "maze", 3)
    made = PersonalManifest.model_validate_json(chosen[0][folder + bucket_keys.MANIFEST])
    assert set(made.validation) >= {"global", "finetuned-1", "finetuned-2"}


@pytest.mark.slow
def test_what_a_silo_explores_alone_is_trained_on_and_kept_apart_from_its_experience(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, assignment = shared(assign, trained)
    before = set(stores[1].objects)
    play_job(assignment, stores)
    shard = bucket_keys.experience_shard(FOLDER.rstrip("/"), "maze", 2)
    assert shard in set(stores[1].objects) - before
    assert Shards(stores[1], assignment.model_copy(update={"round": 9})).list_rounds() == [0, 1]
    explored = decode(stores[1].objects[shard], shard)
    assert explored.header.episodes == assignment.settings.exploration.tasks_per_round
    training = {task.id for task in make(assignment.world, assignment.options).tasks("train")}
    assert {episode.task for episode in explored.episodes} <= training

    blind, _ = shared(assign, trained)
    blind[1].objects[shard] = encode(explored.header.model_copy(update={"episodes": 0}), [])
    play_job(assignment, blind)
    learned = [private.objects[FINETUNED] for _, private in (stores, blind)]
    assert any(e.success for e in explored.episodes) and learned[0] != learned[1]


@pytest.mark.slow
def test_a_later_round_that_was_gone_back_from_is_not_learned_from(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, assignment = shared(assign, trained)
    play_job(assignment, stores)
    later = stores[1].objects[bucket_keys.experience_shard(FOLDER.rstrip("/"), "maze", 2)]
    gone_back, _ = shared(assign, trained)
    gone_back[1].objects[bucket_keys.experience_shard("silo", "maze", 2)] = later
    play_job(assignment, gone_back)
    assert gone_back[1].objects[FINETUNED] == stores[1].objects[FINETUNED]


@pytest.mark.slow
def test_a_silo_that_explored_nothing_in_the_rounds_explores_nothing_alone(
    assign: Assign, trained: dict[str, Any]
) -> None:
    stores, assignment = shared(assign, trained)
    before = set(stores[1].objects)
    settings = assignment.settings
    shows = settings.exploration.model_copy(update={"tasks_per_round": 0})
    settings = settings.model_copy(update={"exploration": shows})
    play_job(assignment.model_copy(update={"settings": settings}), stores)
    made = set(stores[1].objects) - before
    assert made >= {FINETUNED, FOLDER + bucket_keys.MANIFEST}
    assert not [key for key in made if key.endswith(".zst")]


@pytest.mark.slow
def test_a_silo_that_goes_on_alone_trains_by_all_gpus_as_in_a_round(
    assign: Assign, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons = []

    def all_gpus(_agent: Agent, lesson: TrainingSet) -> AbstractContextManager[None]:
        lessons.append(lesson)
        return nullcontext()

    monkeypatch.setattr(Agent, "use_all_gpus", all_gpus)
    stores, assignment = shared(assign, trained)
    play_job(assignment, stores)
    assert len(lessons) == 1


def shared(assign: Assign, cache: dict[str, Any]) -> tuple[Stores, Assignment]:
    """Stores whose global adapter is the silo's own update, and the Job that evolves on from it."""
    stores, own = after_round(assign(**SMALL), cache)
    return stores, last(assign, own, "finetune")


def killed_at_the_second(_see: Any, _best: float, trainings: Any) -> None:
    next(trainings), next(trainings)
    raise Killed


@pytest.mark.parametrize(
    "successes, tried",
    [
        pytest.param([0.2, 0.3, 0.4, 0.5, 0.6], 5, id="each helps"),
        pytest.param([0.05, 0.02, 0.9], 2, id="none helps"),
        pytest.param([0.05, 0.2, 0.2, 0.3, 0.3, 0.1, 0.9], 6, id="some do not help at once"),
    ],
)
def test_a_silo_trains_on_until_two_trainings_in_a_row_bring_nothing(
    successes: list[float], tried: int
) -> None:
    seen: list[str] = []

    def see(name: str, _tensors: Tensors) -> float:
        seen.append(name)
        return successes[len(seen) - 1]

    personalize.try_until_no_better(see, 0.1, iter([{}] * len(successes)))
    assert seen == [f"finetuned-{number}" for number in range(1, tried + 1)]


@pytest.mark.slow
def test_a_training_that_diverges_ends_the_search_and_loses_nothing(
    assign: Assign, trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, own = after_round(assign(**SMALL), trained)
    share(stores, own, 3)
    train = learners.get("success-sft")
    calls: list[Any] = []

    def diverges(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise Diverged.at_step(1, 2, "loss nan", 5e-3)
        return train(*given)

    monkeypatch.setattr(learners, "get", lambda *_: diverges)
    report = play_job(last(assign, own, "finetune", 3), stores)
    assert len(calls) == 2 and report.serves in ("global", "finetuned-1")


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
    stores, own = after_round(assign(**SMALL), trained)
    report = play_job(last(assign, own, mode, **fields), stores)
    assert (report.personal, report.serves) == (None, "")
    assert not [key for key in stores[1].objects if "personal" in key]


def test_a_mix_is_exactly_the_mean_of_both_products() -> None:
    shapes = make_shapes(4, (6, 5))
    one, other = draw(1, shapes), draw(2, shapes)
    mixed = personalize.mix(one, other, 0.25)
    for name in (n for n in one if lora.side(n) == "A"):
        b = name.replace("lora_A", "lora_B")
        expected = 0.75 * (one[b] @ one[name]) + 0.25 * (other[b] @ other[name])
        np.testing.assert_allclose(mixed[b] @ mixed[name], expected, rtol=1e-5, atol=1e-6)


def test_what_a_silo_serves_changes_no_update(assign: Assign) -> None:
    usual = assign(**SMALL)
    settings = usual.settings.model_copy(update={"personalization": "best"})
    assert usual.model_copy(update={"settings": settings}).inputs() == usual.inputs()
