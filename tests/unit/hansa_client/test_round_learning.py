"""The learning of a round: every learner, a kept optimizer, and training that goes wrong."""

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.bucket_documents import StartAdapter, sha256
from hansa.core.errors import Diverged
from hansa_client.training.scoring import Scorer
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import SHARD, SHOWN, UPDATE, Assign, Killed, manifest, play


def test_a_round_of_several_samples_ends_with_an_update_or_says_that_it_learned_nothing(
    assign: Assign,
) -> None:
    store = MemoryStore()
    exploration = {"tasksPerRound": 3, "samplesPerTask": 4, "maxNewTokens": 16}
    training = {"learner": "reward-weighted", "learningRate": 1e-3, "epochs": 1}
    report = play(store, assign(exploration=exploration, training=training, evaluate=False))
    document = manifest(store)
    assert document.trained is bool(document.counts.kept) is report.trained
    assert set(document.learning.pass_at) == {"1", "2", "4"}
    assert document.learning.skipped == 0


def test_a_kept_optimizer_goes_on_in_the_next_round_and_a_killed_one_repeats_itself(
    assign: Assign,
) -> None:
    store, kept = MemoryStore(), "run/experience/maze/optimizer/00001.safetensors"
    assignment = assign(
        exploration={"tasksPerRound": 0},
        training={"learningRate": 1e-3, "epochs": 1, "optimizerState": "keep"},
        evaluate=False,
    )

    def kill(key: str) -> None:
        if key == UPDATE + bucket_keys.ADAPTER:
            raise Killed

    store.before_put = kill
    with pytest.raises(Killed):
        play(store, assignment)
    before = store.objects[kept]
    store.before_put = lambda key: None
    play(store, assignment)
    assert store.objects[kept] == before
    data = store.objects[UPDATE + bucket_keys.ADAPTER]
    store.objects["run/global/00001/adapter_model.safetensors"] = data
    start = StartAdapter(round=1, sha256=sha256(data))
    again = assignment.model_copy(update={"round": 2, "start": start})
    fresh_training = assignment.settings.training.model_copy(update={"optimizer_state": "fresh"})
    settings = assignment.settings.model_copy(update={"training": fresh_training})
    fresh_store = MemoryStore()
    fresh_store.objects = dict(store.objects)
    play(store, again)
    play(fresh_store, again.model_copy(update={"settings": settings}))
    second = "run/updates/maze/00002/" + bucket_keys.ADAPTER
    assert store.objects[second] != fresh_store.objects[second]
    assert kept.replace("00001", "00002") in store.objects
    assert kept.replace("00001", "00002") not in fresh_store.objects


def test_training_that_diverges_names_the_learning_rate(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lora, "is_finite", lambda tensors: False)
    with pytest.raises(Diverged, match=r"^spec\.training\.learningRate: got 0\.001"):
        play(MemoryStore(), assign())


def test_a_loss_that_is_no_number_sends_nothing_and_keeps_what_was_explored(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Scorer.loss
    monkeypatch.setattr(Scorer, "loss", lambda *args: real(*args) * float("nan"))
    store = MemoryStore()
    with pytest.raises(Diverged, match=r"loss nan in step 1 of \d+"):
        play(store, assign(evaluate=False))
    assert set(store.objects) == {SHOWN, SHARD}
