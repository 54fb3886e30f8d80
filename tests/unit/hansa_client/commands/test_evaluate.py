"""`hansa evaluate`: success of an adapter that PEFT itself has loaded."""

import json
from pathlib import Path

import pytest

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter
from hansa.core.stats import rate_interval
from hansa_worlds import DEMO_OPTIONS
from tests.support.commands import hansa

MAZE = ["evaluate", "maze", "--options", json.dumps(DEMO_OPTIONS["maze"])]


def test_success_comes_with_its_interval_sampled_and_greedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert hansa(*MAZE, "--tasks", "8", "--greedy", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [result["decoding"] for result in document["results"]] == ["temperature 1", "greedy"]
    for result in document["results"]:
        low, high = result["interval"]
        assert result["episodes"] == 8
        assert low <= result["success"] <= high


def test_tasks_that_are_played_several_times_have_a_wider_interval_than_their_episodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert hansa(*MAZE, "--tasks", "5", "--samples", "4", "-o", "json") == 0
    [result] = json.loads(capsys.readouterr().out)["results"]
    assert (result["tasks"], result["episodes"], result["broken"]) == (5, 20, 0)
    low, high = result["interval"]
    plain = rate_interval(result["successes"] / 20, 20)
    assert high - low > plain.high - plain.low
    assert hansa(*MAZE, "--tasks", "2", "--samples", "2") == 0
    assert "of 4 episodes of 2 held-out tasks, temperature 1" in capsys.readouterr().out


def test_an_adapter_is_loaded_by_peft(
    start: Tensors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adapter_model.safetensors").write_bytes(lora.encode(start))
    config = lora.render_config(Adapter(), "builtin:tiny", lora.target_names(start))
    (tmp_path / "adapter_config.json").write_bytes(config)
    options = ["--option", "map=generated", "--option", "size=6", "--option", "max_turns=12"]
    command = ["evaluate", "maze", *options, "--tasks", "5"]
    assert hansa(*command, "--adapter", str(tmp_path)) == 0
    with_start = capsys.readouterr().out
    assert hansa(*command) == 0
    assert capsys.readouterr().out == with_start
    assert "of 5 held-out tasks, temperature 1" in with_start


@pytest.mark.parametrize(
    "arguments, message",
    [
        pytest.param(["chess"], "world: got 'chess'", id="world"),
        pytest.param(["maze", "--option", "size"], "--option: got 'size'", id="pair"),
        pytest.param(["maze", "--options", "["], "--options: got '['", id="json"),
        pytest.param(["maze", "--option", "size=99"], "options.size: got 99", id="size"),
        pytest.param(["maze", "--adapter", "nowhere"], "--adapter: got nowhere", id="dir"),
        pytest.param(["maze", "--model", "builtin:huge"], "--model: got", id="model"),
    ],
)
def test_a_wrong_option_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("evaluate", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_folder_that_is_no_adapter_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    assert hansa(*MAZE, "--adapter", str(tmp_path)) == 2
    assert "does not fit builtin:tiny" in capsys.readouterr().err


@pytest.mark.parametrize(
    "file, lacks",
    [("adapter_config.json", "adapter_model.*"), ("adapter_model.safetensors", "adapter_config")],
)
def test_what_a_folder_lacks_is_not_looked_for_on_the_hub(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    lacks: str,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *place, **_: asked.append(place) or [])
    monkeypatch.chdir(tmp_path)
    folder = Path("mine")  # which could be a repository's name
    folder.mkdir()
    (folder / file).write_text(json.dumps({"peft_type": "LORA"}))
    assert hansa(*MAZE, "--adapter", str(folder)) == 2
    assert f"mine does not fit builtin:tiny (it has no {lacks}" in capsys.readouterr().err
    assert asked == []


def test_an_adapter_of_another_size_is_refused_with_the_tensor_that_differs(
    start: Tensors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = min(start)
    cut = {**start, name: start[name][:, :-1]}
    (tmp_path / "adapter_model.safetensors").write_bytes(lora.encode(cut))
    config = lora.render_config(Adapter(), "builtin:tiny", lora.target_names(cut))
    (tmp_path / "adapter_config.json").write_bytes(config)
    assert hansa(*MAZE, "--adapter", str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert "does not fit builtin:tiny" in said
    assert f"size mismatch for {name.removesuffix('.weight')}" in said
