"""An adapter's card says how to prompt it, and its lines of Python play a turn."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hansa.adapter import lora as adapter
from hansa.adapter import model_card
from hansa.api import bucket_keys
from hansa.api.spec import Adapter
from hansa.api.status import EnvironmentStatus, FederationStatus
from tests.support.builders import make_federation, with_status


def front_matter(text: str) -> dict[str, object]:
    assert text.startswith("---\n")
    return yaml.safe_load(text.split("---\n")[1])


def code_of(text: str) -> str:
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    return code


def run(code: str, folder: Path) -> str:
    """Run lines of Python where a reader of the card would; what they print."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_adapter(folder: Path, source: str, base: Path) -> Path:
    """An untrained adapter of this base, with its card, as `hansa pull` leaves it."""
    from hansa_client.models import base_model, lora

    loaded = base_model.load(source, base, 1)
    start = adapter.init_adapter(lora.shapes(loaded.model, Adapter()), Adapter().rank, seed=7)
    folder.mkdir()
    (folder / bucket_keys.ADAPTER).write_bytes(adapter.encode(start))
    config = adapter.render_config(Adapter(), source, adapter.target_names(start))
    (folder / bucket_keys.CONFIG).write_bytes(config)
    model_card.write(make_federation(model={"source": source}), 2, folder)
    return folder


def test_the_card_opens_as_the_hub_reads_it():
    federation = make_federation(model={"source": "hf:org/name@v1"})
    matter = front_matter(model_card.render(federation, 3))
    assert (matter["base_model"], matter["library_name"]) == ("org/name", "peft")
    assert {"lora", "hansa"} <= set(matter["tags"])


def test_the_card_shows_what_the_builtin_template_puts_around_each_turn():
    text = model_card.render(make_federation("maze", "wordle"), 3)
    shown = re.search(r"```text\n(.*?)```", text, re.S)[1]
    assert re.fullmatch(
        r"<\|bos\|><\|user\|>Reach the goal\.\n.*<\|agent\|>move right<\|end\|>"
        r"<\|user\|>The goal is .*<\|agent\|>\n",
        shown,
    )
    assert "round 3" in text and "`maze`" in text and "`wordle`" in text


def test_a_model_without_a_template_is_prompted_as_the_client_does(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    text = model_card.render(make_federation(model={"source": f"path:{tmp_path}"}), 1)
    assert "There are walls above you, below you.\n> move right</s>\nThe goal is" in text
    assert "apply_chat_template" not in code_of(text)


@pytest.mark.parametrize("token", ['{"lstrip": true}', '{"content": null}', "null"])
def test_a_special_token_without_text_is_no_text(tmp_path, token):
    (tmp_path / "tokenizer_config.json").write_text(f'{{"eos_token": {token}}}')
    text = model_card.render(make_federation(model={"source": f"path:{tmp_path}"}), 1)
    assert "below you.\n> move right\nThe goal is" in text


def test_a_base_at_a_relative_path_is_named_by_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    text = model_card.render(make_federation(model={"source": "path:model"}), 1)
    assert f'source = "{tmp_path}/model"' in code_of(text)
    assert "AutoPeftModelForCausalLM" not in text  # the config has the spec's relative path


def test_a_base_that_is_elsewhere_is_only_described():
    text = model_card.render(make_federation(model={"source": "path:/on/another/machine"}), 1)
    assert "```text" not in text
    assert "apply_chat_template" in code_of(text)


def test_a_readme_of_the_users_own_is_left_alone(tmp_path):
    (tmp_path / model_card.NAME).write_text("# My thesis\n")
    assert not model_card.write(make_federation(), 1, tmp_path)
    assert (tmp_path / model_card.NAME).read_text() == "# My thesis\n"


def test_a_card_of_an_earlier_round_is_written_anew(tmp_path):
    assert model_card.write(make_federation(), 1, tmp_path)
    assert model_card.write(make_federation(), 2, tmp_path)
    assert "round 2" in (tmp_path / model_card.NAME).read_text()


@pytest.mark.slow
def test_with_a_model_in_a_folder_peft_finds_the_base_by_itself(tmp_path):
    from tests.unit.hansa_client import tinymodel

    base = tinymodel.make(tmp_path / "model")
    folder = write_adapter(tmp_path / "adapter", f"path:{base}", base)
    run(code_of((folder / model_card.NAME).read_text()), folder)
    run(
        "from peft import AutoPeftModelForCausalLM\n"
        "agent = AutoPeftModelForCausalLM.from_pretrained('.')\n"
        f"assert agent.get_base_model().name_or_path == {str(base)!r}",
        folder,
    )


def test_the_card_says_what_records_were_protected_by():
    plain = model_card.render(make_federation("maze"), 3)
    assert "trained without differential privacy" in plain
    private = make_federation(
        "maze",
        privacy={"epsilon": 8.0, "delta": 1e-4},
        training={"maxSteps": 4},
        environments=[
            {"name": "maze", "world": "maze", "experienceStorage": {"s3": {"bucket": "own"}}}
        ],
    )
    line = EnvironmentStatus(name="maze", state="Updated", epsilon=2.5)
    changed = with_status(private, FederationStatus(environments=[line]))
    assert "epsilon is at most 2.5 at a delta of 0.0001" in model_card.render(changed, 3).replace(
        "\n", " "
    )
