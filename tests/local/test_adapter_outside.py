"""The adapter that a run leaves is an ordinary PEFT folder, and as good as the run says."""

import json

import pytest

from hansa.adapter import model_card
from hansa.api import bucket_keys
from tests.support import small
from tests.unit.hansa.adapter import test_model_card

TASKS = 40


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run whose adapter was measured on enough tasks to mean something."""
    folder = tmp_path_factory.mktemp("outside")
    manifest = small.write_manifest(folder, rounds=1, evaluation={"tasks": TASKS})
    small.finish(manifest, folder / "run")
    return folder / "run"


@pytest.mark.slow
def test_peft_loads_it_and_playing_again_gives_the_success_that_the_report_claims(finished):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from hansa.core.stats import rate_interval
    from hansa_client import seeds
    from hansa_client.models import base_model
    from hansa_client.models.chat_template import Chat
    from hansa_client.rollout import episodes, tasks
    from hansa_worlds import make

    folder = base_model.resolve("builtin:tiny")
    base = AutoModelForCausalLM.from_pretrained(folder)
    agent = PeftModel.from_pretrained(base, finished / "adapter").eval()
    chat = Chat(AutoTokenizer.from_pretrained(folder))
    playing = base_model.Base(agent, chat, agent.device)

    claimed = json.loads((finished / "federation.json").read_text())["status"]["history"][-1]
    for environment in small.SPEC["environments"]:
        name, options = environment["name"], environment["options"]
        jobs = tasks.choose_held_out_jobs(
            make(environment["world"], options).tasks("test"),
            TASKS,
            seeds.derive(small.SPEC["seed"], name, 0, "evaluate"),
        )
        how = episodes.RolloutConfig(
            temperature=1.0, max_length=512, batch_episodes=7, round=1, source="evaluation"
        )
        played = episodes.play(
            playing, lambda world=environment: make(world["world"], world["options"]), jobs, how
        )
        assert claimed["episodes"][name] == len(played.episodes) == TASKS
        interval = rate_interval(round(claimed["success"][name] * TASKS) / TASKS, TASKS)
        assert interval.low <= played.successes / TASKS <= interval.high


@pytest.mark.slow
def test_the_adapter_changes_what_the_base_says(finished):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from hansa_client.models import base_model

    base = AutoModelForCausalLM.from_pretrained(base_model.resolve("builtin:tiny"))
    tokens = torch.arange(10, 30)[None]
    with torch.inference_mode():
        before = base(tokens).logits
        after = PeftModel.from_pretrained(base, finished / "adapter")(tokens).logits
    assert not torch.allclose(before, after)


@pytest.mark.slow
def test_the_folder_holds_what_its_manifest_names(finished):
    manifest = json.loads((finished / "adapter" / bucket_keys.MANIFEST).read_text())
    assert set(manifest["files"]) == set(small.FILES)


@pytest.mark.slow
def test_the_folder_says_how_to_prompt_it_and_its_lines_play_a_turn(finished):
    text = (finished / "adapter" / model_card.NAME).read_text()
    assert "# small, round 1" in text
    said = test_model_card.run(test_model_card.code_of(text), finished / "adapter")
    assert said.strip().rpartition("Action: ")[2].startswith("move ")
