"""What a finished run says, read from its bucket."""

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import (
    EvaluationDocument,
    PersonalManifest,
    StartAdapter,
    TaskTallies,
    UpdateManifest,
    canonical,
)
from hansa.api.status import AdapterStatus, FederationStatus
from hansa.compare.collect import Finished, read_result
from hansa.compare.comparison import Run
from hansa.compare.drive import list_telling
from hansa.compare.results import row
from hansa.core.errors import InvalidDocument
from hansa.core.stats import effective_episodes
from hansa.local.results import choose_served_round
from tests.support.builders import make_federation, with_status
from tests.support.memory_store import MemoryStore

KEPT, PLAYED = 1, 2
"""Rounds of the adapter that a guard kept, and of the one that was evaluated last."""
STATUS = FederationStatus(
    round=PLAYED,
    evaluated=PLAYED,
    adapter=AdapterStatus(round=KEPT, uri="s3://bucket/x", sha256="a" * 64),
)


def made(run: Run, **fields: object) -> dict[str, object]:
    same = {"program": "1", "environment": "maze", "fingerprint": "a" * 64, "inputs": {}}
    return {**same, "adapter": StartAdapter(round=PLAYED, sha256="a" * 64).to_json(), **fields}


@pytest.fixture
def run() -> Run:
    federation = make_federation("maze", personalization="best")
    return Run(method="m", base="fed-se", seed=1, federation=federation, silos=federation)


def test_what_silos_serve_is_found_though_a_guard_kept_an_earlier_adapter(run: Run) -> None:
    store = MemoryStore()
    for round_, won in ((KEPT, 1), (PLAYED, 0)):
        played = {"temperature": 1.0, "episodes": 1, "successes": won, "taskCount": 1}
        document = EvaluationDocument.model_validate(made(run, **played))
        store.objects[bucket_keys.evaluation("run", "maze", round_)] = canonical(document.to_json())
    own = made(run, choice="finetuned-2", validation={}, tasks={"t": [1, 1], "u": [1, 1]})
    manifest = PersonalManifest.model_validate(own)
    folder = bucket_keys.personal_folder("run", "maze", PLAYED)
    store.objects[folder + bucket_keys.MANIFEST] = canonical(manifest.to_json())
    result = read_result(run, Finished(run, store, "run", PLAYED), STATUS, "here")
    assert (result.final, result.serves) == (KEPT, {"maze": "finetuned-2"})
    assert [(row.round, row.tasks) for row in result.rows if row.of == "maze"] == [(KEPT, 2)]


def test_a_row_is_made_of_counts_and_says_what_tasks_would(run: Run) -> None:
    tasks = {f"t{n}": [n % 3, 2] for n in range(9)}
    won = sum(tally[0] for tally in tasks.values())
    worth = effective_episodes([(each, played) for each, played in tasks.values()])
    store = MemoryStore()
    counts = {"temperature": 1.0, "episodes": 18, "successes": won}
    greedy = {"greedyFigures": {"episodes": 4, "successes": 1}}
    fields = {**counts, "taskCount": 9, "worth": worth, **greedy}
    document = EvaluationDocument.model_validate(made(run, **fields))
    store.objects[bucket_keys.evaluation("run", "maze", 2)] = canonical(document.to_json())
    [found] = Finished(run, store, "run", 2).rows()
    assert found == row(run, "maze", tasks, 2, greedy={"t0": [1, 2], "t1": [0, 2]})
    assert found.tasks == 9 and found.greedy == 0.25 and found.effective < 18


def test_tasks_of_a_pool_are_read_from_its_private_place() -> None:
    given = {"federation": make_federation("centre"), "silos": make_federation("maze", "wordle")}
    base = Run(method="centralized", base="centralized", seed=1, **given)
    store = MemoryStore()
    counts = {"temperature": 1.0, "episodes": 2, "successes": 1, "taskCount": 2}
    document = EvaluationDocument.model_validate(made(base, **{**counts, "environment": "centre"}))
    store.objects[bucket_keys.evaluation("run", "centre", 2)] = canonical(document.to_json())
    finished = Finished(base, store, "run", 2)
    with pytest.raises(InvalidDocument, match="its tasks are not in the store"):
        finished.rows()
    fields = {"environment": "centre", "tasks": {"maze/a": [1, 1], "wordle/b": [0, 1]}}
    tallies = TaskTallies.model_validate(made(base, **fields))
    key = bucket_keys.evaluation_tasks("run", "centre", 2)
    store.objects[key] = canonical(tallies.to_json())
    found = {
        row.environment: (row.success, row.episodes) for row in finished.rows() if row.episodes
    }
    assert found == {"maze": (1.0, 1), "wordle": (0.0, 1)}


def test_every_document_of_a_run_is_read_once(run: Run) -> None:
    store = MemoryStore()
    for round_ in (1, 2):
        manifest = UpdateManifest.model_validate(
            {
                **{k: v for k, v in made(run).items() if k != "adapter"},
                "round": round_,
                "baseModel": "b" * 64,
                "start": {},
                "trained": True,
                "files": {},
                "counts": {"steps": 3},
            }
        )
        key = bucket_keys.update_folder("run", "maze", round_) + bucket_keys.MANIFEST
        store.objects[key] = canonical(manifest.to_json())
    result = read_result(run, Finished(run, store, "run", 2), STATUS, "here")
    assert (result.work.steps, result.base_model) == (6, "b" * 64)
    assert sorted(store.read) == sorted(set(store.read)) == sorted(store.objects)


def test_the_adapter_of_no_round_is_no_object(run: Run) -> None:
    assert Finished(run, MemoryStore(), "run", 2).shared_adapter(0) == b""


@pytest.mark.parametrize(("asked", "round_"), [("last", PLAYED), ("1", 1)])
def test_what_a_silo_serves_last_was_chosen_after_the_last_evaluation(
    asked: str, round_: int
) -> None:
    assert choose_served_round(with_status(make_federation(), STATUS), asked) == round_


def of(method: str) -> Run:
    shown = {"exploration": {"tasksPerRound": 0}} if method == "fedit" else {}
    federation = make_federation(**shown)
    return Run(method=method, base=method, seed=1, federation=federation, silos=federation)


@pytest.mark.parametrize(
    ("methods", "telling"),
    [
        (["pre-trained", "fedit", "fed-se"], ["fed-se"]),
        (["pre-trained", "fedit"], ["fedit"]),
        (["pre-trained"], []),
    ],
)
def test_the_time_is_told_by_a_run_that_explores_or_at_least_trains(
    methods: list[str], telling: list[str]
) -> None:
    assert [run.method for run in list_telling([of(method) for method in methods])] == telling
