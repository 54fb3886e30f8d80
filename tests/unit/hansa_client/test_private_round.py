"""A round with privacy: what it writes in which order, what it tells, and what it does not."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import EvaluationDocument, TaskTallies
from hansa.api.evaluation import Evaluation
from hansa_client.evaluation import make_report
from hansa_client.experience import shards
from hansa_client.privacy import NoisyCounts, Stream
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import (
    MEASURED,
    UPDATE,
    Assign,
    Killed,
    manifest,
    play_apart,
)
from tools.pages.private_silo import find_exact

ROOT = "own/experience/maze/"
RELEASES = [
    *("evaluation-00000.key", "evaluation-00000.json"),
    *("training-00001.key", "training-00001.json"),
]
"""In the ledger; a digest of the question follows the round."""


def list_releases(keys: Iterable[str]) -> dict[str, str]:
    """Objects of the ledger, by their names without the digest."""
    ledger = [key for key in keys if key.startswith(bucket_keys.privacy_root("maze"))]
    return {re.sub(r".*/(.*)-[0-9a-f]{16}", r"\1", key): key for key in ledger}


def test_ledger_and_keys_are_written_before_anything_leaves(private_assign: Assign) -> None:
    written: list[str] = []
    exchange, private = MemoryStore(), MemoryStore()
    exchange.written = private.written = written
    play_apart(exchange, private, private_assign())
    outside = [key for key in written if key.startswith("run/")]
    releases = list_releases(written)
    assert list(releases) == RELEASES
    assert written.index(releases["evaluation-00000.json"]) < written.index(MEASURED)
    assert (
        written.index(releases["training-00001.json"])
        < written.index(outside[1])
        == written.index(UPDATE + bucket_keys.ADAPTER)
    )
    assert written[-1] == UPDATE + bucket_keys.MANIFEST


def kill_at(store: MemoryStore, deadly: str, *, before: bool) -> None:
    """Kill the process just before a write, or just after it."""

    def put(key: str, data: bytes) -> None:
        if key == deadly and before:
            raise Killed
        MemoryStore.put_if_absent(store, key, data)
        if key == deadly:
            raise Killed

    vars(store)["put_if_absent"] = put


def let_live(store: MemoryStore) -> None:
    """Kill nobody any more."""
    del vars(store)["put_if_absent"]


@pytest.mark.attack(
    by="a writer of the bucket",
    does="deletes an update and lets the round run again, to average the noise away",
    result="gets the same bytes",
)
@pytest.mark.slow
def test_a_kill_at_each_write_gives_equal_bytes_and_never_a_second_sample(
    private_assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(range(1, 10_000))
    monkeypatch.setattr("os.urandom", lambda count: next(drawn).to_bytes(2, "big") * (count // 2))
    sample = MemoryStore()
    play_apart(MemoryStore(), sample, private_assign(evaluate=False))
    releases = list_releases(sample.objects)
    secret_key = releases["training-00001.key"]
    for key in [*releases.values(), UPDATE + bucket_keys.ADAPTER, UPDATE + bucket_keys.MANIFEST]:
        for before in (True, False):
            exchange, private = MemoryStore(), MemoryStore()
            for store in (exchange, private):
                kill_at(store, key, before=before)
            with pytest.raises(Killed):
                play_apart(exchange, private, private_assign(evaluate=False))
            secret = private.objects.get(secret_key)
            exchange.objects.pop(UPDATE + bucket_keys.MANIFEST, None)
            sent = exchange.objects.pop(UPDATE + bucket_keys.ADAPTER, None)  # a hostile owner may
            let_live(exchange)
            let_live(private)
            play_apart(exchange, private, private_assign(evaluate=False))
            again = exchange.objects[UPDATE + bucket_keys.ADAPTER]
            assert sent in (None, again)
            if secret:
                assert private.objects[secret_key] == secret
            exchange.objects.pop(UPDATE + bucket_keys.MANIFEST)
            exchange.objects.pop(UPDATE + bucket_keys.ADAPTER)
            play_apart(exchange, private, private_assign(evaluate=False))
            assert exchange.objects[UPDATE + bucket_keys.ADAPTER] == again


def test_no_document_no_line_and_no_report_has_an_exact_count(
    private_assign: Assign, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress: list[dict[str, Any]] = []
    monkeypatch.setattr("hansa.runtime.program.progress", lambda **fields: progress.append(fields))
    exchange, private = MemoryStore(), MemoryStore()
    report = play_apart(
        exchange, private, private_assign(exploration={"tasksPerRound": 17, "maxNewTokens": 64})
    )
    document = manifest(exchange)
    assert {k for k, v in document.counts.model_dump().items() if v} == {"explored", "steps"}
    assert (document.counts.explored, document.counts.steps) == (17, 3)
    measured = EvaluationDocument.model_validate_json(exchange.objects[MEASURED])
    assert (measured.episodes, measured.task_count) == (5, 5)
    for each in (document, measured, report):
        assert list(find_exact(each)) == []
    exact = {"succeeded", "experience", "kept", "tokens", "generated", "broken"}
    lines = capfd.readouterr().err
    told_of = set(re.findall(r"\b(\w+)=", lines))
    assert not told_of & {*exact, "successes", "episodes", "loss", "seconds", "faults", "skipped"}
    assert all("successes" not in fields for fields in progress)


@pytest.mark.attack(
    by="a reader of the bucket",
    does="reads counts, losses, seconds or logs of a run with `spec.privacy`",
    result="no exact figure is there",
)
def test_every_number_that_leaves_is_the_same_whatever_was_explored(
    private_assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two silos whose records differ altogether tell apart by noised figures and weights alone."""
    monkeypatch.setattr("os.urandom", lambda count: b"k" * count)
    told_of = []
    for is_taught in (True, False):
        exchange, private = MemoryStore(), MemoryStore()
        if not is_taught:
            monkeypatch.setattr("hansa_client.learners.success_sft.selection.choose", lambda *_: [])
        play_apart(exchange, private, private_assign())
        told_of.append({key: dict(_leaves(key, data)) for key, data in exchange.objects.items()})
    ours, theirs = told_of
    assert ours.keys() == theirs.keys()
    differing = {
        path
        for key in ours
        for path in ours[key].keys() | theirs[key].keys()
        if ours[key].get(path) != theirs[key].get(path)
    }
    assert differing <= {"sha256", "norm", "successes"}
    assert "norm" in differing


