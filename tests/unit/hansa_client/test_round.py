"""A client's round: whole, resumed at each step, empty, and of what it learns."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import sha256
from hansa.api.task_kinds import PARTS
from hansa.core import logs
from hansa_client.experience.shards import Shards
from hansa_client.last import evaluate_only
from hansa_client.models import base_model
from hansa_client.round import play_round
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import (
    BY_TASK,
    MEASURED,
    SHARD,
    SHOWN,
    UPDATE,
    Assign,
    Killed,
    manifest,
    play,
    play_apart,
    result,
)


def test_a_round_leaves_data_first_and_its_manifest_last(
    whole: tuple[MemoryStore, ClientReport],
) -> None:
    store, _ = whole
    files = [
        UPDATE + name for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG, bucket_keys.MANIFEST)
    ]
    assert store.written == [BY_TASK, MEASURED, SHOWN, SHARD, *files]
    document = manifest(store)
    assert document.trained
    assert document.counts.explored == 6
    assert document.counts.experience == 9
    assert document.counts.kept == 3 + document.counts.succeeded
    assert document.counts.steps > 0
    assert document.norm > 0
    assert document.loss > 0
    for name, entry in document.files.items():
        data = store.objects[UPDATE + name]
        assert (entry.sha256, entry.size) == (sha256(data), len(data))
    assert document.base_model == base_model.compute_digest(base_model.resolve("builtin:tiny"))
    assert {"load", "evaluate", "explore", "train", "send"} <= document.seconds.keys()


def test_the_manifest_tells_how_exploring_went(whole: tuple[MemoryStore, ClientReport]) -> None:
    store, report = whole
    learning = manifest(store).learning
    assert learning.solved == report.solved <= manifest(store).counts.succeeded
    assert sum(played for _, played in learning.groups.values()) == manifest(store).counts.explored
    assert sum(won for won, _ in learning.groups.values()) == manifest(store).counts.succeeded
    assert report.kinds == {
        kind: won * PARTS // played for kind, (won, played) in learning.groups.items()
    }
    assert learning.entropy is not None
    assert 0 < learning.entropy < 5
    assert learning.entropy == report.entropy
    assert (learning.pass_at, learning.skipped, learning.micro_batch_tokens) == ({}, 0, 0)


def test_the_report_tells_what_the_manifest_says(
    whole: tuple[MemoryStore, ClientReport],
) -> None:
    store, report = whole
    document = manifest(store)
    assert report.environment == 1
    assert report.trained
    assert report.manifest == sha256(store.objects[UPDATE + bucket_keys.MANIFEST])
    assert report.counts == document.counts
    assert report.bytes == sum(entry.size for entry in document.files.values())
    assert report.evaluation is not None
    assert report.evaluation.episodes == 4


@pytest.mark.slow
def test_the_folder_is_a_peft_adapter(
    whole: tuple[MemoryStore, ClientReport], tmp_path: Path
) -> None:
    from peft import PeftModel

    store, _ = whole
    for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG):
        (tmp_path / name).write_bytes(store.objects[UPDATE + name])
    fresh = base_model.load("builtin:tiny", base_model.resolve("builtin:tiny"), 1, for_peft=True)
    loaded = PeftModel.from_pretrained(fresh.model, str(tmp_path))
    ours = lora.decode(store.objects[UPDATE + bucket_keys.ADAPTER])
    for name, tensor in loaded.named_parameters():
        if "lora_" in name:
            assert (tensor.detach().numpy() == ours[name.replace(".default", "")]).all()


def test_the_same_assignment_gives_the_same_bytes(
    whole: tuple[MemoryStore, ClientReport], assignment: Assignment
) -> None:
    again = MemoryStore()
    play(again, assignment)
    assert result(again) == result(whole[0])
    assert again.objects[SHARD] == whole[0].objects[SHARD]


@pytest.mark.parametrize(
    "at, kept",
    [
        pytest.param(BY_TASK, "", id="before the evaluation by tasks"),
        pytest.param(MEASURED, BY_TASK, id="before the evaluation"),
        pytest.param(SHOWN, MEASURED, id="before the demonstrations"),
        pytest.param(SHARD, SHOWN, id="before the shard"),
        pytest.param(UPDATE + bucket_keys.ADAPTER, SHARD, id="before the adapter"),
        pytest.param(
            UPDATE + bucket_keys.CONFIG, UPDATE + bucket_keys.ADAPTER, id="before the config"
        ),
        pytest.param(
            UPDATE + bucket_keys.MANIFEST, UPDATE + bucket_keys.CONFIG, id="before the manifest"
        ),
    ],
)
def test_a_killed_client_goes_on_and_ends_with_the_same_bytes(
    whole: tuple[MemoryStore, ClientReport], assignment: Assignment, at: str, kept: str
) -> None:
    store = MemoryStore()

    def kill(key: str) -> None:
        if key == at:
            raise Killed

    store.before_put = kill
    with pytest.raises(Killed):
        play(store, assignment)
    before = dict(store.objects)
    assert not kept or kept in before
    store.before_put = lambda key: None
    play(store, assignment)
    assert result(store) == result(whole[0])
    assert all(store.objects[key] == data for key, data in before.items())
    assert manifest(store).counts == manifest(whole[0]).counts


def test_what_is_stored_is_not_made_again(
    whole: tuple[MemoryStore, ClientReport], assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    store.objects = {
        k: v for k, v in whole[0].objects.items() if k != UPDATE + bucket_keys.MANIFEST
    }

    def never(*args: Any) -> Any:
        raise AssertionError("this was done already")

    monkeypatch.setattr("hansa_client.rollout.episodes.play", never)
    monkeypatch.setattr("hansa_client.learners.get", never)
    report = play(store, assignment)
    assert store.written == [UPDATE + bucket_keys.MANIFEST]
    assert report.counts == whole[1].counts
    assert report.norm == whole[1].norm


def test_a_committed_round_is_reported_again_without_loading_torch(
    whole: tuple[MemoryStore, ClientReport], assignment: Assignment, tmp_path: Path
) -> None:
    store, report = whole
    (tmp_path / "objects.json").write_text(
        json.dumps({k: v.hex() for k, v in store.objects.items() if not k.endswith("zst")})
    )
    program = (
        "import json, sys\n"
        "from hansa.core import logs\n"
        "from hansa.api.assignment import decode_assignment\n"
        "from hansa_client.round import play_round\n"
        "from hansa_client.silo import Silo\n"
        "from tests.support.memory_store import MemoryStore\n"
        "store = MemoryStore()\n"
        "objects = json.load(open(sys.argv[1]))\n"
        "store.objects = {k: bytes.fromhex(v) for k, v in objects.items()}\n"
        "assignment = decode_assignment(sys.argv[2])\n"
        "print(play_round(Silo(assignment, store, store, logs.get('client'))).model_dump_json())\n"
        "heavy = {'torch', 'transformers', 'peft'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            str(tmp_path / "objects.json"),
            assignment.model_dump_json(),
        ],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert ended.returncode == 0, ended.stderr
    assert ClientReport.model_validate_json(ended.stdout) == report


def test_a_slow_twin_with_other_bytes_goes_on_with_the_stored_ones(
    whole: tuple[MemoryStore, ClientReport], assignment: Assignment
) -> None:
    store = MemoryStore()
    tensors = lora.decode(whole[0].objects[UPDATE + bucket_keys.ADAPTER])
    twins = lora.encode({name: array * 2 for name, array in tensors.items()})

    def faster_twin(key: str) -> None:
        if key == UPDATE + bucket_keys.ADAPTER:
            store.objects.setdefault(key, twins)

    store.before_put = faster_twin
    play(store, assignment)
    assert store.objects[UPDATE + bucket_keys.ADAPTER] == twins
    assert manifest(store).files[bucket_keys.ADAPTER].sha256 == sha256(twins)


def test_the_first_of_two_manifests_is_reported(assignment: Assignment) -> None:
    store, first = MemoryStore(), MemoryStore()
    play(first, assignment)

    def faster_twin(key: str) -> None:
        if key == UPDATE + bucket_keys.MANIFEST:
            store.objects.setdefault(key, first.objects[key])

    store.before_put = faster_twin
    assert play(store, assignment).manifest == sha256(first.objects[UPDATE + bucket_keys.MANIFEST])


def test_without_any_experience_nothing_is_trained_and_the_manifest_says_so(
    assign: Assign,
) -> None:
    store = MemoryStore()
    assignment = assign(exploration={"tasksPerRound": 0}, experience={"demonstrations": 0})
    report = play(store, assignment)
    assert not report.trained
    assert report.bytes == 0
    document = manifest(store)
    assert not document.trained
    assert document.files == {}
    assert document.counts.kept == 0
    assert result(store) == {}


def test_zero_new_successes_train_on_the_old_experience(assign: Assign) -> None:
    report = play(MemoryStore(), assign(exploration={"tasksPerRound": 0}))
    assert report.trained
    assert report.counts.explored == 0
    assert report.counts.kept == 3


def second(store: MemoryStore, assign: Assign, **fields: Any) -> ClientReport:
    """Round 2 from a global adapter that is round 1's update."""
    data = store.objects[UPDATE + bucket_keys.ADAPTER]
    store.objects["run/global/00001/adapter_model.safetensors"] = data
    start = {"round": 1, "sha256": sha256(data)}
    return play(store, assign(round=2, start=start, **fields))


