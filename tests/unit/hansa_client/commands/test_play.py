"""`hansa play`: an episode on the terminal, by a person, a script or a model."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter
from hansa.core.exits import Exit
from hansa_worlds import make
from tests.support.commands import hansa
from tests.unit.hansa_client.commands.program import Steering

MAZE = ("play", "maze", "--task", "maze-double-t-7-6", "--option", "prompt=brief")
"""One step above the goal."""


def keyboard(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_the_expert_is_seen_turn_by_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa(*MAZE, "--as", "expert", "--seed", 1) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == "maze, task maze-double-t-7-6, played by expert"
    assert any(re.fullmatch(r" 1> Thought: .+", line) for line in lines)
    assert "    Action: move down" in lines
    assert lines[-1] == "success after 1 turn, reward 1"
    assert "\x1b" not in shown.out
    assert shown.err == ""


@pytest.mark.parametrize("who", ["random", "legal", "greedy"])
def test_the_same_seed_plays_the_same_episode(who: str, capsys: pytest.CaptureFixture[str]) -> None:
    played = []
    for seed in (5, 5, 6):
        assert hansa("play", "maze", "--as", who, "--seed", seed) == 0
        played.append(capsys.readouterr().out)
    assert played[0] == played[1] != played[2]


def test_a_drawn_task_can_be_played_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa("play", "maze", "--as", "random") == 0
    first = capsys.readouterr()
    again = re.fullmatch(r"again: (--task \S+ --seed \d+)\n", first.err)
    assert again
    assert hansa("play", "maze", "--as", "random", *again[1].split()) == 0
    assert capsys.readouterr().out == first.out


def test_as_json_the_episode_is_data_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa(*MAZE, "--as", "expert", "--seed", 3, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    turns = document.pop("turns")
    assert document == {
        "world": "maze",
        "options": {"prompt": "brief"},
        "player": "expert",
        "seed": 3,
        "task": "maze-double-t-7-6",
        "split": "test",
        "success": True,
        "done": True,
        "reward": 1.0,
    }
    assert [turn["role"] for turn in turns] == ["user", "agent", "user"]
    assert turns[1]["text"].endswith("\n\nAction: move down")
    assert turns[2]["reward"] == 1.0


def test_a_person_plays_by_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard(monkeypatch, "?\n\nmove left\n  move down  \nmove up\n")
    assert hansa(*MAZE, "--seed", 1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "    move up, move down" in lines or "    move down, move up" in lines
    assert [line for line in lines if "> " in line] == [" 1> move left", " 2> move down"]
    assert lines[-1] == "success after 2 turns, reward 1"


def test_a_person_may_leave(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard(monkeypatch, "move left\n")
    assert hansa(*MAZE, "--seed", 1) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "you left after 1 turn, reward 0"


def test_a_person_sees_the_play_on_stderr_where_stdout_is_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard(monkeypatch, "move down\n")
    assert hansa(*MAZE, "--seed", 1, "-o", "json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["success"] is True
    assert "success after 1 turn" in shown.err


def test_a_world_that_lists_nothing_says_so(
    steering: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard(monkeypatch, "?\ngo\n")
    assert hansa("play", steering, "--seed", 1) == 0
    assert "world 'steering' does not list its actions; its rules say" in capsys.readouterr().out


def test_no_text_steers_the_terminal(
    steering: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard(monkeypatch, "wait\x1b[31m\ngo\n")
    assert hansa("play", steering, "--seed", 1) == 0
    out = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800-\udfff]", out)
    assert "    \\u001b[2J\\u0007gone\\u202e\n    next\\ud800 [red]line[/red]" in out
    assert " 1> wait\\u001b[31m" in out
    assert "    reward 0.5" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["chess"], "world: got 'chess', expected one of"),
        (["maze", "--task", "nowhere"], "--task: got 'nowhere', expected 0 to 24 or an id like"),
        (["maze", "--task", "25"], "--task: got '25', expected 0 to 24"),
        (["maze", "--option", "size=1"], "options.size: got 1"),
        (["maze", "--adapter", "x", "--as", "expert"], "--adapter: got x with --as expert"),
        (["maze", "--adapter", "nowhere"], "--adapter: got nowhere, expected the folder"),
        (["maze", "--as", "model", "--model", "builtin:huge"], "--model: got"),
        (["maze", "--as", "nobody"], "invalid value for '--as'"),
        (["maze", "--split", "dev"], "invalid value for '--split'"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("play", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_player_that_a_world_lacks_is_named(
    steering: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("play", steering, "--as", "expert") == 2
    said = capsys.readouterr()
    assert said.err == "error: --as: got expert, but world 'steering' has no expert\n"
    assert said.out == "", "refused before anything is shown"
    assert hansa("play", steering, "--split", "validation") == 2
    assert "of which world 'steering' has no tasks" in capsys.readouterr().err


def test_a_world_that_breaks_is_a_sentence(
    steering: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard(monkeypatch, "raise\n")
    assert hansa("play", steering, "--seed", 1) == 1
    assert "error: world steering: RuntimeError: the world broke (" in capsys.readouterr().err


def test_a_task_is_found_by_its_id_in_any_split(capsys: pytest.CaptureFixture[str]) -> None:
    task = make("maze", {}).tasks("train")[5]
    assert hansa("play", "maze", "--task", task.id, "--as", "expert", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["split"] == "train"


@pytest.mark.slow
def test_a_model_plays_by_the_rollout_of_the_clients(capsys: pytest.CaptureFixture[str]) -> None:
    command = (*MAZE, "--as", "model", "--seed", 4, "--option", "max_turns=4")
    assert hansa(*command) == 0
    first = capsys.readouterr().out
    assert first.startswith("maze, task maze-double-t-7-6, played by model\n")
    assert re.search(r"^(success|failure) after \d turns?, reward [01]$", first, re.MULTILINE)
    assert hansa(*command) == 0
    assert capsys.readouterr().out == first
    assert hansa(*command, "--temperature", 0, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["player"] == "model"
    assert [turn["role"] for turn in document["turns"]][:2] == ["user", "agent"]


@pytest.mark.slow
def test_a_world_that_breaks_in_a_models_hands_is_a_sentence_too(
    steering: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Steering, "_begin", lambda self, task: "You see a door.")
    monkeypatch.setattr(Steering, "_act", lambda self, action: 1 / 0)
    assert hansa("play", steering, "--as", "model", "--seed", 1) == 1
    assert "error: world steering: ZeroDivisionError: division by zero (" in capsys.readouterr().err


@pytest.mark.slow
def test_text_that_no_model_can_read_is_a_sentence(
    steering: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("play", steering, "--as", "model", "--seed", 1) == int(Exit.WORLD_BROKEN)
    assert capsys.readouterr().err.splitlines()[1].startswith("error: ")


@pytest.mark.slow
def test_an_adapter_makes_the_model_the_player(
    start: Tensors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adapter_model.safetensors").write_bytes(lora.encode(start))
    config = lora.render_config(Adapter(), "builtin:tiny", lora.target_names(start))
    (tmp_path / "adapter_config.json").write_bytes(config)
    assert hansa(*MAZE, "--seed", 4, "--adapter", tmp_path) == 0
    with_start = capsys.readouterr().out
    assert hansa(*MAZE, "--seed", 4, "--as", "model") == 0
    assert capsys.readouterr().out == with_start


# -- on a real terminal ---------------------------------------------------------------------------


def on_a_terminal(typed: bytes, **environ: str) -> str:
    """What a person sees who plays with these keys; the terminal is a real one of the kernel."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hansa.cli.main", *MAZE, "--seed", "1"]
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"TERM": "xterm-256color", **environ}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as player:
        os.close(theirs)
        seen = b""
        until = time.monotonic() + 60
        while b"1> " not in seen and time.monotonic() < until:
            seen += os.read(ours, 4096)
        os.write(ours, typed)
        while chunk := _read(ours):
            seen += chunk
    os.close(ours)
    assert player.returncode == 0
    return seen.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.slow
def test_a_terminal_has_colour_and_shows_what_is_typed_once() -> None:
    seen = on_a_terminal(b"move down\n")
    assert "\x1b[1;32msuccess after 1 turn, reward 1\x1b[0m" in seen
    assert seen.count("move down") == 1


@pytest.mark.slow
def test_control_d_leaves_politely_and_no_color_is_heard() -> None:
    seen = on_a_terminal(b"\x04", NO_COLOR="1")
    assert "you left after 0 turns, reward 0" in seen
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", seen)
