"""A silo evolves alone, too: as in a federation that shares nothing, and in its own store only."""

from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, EvaluateReport
from hansa.api.bucket_documents import PersonalManifest, sha256
from hansa.core.errors import Diverged
from hansa_client import learners
from hansa_client.models import base_model
from hansa_worlds import DEMO_OPTIONS
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import (
    Assign,
    Killed,
    Stores,
    after_round,
    play_job,
    unplayable,
)

ROUNDS = 2
BY_TASK = bucket_keys.evaluation_tasks("silo", "maze", 1)
"""How the global adapter does, task by task."""
PLACE = bucket_keys.alone_prefix("silo", "maze", 1)
SMALL: dict[str, Any] = {
    "options": {**DEMO_OPTIONS["maze"], "max_turns": 4},
    "training": {"learningRate": 5e-3, "batchTokens": 1024, "epochs": 1, "optimizerState": "keep"},
    "evaluation": {"tasks": 8},
}
JOINED: dict[str, Any] = {
    **SMALL,
    "experience_storage": {"bucket": "bucket", "prefix": "silo"},
    "aggregation": {"strategy": "ffa"},  # trains B only, which a silo alone need not
}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """What was computed once for all tests."""
    return {}


def last(assign: Assign, shared: bytes, **fields: Any) -> Assignment:
    """The Job after the last round, in which the silo also evolves alone."""
    start = {"round": 1, "sha256": sha256(shared)}
    given = {**JOINED, "role": "evaluate", "start": start, "alone_rounds": ROUNDS, **fields}
    return assign(**given)


def undisturbed(assign: Assign, made: dict[str, Any]) -> tuple[Stores, EvaluateReport]:
    """The last Job's stores and report, played once."""
    if "whole" not in made:
        stores, shared = after_round(assign(**JOINED), made)
        made["whole"] = stores, play_job(last(assign, shared), stores)
    return made["whole"]


def by_itself(objects: dict[str, bytes], place: str) -> dict[str, bytes]:
    """What is promised byte for byte of rounds alone: adapters, configs, shards and states."""
    ends = (bucket_keys.ADAPTER, bucket_keys.CONFIG, ".zst", ".safetensors")
    return {
        key.removeprefix(f"{place}/"): data
        for key, data in objects.items()
        if key.startswith(f"{place}/") and key.endswith(ends)
    }


@pytest.mark.slow
def test_it_is_what_a_federation_makes_that_shares_nothing(
    assign: Assign, made: dict[str, Any]
) -> None:
    apart: Stores = (store := MemoryStore(), store)
    start: dict[str, Any] = {}
    rules = {**SMALL, "aggregation": {"strategy": "none"}}
    for round_ in range(1, ROUNDS + 1):
        given = assign(**rules, round=round_, start=start, own_start=bool(start))
        start = {"round": round_, "sha256": play_job(given, apart).adapter}
    report = play_job(assign(**rules, role="evaluate", round=2, start=start, own_start=True), apart)
    stores, joined = undisturbed(assign, made)
    assert by_itself(stores[1].objects, PLACE) == by_itself(store.objects, "run")
    assert len(by_itself(store.objects, "run")) == 4 * ROUNDS + 1  # and the demonstrations
    assert joined.alone is not None
    assert joined.alone.successes == report.evaluation.successes
    assert joined.alone.episodes == report.evaluation.episodes == 8


@pytest.mark.slow
def test_nothing_of_it_leaves_the_silo(assign: Assign, made: dict[str, Any]) -> None:
    before, _ = after_round(assign(**JOINED), made)
    stores, report = undisturbed(assign, made)
    measured = bucket_keys.evaluation("run", "maze", 1)
    assert set(stores[0].objects) - set(before[0].objects) == {measured}
    new = set(stores[1].objects) - set(before[1].objects) - {BY_TASK}
    assert new and all(key.startswith(f"{PLACE}/") for key in new)
    assert (report.personal, report.serves) == (None, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "at",
    [
        pytest.param("experience/maze/00001.jsonl.zst", id="after exploring"),
        pytest.param(f"updates/maze/00002/{bucket_keys.ADAPTER}", id="after training"),
        pytest.param(f"updates/maze/00002/{bucket_keys.MANIFEST}", id="before the last commit"),
        pytest.param("evaluations/maze/00002.json", id="after measuring"),
    ],
)
def test_a_kill_changes_no_byte(assign: Assign, made: dict[str, Any], at: str) -> None:
    stores, shared = after_round(assign(**JOINED), made)

    def kill(key: str) -> None:
        if key == f"{PLACE}/{at}":
            raise Killed

    stores[1].before_put = kill
    with pytest.raises(Killed):
        play_job(last(assign, shared), stores)
    before = dict(stores[1].objects)
    stores[1].before_put = lambda key: None
    report = play_job(last(assign, shared), stores)
    whole, expected = undisturbed(assign, made)
    assert by_itself(stores[1].objects, PLACE) == by_itself(whole[1].objects, PLACE)
    assert all(stores[1].objects[key] == data for key, data in before.items())
    assert report.alone == expected.alone