@pytest.mark.parametrize(
    "rules, experience, kept",
    [
        pytest.param({}, 15, "old and new successes", id="history"),
        pytest.param({"history": False}, 9, "new successes", id="no history"),
        pytest.param({"filter": "none"}, 15, "everything", id="no filter"),
        pytest.param({"maxTrajectories": 2}, 15, "two", id="a cap"),
    ],
)
def test_the_second_round_learns_from_what_the_rules_say(
    whole: tuple[MemoryStore, ClientReport],
    assign: Assign,
    rules: dict[str, Any],
    experience: int,
    kept: str,
) -> None:
    store = MemoryStore()
    store.objects = dict(whole[0].objects)
    report = second(store, assign, experience={"demonstrations": 3, **rules})
    old, new = whole[1].counts.succeeded, report.counts.succeeded
    expected = {
        "old and new successes": 3 + old + new,
        "new successes": 3 + new,
        "everything": 15,
        "two": 2,
    }
    assert report.counts.experience == experience
    assert report.counts.kept == expected[kept]
    assert report.evaluation is not None
    assert report.evaluation.round == 1
    assert "run/evaluations/maze/00001.json" in store.objects


def test_evaluating_alone_measures_once_and_trains_nothing(assign: Assign) -> None:
    store = MemoryStore()
    assignment = assign(role="evaluate", round=0)
    first = evaluate_only(Silo(assignment, store, store, logs.get("client")))
    again = evaluate_only(Silo(assignment, store, store, logs.get("client")))
    assert first.evaluation == again.evaluation
    assert first.evaluation.episodes == 4
    assert store.written == [BY_TASK, MEASURED]


