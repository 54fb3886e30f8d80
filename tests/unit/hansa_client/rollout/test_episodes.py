"""Rollouts: what is recorded is what the model saw, whichever episodes were played together."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hansa.core.errors import PermanentError
from hansa_client import seeds
from hansa_client.decoding import choose
from hansa_client.models import base_model
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import EpisodeJob, RolloutConfig
from hansa_client.rollout.live_episodes import LiveEpisode
from hansa_client.trajectory import Episode, render_all
from hansa_worlds import DEMO_OPTIONS, World, make

HOW = RolloutConfig(
    temperature=1.0, max_length=1024, batch_episodes=8, round=3, source="exploration"
)


def maker(name: str) -> Callable[[], World]:
    return lambda: make(name, DEMO_OPTIONS[name])


def jobs(name: str, count: int) -> list[EpisodeJob]:
    return tasks.choose_held_out_jobs(maker(name)().tasks("train"), count, seed=11)


@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_training_sees_exactly_what_the_rollout_saw(base: Base, name: str) -> None:
    for episode in episodes.play(base, maker(name), jobs(name, 6), HOW).episodes:
        answered = [turn for turn in episode.turns if turn.tokens]
        roles = {"user": "user", "agent": "assistant"}
        messages = [{"role": roles[turn.role], "content": turn.text} for turn in answered]
        tokenizer: Any = base.chat._tokenizer
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
        whole = tokenizer([text], add_special_tokens=False)["input_ids"][0]
        assert render_all(episode, 1024)[0].tokens == whole


def test_an_episode_can_be_played_again_from_its_text(base: Base) -> None:
    for job, episode in zip(jobs("maze", 8), played(base, 8), strict=True):
        world = maker("maze")()
        heard = [world.start(job.task).text]
        for turn in episode.turns[1::2]:
            heard.append(world.step(turn.text).text)
        assert [turn.text for turn in episode.turns[::2]] == heard
        assert world.success is episode.success
        assert [turn.role for turn in episode.turns[:3]] == ["user", "agent", "user"]


def played(base: Base, batch: int, **how: Any) -> list[Episode]:
    play = replace(HOW, batch_episodes=batch, **how)
    return episodes.play(base, maker("maze"), jobs("maze", 8), play).episodes


@pytest.mark.parametrize("name", ["maze", "textcraft"])
def test_an_episode_does_not_depend_on_its_batch(base: Base, name: str) -> None:
    def alone(batch: int) -> list[Episode]:
        how = replace(HOW, batch_episodes=batch, max_new_tokens=32)
        return episodes.play(base, maker(name), jobs(name, 9), how).episodes

    together = alone(64)
    assert alone(7) == together
    assert alone(1) == together


def test_sampling_differs_by_seed_and_greedy_does_not(base: Base) -> None:
    task = jobs("maze", 1)[0].task
    ten = [EpisodeJob(task, n, seeds.derive_episode_seed(1, task.id, n)) for n in range(10)]
    sampled = episodes.play(base, maker("maze"), ten, HOW).episodes
    greedy = episodes.play(base, maker("maze"), ten, replace(HOW, temperature=0.0)).episodes
    assert len({tuple(turn.text for turn in e.turns) for e in sampled}) > 1
    assert len({tuple(turn.text for turn in e.turns) for e in greedy}) == 1


def test_a_long_episode_ends_at_the_length(base: Base) -> None:
    for episode in played(base, 8, max_length=70):
        assert sum(len(turn.tokens) for turn in episode.turns) <= 70
        assert episode.turns[-1].role == "user"
        assert not episode.turns[-1].tokens


def test_a_first_observation_that_is_too_long_is_a_failure(base: Base) -> None:
    lengths = sorted(len(episode.turns[0].tokens) for episode in played(base, 8))
    between = lengths[0] + 1
    assert between <= lengths[-1]
    long = [e for e in played(base, 8, max_length=between) if len(e.turns) == 1]
    assert 0 < len(long) < 8
    for episode in long:
        assert not episode.success
        assert len(render_all(episode, between)[0]) == 0


def test_a_context_in_which_no_task_can_begin_is_refused(base: Base) -> None:
    sentence = (
        r"^spec\.training\.maxLength: got 4 tokens for an episode \(the model has 2048 positions\)"
        r", expected more than \d+: the first observation of every task is longer$"
    )
    with pytest.raises(PermanentError, match=sentence):
        played(base, 8, max_length=4)


def test_a_text_ends_a_turn_and_is_not_acted_on(base: Base) -> None:
    free, stopped = played(base, 8), played(base, 8, stop=(" up", " down"))
    assert free != stopped
    for turn in (turn for episode in stopped for turn in episode.turns if turn.role == "agent"):
        assert turn.text in ("move", "move left", "move right") or turn.text.count("move") > 1
        assert len(turn.tokens) <= 256


def test_spaces_of_a_text_that_ends_a_turn_count_and_those_around_the_action_do_not() -> None:
    world = make("maze", DEMO_OPTIONS["maze"])
    shape: dict[str, Any] = {"temperature": 1.0, "max_length": 99, "batch_episodes": 1, "round": 1}
    how = RolloutConfig(**shape, source="exploration", stop=("Observation: ",))
    episode = LiveEpisode(world, EpisodeJob(world.tasks("train")[0], 0, 1), how)
    episode.answer([1], " move up\nObservation: ")
    assert episode._turns[-1].text == "move up"


def test_a_cut_action_ends_in_the_next_observation_and_is_not_trained_to_end(base: Base) -> None:
    cut = played(base, 8, max_new_tokens=1)[0]
    first, then = cut.turns[1], cut.turns[2]
    assert len(first.tokens) == 1
    assert first.tokens[0] not in base.chat.stops
    assert then.tokens[0] == base.chat.end
    sequence = render_all(cut, 1024)[0]
    where = len(cut.turns[0].tokens) + 1
    assert sequence.tokens[where] == base.chat.end
    assert not sequence.is_agent[where]


def test_progress_counts_over_all_batches(base: Base) -> None:
    progress: list[tuple[int, int]] = []
    result = episodes.play(
        base,
        maker("maze"),
        jobs("maze", 8),
        replace(HOW, batch_episodes=3),
        lambda done, successes: progress.append((done, successes)),
    )
    assert progress == sorted(progress)
    assert progress[-1] == (8, result.successes)
    written = [t for e in result.episodes for t in e.turns if t.role == "agent"]
    assert result.generated == sum(len(turn.tokens) for turn in written)


def test_nothing_to_play_plays_nothing(base: Base) -> None:
    assert episodes.play(base, maker("maze"), [], HOW).episodes == []


def test_a_model_of_another_kind_plays_alike_by_slots_and_by_its_own_cache(
    random_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = base_model.load("path:x", random_model, 1)
    how = replace(HOW, max_new_tokens=3, batch_episodes=3)
    by_slots = episodes.play(other, maker("maze"), jobs("maze", 4), how)
    monkeypatch.setattr(choose, "can_use_slots", lambda model, longest: False)
    by_columns = episodes.play(other, maker("maze"), jobs("maze", 4), how)
    assert (by_slots.engine, by_columns.engine) == ("slots", "columns")
    assert by_slots.episodes == by_columns.episodes
    assert by_slots.generated > 0


def test_a_model_is_as_it_was_after_playing(random_model: Any) -> None:
    other = base_model.load("path:x", random_model, 1)
    before = other.model.config._attn_implementation
    episodes.play(other, maker("maze"), jobs("maze", 1), replace(HOW, max_new_tokens=1))
    assert other.model.config._attn_implementation == before


@pytest.mark.parametrize(
    "kind, fields, expected",
    [
        pytest.param("mistral", {"sliding_window": None}, True, id="plain attention"),
        pytest.param("mistral", {"sliding_window": 600}, True, id="a window beyond the episode"),
        pytest.param("mistral", {"sliding_window": 64}, False, id="a window that forgets"),
        pytest.param("gpt2", {}, True, id="learned positions"),
        pytest.param("gemma2", {"head_dim": 8}, False, id="capped attention"),
        pytest.param("bloom", {}, False, id="attention of its own"),
    ],
)
def test_slots_are_taken_where_they_compute_the_same(
    kind: str, fields: dict[str, Any], expected: bool
) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 99}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = AutoConfig.for_model(kind, **{**sizes, **heads, **fields})
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config).eval()
    with torch.inference_mode():
        for weight in made.parameters():
            weight.mul_(8)  # small random weights hardly attend to anything
        assert choose.can_use_slots(made, 512) is expected


def test_a_model_without_chat_template_and_pad_token_plays(
    random_model: Path, tmp_path: Path
) -> None:
    bare = shutil.copytree(random_model, tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    document = json.loads((bare / "tokenizer_config.json").read_text())
    del document["pad_token"]
    (bare / "tokenizer_config.json").write_text(json.dumps(document))
    other = base_model.load("path:x", bare, 1)
    played = episodes.play(other, maker("maze"), jobs("maze", 2), replace(HOW, max_new_tokens=2))
    assert len(played.episodes) == 2