def _leaves(key: str, data: bytes) -> Iterator[tuple[str, Any]]:
    if not key.endswith(".json"):
        return

    def walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for inner, each in value.items():
                yield from walk(inner, each)
        else:
            yield name, value

    yield from walk("", json.loads(data))


def test_figures_of_held_out_tasks_have_noise_and_the_exact_ones_stay_in_the_silo(
    private_assign: Assign,
) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    report = play_apart(exchange, private, private_assign({"evaluationNoise": 1000.0}))
    tallies = TaskTallies.model_validate_json(private.objects[f"{ROOT}evaluations/00000.json"])
    assert len(tallies.tasks) == 5
    measured = EvaluationDocument.model_validate_json(exchange.objects[MEASURED])
    assert measured.successes in (0, 5)
    assert measured.validation and measured.validation.successes in (0, 3)
    assert report.evaluation and report.evaluation.successes == measured.successes


def test_an_evaluation_that_was_deleted_comes_again_with_the_same_noise(
    private_assign: Assign,
) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    play_apart(exchange, private, private_assign())
    first = exchange.objects.pop(MEASURED)
    play_apart(exchange, private, private_assign())
    assert exchange.objects[MEASURED] == first


@pytest.mark.attack(
    by="a writer of the bucket",
    does="deletes an evaluation and asks again, for other tasks, under `spec.privacy`",
    result="gets the same answer, and nothing is played",
)
@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"tasks": 4, "validationTasks": 3}, id="a task less"),
        pytest.param({"tasks": 5, "validationTasks": 2}, id="a validation task less"),
        pytest.param({"tasks": 5, "validationTasks": 3, "samplesPerTask": 2}, id="more samples"),
        pytest.param({"tasks": 5}, id="no validation tasks"),
    ],
)
def test_nobody_gets_two_answers_about_one_adapter(
    private_assign: Assign, monkeypatch: pytest.MonkeyPatch, other: dict[str, int]
) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    play_apart(exchange, private, private_assign())
    first, spent = exchange.objects.pop(MEASURED), set(private.objects)
    monkeypatch.setattr(Silo, "play_held_out", lambda *_: pytest.fail("nothing is played again"))
    asked = private_assign().model_copy(
        update={
            "settings": private_assign().settings.model_copy(
                update={"evaluation": Evaluation.model_validate(other)}
            )
        }
    )
    report = play_apart(exchange, private, asked)
    assert exchange.objects[MEASURED] == first
    assert report.evaluation == make_report(EvaluationDocument.model_validate_json(first))
    assert set(private.objects) == spent, "no further release is paid for"


def test_the_noise_of_a_figure_depends_on_what_is_asked() -> None:
    counts = NoisyCounts(Stream(b"s" * 32, "evaluation"), 100.0, 1)
    shown = {
        (split, planned, successes, samples): replace(counts, samples=samples)
        .add_noise(split, successes, planned)
        .successes
        - successes
        for split in ("test", "validation")
        for planned in (10_000, 10_001)
        for successes in (5_000, 5_001)
        for samples in (1, 2)
    }
    assert len(set(shown.values())) > 12, "equal noise would cancel in a difference"


def test_a_silo_with_nothing_to_learn_sends_noise(
    private_assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansa_client.learners.success_sft.selection.choose", lambda *_: [])
    exchange = MemoryStore()
    report = play_apart(exchange, MemoryStore(), private_assign())
    assert report.trained
    assert manifest(exchange).norm > 0


def test_an_experts_failure_lets_no_other_task_in(
    private_assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = MemoryStore()
    play_apart(MemoryStore(), plain, private_assign(evaluate=False))
    shown = shards.decode(plain.objects[f"{ROOT}00000.jsonl.zst"], "here").episodes
    from hansa_client.experience import demonstrations

    real = demonstrations._play_expert_task

    def first_fails(world: Any, task: Any, *rest: Any) -> Any:
        episode = real(world, task, *rest)
        is_first = task.id == shown[0].task
        return episode.model_copy(update={"success": False}) if is_first else episode

    monkeypatch.setattr(demonstrations, "_play_expert_task", first_fails)
    without = MemoryStore()
    play_apart(MemoryStore(), without, private_assign(evaluate=False))
    left = shards.decode(without.objects[f"{ROOT}00000.jsonl.zst"], "here").episodes
    assert [episode.task for episode in left] == [episode.task for episode in shown[1:]]


def test_a_world_that_breaks_tells_nobody(
    private_assign: Assign, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from hansa_worlds.maze.world import Maze

    def broken(*_: Any) -> Any:
        raise RuntimeError("no map")

    monkeypatch.setattr(Maze, "_act", broken)
    exchange = MemoryStore()
    report = play_apart(exchange, MemoryStore(), private_assign())
    assert report.trained and report.counts.broken == 0
    assert "RuntimeError" not in capfd.readouterr().err