@pytest.mark.slow
def test_a_second_job_plays_and_loads_nothing(
    assign: Assign, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, expected = undisturbed(assign, made)
    _, shared = after_round(assign(**JOINED), made)
    written = [list(store.written) for store in stores]
    monkeypatch.setattr(base_model, "load", None)
    report = play_job(last(assign, shared), stores)
    assert report.alone == expected.alone
    assert [list(store.written) for store in stores] == written


@pytest.mark.slow
def test_the_base_is_loaded_once_for_all_rounds(
    assign: Assign, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, shared = after_round(assign(**JOINED), made)
    load, calls = base_model.load, list[Any]()

    def counted(*given: Any) -> Any:
        calls.append(given)
        return load(*given)

    monkeypatch.setattr(base_model, "load", counted)
    play_job(last(assign, shared, alone_rounds=1), stores)
    assert len(calls) == 1


@pytest.mark.slow
def test_a_round_alone_that_diverges_is_left_out(
    assign: Assign, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, shared = after_round(assign(**JOINED), made)
    train, calls = learners.get("success-sft"), list[Any]()

    def diverges(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise Diverged.at_step(1, 2, "loss nan", 5e-3)
        return train(*given)

    monkeypatch.setattr(learners, "get", lambda *_: diverges)
    report = play_job(last(assign, shared), stores)
    trained = [key for key in stores[1].objects if key.endswith(f"/{bucket_keys.ADAPTER}")]
    assert trained == [bucket_keys.update_folder(PLACE, "maze", 2) + bucket_keys.ADAPTER]
    assert report.alone is not None


@pytest.mark.slow
@pytest.mark.parametrize("harmed", [True, False])
def test_what_it_had_alone_is_a_candidate_that_wins_no_tie(
    assign: Assign, made: dict[str, Any], harmed: bool
) -> None:
    stores, _ = after_round(assign(**JOINED), made)
    whole, measured = undisturbed(assign, made)
    stores[1].objects.update(whole[1].objects)  # it has evolved alone already
    del stores[1].objects[BY_TASK]  # that is of another global adapter
    alone = stores[1].objects[
        bucket_keys.update_folder(PLACE, "maze", ROUNDS) + bucket_keys.ADAPTER
    ]
    shared = unplayable(alone) if harmed else alone
    stores[0].objects[bucket_keys.global_folder("run", 1) + bucket_keys.ADAPTER] = shared
    del stores[0].objects[
        bucket_keys.update_folder("run", "maze", 1) + bucket_keys.MANIFEST
    ]  # nothing to mix
    given = last(assign, shared, personalization="interpolate")
    report = play_job(given, stores)
    folder = bucket_keys.personal_folder("silo", "maze", 1)
    choice = PersonalManifest.model_validate_json(stores[1].objects[folder + bucket_keys.MANIFEST])
    assert set(choice.validation) == {"global", "alone"}
    assert report.serves == choice.choice == ("alone" if harmed else "global")
    assert report.personal == report.alone == measured.alone
    assert (folder + bucket_keys.ADAPTER in stores[1].objects) is harmed
    again = play_job(given, stores)
    assert (again.serves, again.personal, again.alone) == (report.serves, *[report.personal] * 2)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"alone_rounds": 0}, id="nobody asked"),
        pytest.param({"own_start": True}, id="nothing is shared"),
    ],
)
def test_without_the_question_a_silo_does_nothing_more(
    assign: Assign, made: dict[str, Any], fields: dict[str, Any]
) -> None:
    stores, shared = after_round(assign(**JOINED), made)
    before = set(stores[1].objects)
    assert play_job(last(assign, shared, **fields), stores).alone is None
    assert set(stores[1].objects) == before | {BY_TASK}


def test_evolving_alone_changes_no_update(assign: Assign) -> None:
    asked = assign(**{**SMALL, "evaluation": {"tasks": 8, "alone": True}}, alone_rounds=2)
    assert asked.inputs() == assign(**SMALL).inputs()
