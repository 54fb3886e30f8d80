"""Evaluations: honest intervals, written once, never another run's."""

import pytest

from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import EvaluationDocument, Figures
from hansa.core.errors import AnotherRun, Corrupt
from hansa_client import evaluation
from hansa_client.trajectory import Episode
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import Assign

KEY = "run/evaluations/maze/00000.json"
TALLIES = "run/experience/maze/evaluations/00000.json"


def episodes(*outcomes: bool) -> list[Episode]:
    return [
        Episode(
            task=f"t{n % 2}", sample=n, round=0, source="evaluation", seed=1, success=won, turns=[]
        )
        for n, won in enumerate(outcomes)
    ]


def find(store: MemoryStore, assignment: Assignment) -> EvaluationDocument | None:
    return evaluation.find(store, store, assignment, evaluation.make_subject(assignment))


def commit(
    store: MemoryStore,
    assignment: Assignment,
    played: list[Episode],
    seconds: float,
    broken: int = 0,
    private: MemoryStore | None = None,
) -> EvaluationDocument:
    subject = evaluation.make_subject(assignment)
    return evaluation.commit(
        store, private or store, assignment, subject, played, seconds, broken=broken
    )


def test_an_evaluation_is_written_once(assign: Assign) -> None:
    store = MemoryStore()
    assert find(store, assign()) is None
    first = commit(store, assign(), episodes(True, False, True), 1.5)
    assert list(store.objects) == [TALLIES, KEY]
    assert (first.successes, first.episodes, first.task_count) == (2, 3, 2)
    assert commit(store, assign(), episodes(False), 9.0) == first
    assert find(store, assign(round=2)) == first
    assert evaluation.make_report(first).successes == 2


@pytest.mark.attack(
    by="a reader of the bucket",
    does="learns which held-out tasks a silo can do",
    result="only counts are there",
)
def test_no_document_that_others_read_names_a_task(assign: Assign) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    assignment = assign()
    played = episodes(True, False, True)
    greedy = {"t0": [1, 1], "t1": [0, 1]}
    subject = evaluation.make_subject(assignment)
    made = evaluation.commit(exchange, private, assignment, subject, played, 1.0, greedy=greedy)
    assert list(exchange.objects) == [KEY]
    assert b"t0" not in exchange.objects[KEY] and b"t1" not in exchange.objects[KEY]
    assert made.greedy_figures == Figures(episodes=2, successes=1)
    assert list(private.objects) == [TALLIES]
    kept = evaluation.read_tallies(private, assignment, subject)
    assert kept is not None
    assert (kept.tasks, kept.greedy) == ({"t0": [2, 2], "t1": [0, 1]}, greedy)


def test_after_a_kill_between_the_two_the_counts_are_those_of_the_stored_tasks(
    assign: Assign,
) -> None:
    """On a GPU a second attempt may draw other tokens: what is stored first is right."""
    exchange, private, assignment = MemoryStore(), MemoryStore(), assign()
    commit(MemoryStore(), assignment, episodes(True, False, True), 1.0, private=private)
    made = commit(exchange, assignment, episodes(False, False, False), 1.0, private=private)
    assert (made.successes, made.episodes) == (2, 3)


def test_tasks_that_the_private_store_has_lost_are_unknown(assign: Assign) -> None:
    store, assignment = MemoryStore(), assign()
    commit(store, assignment, episodes(True, False), 1.0)
    del store.objects[TALLIES]
    assert evaluation.read_tallies(store, assignment, evaluation.make_subject(assignment)) is None


def test_another_runs_tasks_are_refused(assign: Assign) -> None:
    store = MemoryStore()
    commit(store, assign(), episodes(True), 1.0)
    subject = evaluation.make_subject(assign())
    with pytest.raises(AnotherRun, match="seed 7 there, 8 here"):
        evaluation.read_tallies(store, assign(seed=8), subject)
    store.objects[TALLIES] = b"{}"
    with pytest.raises(Corrupt, match=f"^{TALLIES}: "):
        evaluation.read_tallies(store, assign(), subject)


def test_dropped_episodes_are_counted_and_repeats_are_worth_less_than_their_number(
    assign: Assign,
) -> None:
    played = episodes(*([True, False] * 8))
    document = commit(MemoryStore(), assign(), played, 1.0, broken=3)
    report = evaluation.make_report(document)
    assert (report.episodes, report.broken) == (16, 3)
    assert report.effective is not None
    assert report.effective <= 2
    once = commit(MemoryStore(), assign(), episodes(True, False), 1.0)
    assert evaluation.make_report(once).effective is None


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
    store, assignment = MemoryStore(), assign(round=1)
    subject = evaluation.make_subject(assignment, "b" * 64)
    made = evaluation.commit(store, store, assignment, subject, episodes(True, False), 1.0)
    assert list(store.objects) == [
        "run/experience/maze/evaluations/00001-own.json",
        "run/evaluations/maze/00001-own.json",
    ]
    assert evaluation.find(store, store, assignment, subject) == made
    assert evaluation.count_successes(made) == Figures(episodes=2, successes=1)
    with pytest.raises(AnotherRun, match="adapter_sha256"):
        evaluation.find(store, store, assignment, evaluation.make_subject(assignment, "c" * 64))