def test_a_round_that_is_not_to_be_evaluated_is_not(assign: Assign) -> None:
    store = MemoryStore()
    report = play(store, assign(evaluate=False, exploration={"tasksPerRound": 1}))
    assert report.evaluation is None
    assert MEASURED not in store.objects


@pytest.mark.attack(
    by="a reader of the bucket",
    does="looks for a silo's trajectories, where it has an `experienceStorage`",
    result="finds none: they are in the silo's own store alone",
)
def test_experience_goes_to_the_private_store_alone(assign: Assign) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    assignment = assign(experience_storage={"bucket": "secret", "prefix": "mine"}, evaluate=False)
    play_round(Silo(assignment, exchange, private, logs.get("client")))
    assert all(key.startswith("run/updates/maze/") for key in exchange.objects)
    assert set(private.objects) == {
        "mine/experience/maze/00000.jsonl.zst",
        "mine/experience/maze/00001.jsonl.zst",
    }
    assert Shards(private, assignment).list_rounds() == [0, 1]


@pytest.mark.attack(
    by="the coordinator",
    does="deletes a silo's evaluation from the bucket and orders it again, to have more played",
    result="nothing is played: a store of the silo's own has a copy",
)
def test_an_evaluation_that_was_deleted_is_published_again_and_not_played(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    assignment = assign(experience_storage={"bucket": "own", "prefix": "mine"})
    play_apart(exchange, private, assignment)
    published = exchange.objects.pop(MEASURED)
    monkeypatch.setattr(Silo, "play_held_out", lambda *_: pytest.fail("it is played again"))
    play_apart(exchange, private, assignment)
    assert exchange.objects[MEASURED] == published
