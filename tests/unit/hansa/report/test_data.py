"""Collecting: what the bucket tells, and what happens when it does not."""

import json

import pytest
import zstandard

from hansa.api import bucket_keys
from hansa.core.errors import Corrupt, Denied, HansaError, Unreachable
from hansa.crypto import sealing
from hansa.report import shards
from hansa.report.data import collect
from hansa.store.documents import MOST_BYTES
from hansa.store.experience import ExperienceStore
from tests.support import report_sample
from tests.support.report_sample import PREFIX, MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return report_sample.fill(MemoryStore(), report_sample.federation(8))


def test_scores_counts_and_times_come_from_status_and_manifests(store: MemoryStore) -> None:
    given = report_sample.federation(8)
    data = collect(given, store)
    third = data.rounds[3]
    manifest = report_sample.part(1, 3)
    assert third.scores["maze"].ratio == given.status.history[3].success["maze"]
    assert third.scores["maze"].episodes == 100
    assert third.parts["maze"].explored == 48
    assert third.parts["maze"].norm == manifest["norm"]
    assert third.parts["maze"].seconds == manifest["seconds"]
    assert third.seconds["read"] == 0.2
    assert data.total("explored") == 8 * 5 * 48
    assert data.notes == ()
    assert ("global adapter", report_sample.PROGRAM) in data.programs


def test_start_last_and_best_are_told_apart(store: MemoryStore) -> None:
    data = collect(report_sample.federation(8), store)
    assert data.base and data.base.number == 0
    assert data.last and data.last.number == 8
    means = {entry.number: entry.success.value for entry in data.rounds if entry.success}
    assert data.best and means[data.best.number] == max(means.values())


def test_the_best_of_the_status_wins_over_ties(store: MemoryStore) -> None:
    given = report_sample.federation(8)
    document = given.to_json()
    document["status"]["best"] = {"round": 5, "success": "0.6"}
    changed = type(given).model_validate_json(json.dumps(document))
    best = collect(changed, store).best
    assert best and best.number == 5


def test_evaluations_fill_what_the_status_lacks(store: MemoryStore) -> None:
    given = report_sample.federation(8)
    report_sample.fill(store, given, evaluations=True)
    known = given.status.history[8].success.pop("maze")
    del given.status.history[8].episodes["wordle"]
    data = collect(given, store)
    assert data.rounds[8].scores["maze"].ratio == pytest.approx(known)
    assert data.rounds[8].scores["wordle"].episodes == 100


def test_an_environment_with_nothing_to_learn_still_tells_what_it_explored() -> None:
    given = report_sample.federation(1)
    store = report_sample.fill(MemoryStore(), given)
    others = [name for name in report_sample.WORLDS if name != "maze"]
    manifest = report_sample.manifest(1, others)
    key = bucket_keys.global_folder(PREFIX, 1) + bucket_keys.MANIFEST
    store.objects[key] = manifest.model_dump_json(by_alias=True).encode()
    store.objects[bucket_keys.update_folder(PREFIX, "maze", 1) + bucket_keys.MANIFEST] = (
        report_sample.update("maze", 1)
    )
    assert collect(given, store).rounds[1].parts["maze"].explored == 48


def test_the_first_and_the_last_rounds_first_episodes_are_shown(store: MemoryStore) -> None:
    pairs = {
        pair.environment: pair for pair in collect(report_sample.federation(8), store).episodes
    }
    assert sorted(pairs) == sorted(report_sample.WORLDS)
    maze = pairs["maze"]
    assert maze.first and (maze.first.round, maze.first.success) == (1, False)
    assert maze.last and (maze.last.round, maze.last.success) == (8, True)
    assert maze.last.turns[1].role == "agent"
    assert maze.last.turns[1].text == "move right"


def test_trajectories_can_be_left_out(store: MemoryStore) -> None:
    data = collect(report_sample.federation(8), store, episodes=False)
    assert data.episodes == ()
    assert not [key for key in store.reads if "experience" in key]


def test_without_a_store_the_status_alone_makes_the_curve() -> None:
    data = collect(report_sample.federation(8), None)
    assert len(data.evaluated) == 9
    assert data.played == ()


def test_denied_experience_is_one_note_and_no_error(store: MemoryStore) -> None:
    store.broken = {"experience/": Denied("no")}
    data = collect(report_sample.federation(8), store)
    assert data.episodes == ()
    assert data.notes == (
        "Not shown: episodes of babyai, maze, textcraft, webshop and 1 more: "
        "the credentials may not read it.",
    )


def test_an_unreachable_store_is_asked_only_once(store: MemoryStore) -> None:
    store.broken = {"": Unreachable("gone")}
    data = collect(report_sample.federation(8), store)
    assert len(store.reads) == 1
    assert data.notes == ("Not shown: facts of round 1: the object store did not answer.",)


def test_other_store_errors_are_told_in_their_own_words(store: MemoryStore) -> None:
    error: HansaError = Corrupt("sha256 differs")
    store.broken = {"global/00002": error}
    data = collect(report_sample.federation(8), store)
    assert "Not shown: facts of round 2: sha256 differs." in data.notes


