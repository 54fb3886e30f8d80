"""Rounds that have left the status are told again as the plan had told them."""

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import EvaluationDocument, Figures, StartAdapter, UpdateManifest
from hansa.api.status import Federation, HistoryEntry
from hansa.local import results
from hansa.store.documents import MOST_BYTES
from tests.support import report_sample
from tests.support.builders import with_spec
from tests.support.guard_plans import NAMES, guarded, outcomes, play
from tests.support.memory_store import MemoryStore
from tests.support.simulated_cluster import Cluster

PREFIX = "run"
DIGEST = "a" * 64


def documents(cluster: Cluster) -> MemoryStore:
    """What the Jobs of the cluster's rounds would have written."""
    store = MemoryStore()

    def put(key: str, document: object) -> None:
        store.objects[key] = document.model_dump_json(by_alias=True).encode()  # type: ignore[attr-defined]

    for entry in cluster.status.history:
        for name in entry.success:
            put(bucket_keys.evaluation(PREFIX, name, entry.round), evaluation(entry, name))
        if entry.adapter:
            manifest = report_sample.manifest(
                entry.round,
                list(NAMES),
                start=StartAdapter(round=start(cluster, entry.round)),
                files={bucket_keys.ADAPTER: {"sha256": entry.adapter, "size": 10}},
            )
            put(bucket_keys.global_folder(PREFIX, entry.round) + bucket_keys.MANIFEST, manifest)
        for name in NAMES if entry.round and entry.outcome != "failed" else ():
            folder = bucket_keys.update_folder(PREFIX, name, entry.round)
            put(folder + bucket_keys.MANIFEST, update(cluster, entry, name))
    return store


def start(cluster: Cluster, round_: int) -> int:
    found: int = cluster.requests[f"fed-r{round_}-{NAMES[0]}-a1"].assignment.start.round
    return found


def evaluation(entry: HistoryEntry, name: str) -> EvaluationDocument:
    validated = entry.validation.get(name)
    played = Figures(episodes=10, successes=round(10 * validated)) if validated else None
    return EvaluationDocument(
        program="1",
        environment=name,
        adapter=StartAdapter(round=entry.round),
        fingerprint=DIGEST,
        inputs={},
        temperature=1.0,
        episodes=10,
        successes=round(10 * entry.success[name]),
        validation=played,
    )


def update(cluster: Cluster, entry: HistoryEntry, name: str) -> UpdateManifest:
    return UpdateManifest(
        program="1",
        environment=name,
        round=entry.round,
        fingerprint=DIGEST,
        inputs={},
        base_model=DIGEST,
        start=StartAdapter(round=start(cluster, entry.round)),
        trained=entry.outcome != "empty",
    )


def read(federation: Federation, store: MemoryStore, *lost: int) -> list[HistoryEntry]:
    """The whole history, read with a status that has lost some rounds."""
    kept = [entry for entry in federation.status.history if entry.round not in lost]
    status = federation.status.model_copy(update={"history": kept})
    return results.list_every_round(federation.model_copy(update={"status": status}), store, PREFIX)


def facts(entries: list[HistoryEntry]) -> list[tuple[object, ...]]:
    return [(e.round, e.outcome, e.message, e.adapter, e.success, e.validation) for e in entries]


def assert_told_again(cluster: Cluster, *lost: int) -> list[HistoryEntry]:
    """The documents tell what the plan had told."""
    whole = read(cluster.federation, documents(cluster), *lost)
    assert facts(whole) == facts(cluster.status.history)
    return whole


def test_what_the_guard_rejected_is_told_with_its_reason() -> None:
    cluster = play(guarded(rounds=8), 3, 6, 2, 6, 7, 1, 7, 8)
    assert outcomes(cluster).count("rejected") == outcomes(cluster).count("rolled-back") == 2
    whole = assert_told_again(cluster, *range(1, 8))
    assert "fell from 60.0% (round 1) to 20.0% (round 2)" in whole[2].message


def test_a_round_that_failed_before_the_fall_was_found_has_failed() -> None:
    cluster = play(guarded(rounds=6), 3, 6)
    for name in NAMES:
        cluster.set(f"fed-r3-{name}-a1", "failed", exit_code=42)
    cluster = play(cluster.turn().change(training={"epochs": 1}), 2, 6, 7)
    expected = ["base", "aggregated", "rejected", "failed", "rolled-back", "aggregated"]
    assert outcomes(cluster)[:6] == expected
    assert_told_again(cluster, *range(1, 6))


