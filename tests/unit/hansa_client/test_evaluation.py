"""Evaluations: honest intervals, written once, never another run's."""

from collections.abc import Callable

import pytest

from hansa.assignment import Assignment
from hansa.errors import AnotherRun, Corrupt
from hansa.manifest import EvaluationDocument, Figures
from hansa_client import evaluation
from hansa_client.trajectory import Episode
from tests.memory_store import MemoryStore

Assign = Callable[..., Assignment]
KEY = "run/evaluations/maze/00000.json"


def episodes(*outcomes: bool) -> list[Episode]:
    return [
        Episode(
            task=f"t{n % 2}", sample=n, round=0, source="evaluation", seed=1, success=won, turns=[]
        )
        for n, won in enumerate(outcomes)
    ]


def find(store: MemoryStore, told: Assignment) -> EvaluationDocument | None:
    return evaluation.find(store, told, evaluation.of_start(told))


def commit(
    store: MemoryStore, told: Assignment, played: list[Episode], seconds: float, broken: int = 0
) -> EvaluationDocument:
    subject = evaluation.of_start(told)
    return evaluation.commit(store, told, subject, played, seconds, broken=broken)


def test_an_evaluation_is_written_once(assign: Assign) -> None:
    store = MemoryStore()
    assert find(store, assign()) is None
    first = commit(store, assign(), episodes(True, False, True), 1.5)
    assert list(store.objects) == [KEY]
    assert (first.successes, first.episodes) == (2, 3)
    assert first.tasks == {"t0": [2, 2], "t1": [0, 1]}
    assert commit(store, assign(), episodes(False), 9.0) == first
    assert find(store, assign(round=2)) == first
    assert evaluation.report(first).successes == 2


def test_dropped_episodes_are_counted_and_repeats_are_worth_less_than_their_number(
    assign: Assign,
) -> None:
    played = episodes(*([True, False] * 8))
    document = commit(MemoryStore(), assign(), played, 1.0, broken=3)
    report = evaluation.report(document)
    assert (report.episodes, report.broken) == (16, 3)
    assert report.effective is not None
    assert report.effective <= 2
    once = commit(MemoryStore(), assign(), episodes(True, False), 1.0)
    assert evaluation.report(once).effective is None


def test_another_runs_evaluation_is_refused(assign: Assign) -> None:
    store = MemoryStore()
    commit(store, assign(), episodes(True), 1.0)
    with pytest.raises(AnotherRun, match="seed 7 there, 8 here"):
        find(store, assign(seed=8))
    with pytest.raises(AnotherRun, match="adapter_sha256"):
        find(store, assign(start={"round": 0, "sha256": "a" * 64}))
    store.objects[KEY] = b"{}"
    with pytest.raises(Corrupt, match=f"^{KEY}: "):
        find(store, assign())


def test_an_update_of_its_own_is_kept_apart_from_the_global_adapter_of_the_same_round(
    assign: Assign,
) -> None:
    store, told = MemoryStore(), assign(round=1)
    subject = evaluation.of_own(told, "b" * 64)
    made = evaluation.commit(store, told, subject, episodes(True, False), 1.0)
    assert list(store.objects) == ["run/evaluations/maze/00001-own.json"]
    assert evaluation.find(store, told, subject) == made
    assert evaluation.figures(made) == Figures(episodes=2, successes=1)
    with pytest.raises(AnotherRun, match="adapter_sha256"):
        evaluation.find(store, told, evaluation.of_own(told, "c" * 64))