def test_a_manifest_without_end_is_not_read_to_its_end(store: MemoryStore) -> None:
    store.objects[bucket_keys.global_folder(PREFIX, 2) + bucket_keys.MANIFEST] += b" " * MOST_BYTES
    notes = collect(report_sample.federation(8), store).notes
    assert notes == ("Not shown: facts of round 2: its document is garbled or of another version.",)


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b"\xff\xfe", b'{"kind": "global"}', b"1e999"]
)
def test_a_garbled_manifest_costs_its_round_only(store: MemoryStore, garbage: bytes) -> None:
    store.objects[bucket_keys.global_folder(PREFIX, 2) + bucket_keys.MANIFEST] = garbage
    data = collect(report_sample.federation(8), store)
    assert data.rounds[2].parts == {}
    assert len(data.rounds[3].parts) == 5
    assert len(data.notes) == 1


def test_figures_that_are_none_are_left_out(store: MemoryStore) -> None:
    odd = {
        "counts": {"explored": -4, "succeeded": "many", "kept": True, "experience": 10**400},
        "norm": "NaN",
        "loss": None,
        "seconds": {"train": -1, "send": 2, "explore": [1]},
    }
    manifest = report_sample.manifest(2, ["maze"], updates={"maze": odd, "wordle": {"counts": 3}})
    key = bucket_keys.global_folder(PREFIX, 2) + bucket_keys.MANIFEST
    store.objects[key] = manifest.model_dump_json(by_alias=True).encode()
    maze = collect(report_sample.federation(8), store).rounds[2].parts["maze"]
    assert (maze.explored, maze.succeeded, maze.kept, maze.experience) == (None,) * 4
    assert (maze.norm, maze.loss, maze.seconds) == (None, None, {"send": 2.0})


def test_experience_in_a_private_store_is_read_only_with_that_store(store: MemoryStore) -> None:
    given = report_sample.federation(2)
    document = given.to_json()
    elsewhere = {"s3": {"bucket": "silo", "prefix": "mine"}}
    document["spec"]["environments"][1]["experienceStorage"] = elsewhere
    changed = type(given).model_validate_json(json.dumps(document))
    without = collect(changed, store)
    assert "maze" not in {pair.environment for pair in without.episodes}
    assert "private store" in without.notes[0]
    silo = MemoryStore()
    silo.objects[bucket_keys.experience_shard("mine", "maze", 1)] = report_sample.shard(
        [report_sample.episode(1, 1)]
    )
    held = collect(changed, store, private={"maze": silo})
    assert "maze" in {pair.environment for pair in held.episodes}


def test_sealed_experience_is_shown_with_the_silos_key_and_a_note_without(
    store: MemoryStore,
) -> None:
    given, own, key = (
        report_sample.federation(2),
        sealing.generate_opening_key(),
        bucket_keys.experience_shard,
    )
    for name in (key(PREFIX, "maze", round_) for round_ in (1, 2)):
        store.objects[name] = sealing.seal(
            sealing.OwnKey(private=own.private), name, store.objects[name]
        )
    for opening, is_shown in (([own], True), ([], False)):
        private = {"maze": ExperienceStore(store, PREFIX, "maze", opening)}
        page = collect(given, store, private=private)
        assert ("maze" in {pair.environment for pair in page.episodes}) is is_shown
        assert any("it is sealed to the silo's own key" in n for n in page.notes) is not is_shown


def test_rounds_that_the_status_dropped_are_named() -> None:
    given = report_sample.federation(8)
    del given.status.history[1:4]
    data = collect(given, None)
    assert data.notes[0].startswith("Not shown: 3 of 9 rounds (the first is 1)")


def test_a_shard_that_unfolds_into_gigabytes_is_not_unfolded() -> None:
    bomb = zstandard.compress(b"\0" * (1 << 28))
    assert len(bomb) < shards.HEAD_BYTES
    assert shards.read_first_episode(bomb, 1) is None


def test_the_head_of_a_cut_shard_is_enough() -> None:
    noise = [report_sample.episode(1, 1, task=f"maze-{n}-{n * 7919 % 10007}") for n in range(3000)]
    whole = report_sample.shard(noise)
    episode = shards.read_first_episode(whole[: len(whole) // 2], 1)
    assert episode and episode.task == "maze-0-0"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no zstd", id="no zstd"),
        pytest.param(zstandard.compress(b"no json\n[1]\n{}\n"), id="no episode in it"),
        pytest.param(zstandard.compress(b"[" * 100_000), id="too deep"),
    ],
)
def test_a_garbled_shard_has_no_episode(data: bytes) -> None:
    assert shards.read_first_episode(data, 1) is None


def test_odd_turns_are_skipped() -> None:
    turns = [1, {"role": "agent"}, {"text": 3}, {"role": "root", "text": "x" * 50_000}]
    episode = shards.read_first_episode(
        report_sample.shard([{"turns": turns, "reward": "much"}]), 4
    )
    assert episode is not None
    assert [turn.role for turn in episode.turns] == ["user"]
    assert len(episode.turns[0].text) == 20_000
    assert (episode.reward, episode.success, episode.round) == (None, False, 4)