def test_a_round_that_the_status_still_has_is_left_as_it_is() -> None:
    cluster = play(guarded(rounds=6), 3, 6, 2, 6, 7)
    assert_told_again(cluster, 1, 2)


def test_a_fall_before_there_was_a_guard_is_no_rejection() -> None:
    evaluation = {"validationTasks": 10}
    cluster = play(guarded(rounds=6, guard=None, evaluation=evaluation), 3, 6, 2, 6, 7)
    assert cluster.status.history[2].validation == {"babyai": 0.2, "maze": 0.2}
    assert "rejected" not in outcomes(cluster)
    federation = with_spec(cluster.federation, guard={"maxDrop": 0.1})
    whole = read(federation, documents(cluster), *range(1, 5))
    assert facts(whole) == facts(cluster.status.history)


def test_going_on_from_the_best_after_the_end_is_no_rejection() -> None:
    cluster = play(guarded(rounds=2, guard={"maxDrop": 0.3}), 3, 6, 5)
    assert cluster.status.phase == "Succeeded" and cluster.status.adapter.round == 1
    cluster = play(cluster.change(rounds=4), 6, 7)
    assert start(cluster, 3) == 1
    assert_told_again(cluster, 1, 2)


def test_a_round_that_is_open_has_not_failed() -> None:
    cluster = play(guarded(rounds=4), 3, 6)
    assert cluster.status.current.round == 3
    whole = read(cluster.federation, documents(cluster), 1, 2)
    assert [entry.round for entry in whole] == [0, 1, 2]


def test_an_update_that_is_no_manifest_is_no_answer() -> None:
    cluster = Cluster(*NAMES, rounds=2).turn()
    cluster.answer(*cluster.active(), trained=False).turn()
    store = documents(cluster)
    store.objects[bucket_keys.update_folder(PREFIX, NAMES[0], 1) + bucket_keys.MANIFEST] = b"{}"
    assert [entry.outcome for entry in read(cluster.federation, store, 1)] == ["base", "failed"]


@pytest.mark.parametrize("case", ["another document", "not JSON", "too long"])
def test_what_a_silo_writes_instead_of_its_documents_spoils_no_other_line(case: str) -> None:
    cluster = play(guarded(rounds=4), 3, 4, 5, 6)
    honest, store = read(cluster.federation, documents(cluster), 1, 2), documents(cluster)
    evaluated = bucket_keys.evaluation(PREFIX, NAMES[0], 1)
    sent = [key for key in store.objects if key.startswith(bucket_keys.updates_root(PREFIX))]
    own = [key for key in sent if f"/{NAMES[0]}/" in key]
    assert own
    for key in (evaluated, *own):
        padded = store.objects[key] + b" " * MOST_BYTES  # would be read, were it not so long
        store.objects[key] = {"another document": b"{}", "not JSON": b"\xff["}.get(case, padded)
    whole = read(cluster.federation, store, 1, 2)
    assert NAMES[0] in honest[1].success
    assert whole[1].success == {k: v for k, v in honest[1].success.items() if k != NAMES[0]}
    assert facts(whole[2:]) == facts(honest[2:])
    assert max(length for _, _, length in store.ranges) <= MOST_BYTES + 1


def test_without_a_guard_no_update_is_read() -> None:
    cluster = play(guarded(rounds=4, guard=None), 3, 6, 2, 6)
    store = documents(cluster)
    read(cluster.federation, store, 1, 2, 3)
    assert store.ranges
    read_ = [*store.read, *(key for key, _, _ in store.ranges)]
    assert not [key for key in read_ if key.startswith(bucket_keys.updates_root(PREFIX))]


def test_a_round_in_which_nobody_learned_or_nothing_was_shared_has_not_failed() -> None:
    empty = Cluster(*NAMES, rounds=2).turn()
    empty.answer(*empty.active(), trained=False).turn()
    alone = Cluster(*NAMES, rounds=2, aggregation={"strategy": "none"}).turn()
    alone.answer(*alone.active()).turn()
    for cluster, outcome in ((empty, "empty"), (alone, "apart")):
        assert outcomes(cluster) == ["base", outcome]
        whole = assert_told_again(cluster, 1)
        assert whole[1].updates == cluster.status.history[1].updates
