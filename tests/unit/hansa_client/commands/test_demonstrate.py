"""`hansa demonstrate`: the expert's successful episodes as a file."""

import json
from pathlib import Path

import pytest

from hansa_client.experience import agentgym_format
from hansa_worlds import make
from tests.support.commands import hansa
from tests.unit.hansa_client.commands.program import Steering


def test_expert_episodes_are_written_in_the_conversation_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shown.jsonl"
    assert hansa("demonstrate", "maze", "-n", 5, "--out", out) == 0
    assert capsys.readouterr() == ("", f"5 episodes in {out}\n")
    found = agentgym_format.read(out.read_bytes(), "shown.jsonl")
    world = make("maze", {})
    ids = {task.id for task in world.tasks("train")}
    assert len({each.item_id for each in found}) == 5
    assert {each.item_id for each in found} <= ids
    for each in found:
        assert each.turns[0].text == world.introduction()
        assert each.turns[1] == agentgym_format.ConversationTurn("gpt", "OK.", loss=False)
        assert all(turn.text.startswith("Thought: ") for turn in each.turns[3::2])
        assert each.turns[-1].who == "human"


def test_each_demonstration_solves_its_task_when_it_is_played_again(tmp_path: Path) -> None:
    out = tmp_path / "shown.jsonl"
    assert hansa("demonstrate", "wordle", "-n", 6, "--out", out, "--option", "prompt=brief") == 0
    world = make("wordle", {"prompt": "brief"})
    tasks = {task.id: task for task in world.tasks("train")}
    for each in agentgym_format.read(out.read_bytes(), "f"):
        played = each.merge_rules()
        assert world.start(tasks[each.item_id]).text == played[0].text
        for action, seen in zip(played[1::2], played[2::2], strict=True):
            assert world.step(action.text).text == seen.text
        assert world.success


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert hansa("demonstrate", "maze", "-n", 3, "--seed", seed, "--out", tmp_path / name) == 0
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1] != written[2]


def test_without_thoughts_an_action_stands_alone(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert hansa("demonstrate", "maze", "-n", 2, "--out", "-", "--no-thoughts") == 0
    for line in capsysbinary.readouterr().out.splitlines():
        turns = json.loads(line)["conversations"]
        assert all(turn["value"].startswith("move ") for turn in turns[3::2])


def test_a_split_with_fewer_tasks_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "all.jsonl"
    assert hansa("demonstrate", "maze", "-n", 100, "--split", "test", "--out", out) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"25 episodes in {out}, not 100: the test split has no more"
    assert said[1].startswith("note: tables report test tasks")


def test_a_file_is_not_written_over_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.txt"
    out.write_text("mine")
    assert hansa("demonstrate", "maze", "-n", 1, "--out", out) == 2
    said = capsys.readouterr().err
    assert said == f"error: --out: got {out}, which exists\n\nhint: --force writes over it\n"
    assert out.read_text() == "mine"
    assert hansa("demonstrate", "maze", "-n", 1, "--out", out, "--force") == 0
    assert len(agentgym_format.read(out.read_bytes(), "f")) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["chess", "--out", "x"], "world: got 'chess'"),
        (["maze", "--out", "."], "--out: got ., which is a folder"),
        (["maze", "--out", "nowhere/x"], "--out: got nowhere/x, whose folder does not exist"),
        (["maze", "--out", "x", "-n", "0"], "invalid value for '-n'"),
        (["maze", "--out", "x", "--option", "size"], "--option: got 'size', expected NAME=VALUE"),
        (["maze"], "missing option '--out'"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hansa("demonstrate", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_a_world_whose_text_no_file_can_hold_is_named(
    steering: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("demonstrate", steering, "--out", tmp_path / "x") == 2
    assert capsys.readouterr().err == "error: world 'steering': its text is not valid Unicode\n"


def test_a_world_without_an_expert_is_one_sentence(
    steering: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Steering, "_begin", lambda self, task: "Go?")
    assert hansa("demonstrate", steering, "--out", tmp_path / "x") == 2
    said = capsys.readouterr().err
    assert said == "error: world 'steering' has no expert, so there is nobody to demonstrate\n"
    assert hansa("demonstrate", steering, "--split", "validation", "--out", tmp_path / "x") == 2
    assert "--split: got validation, of which world 'steering'" in capsys.readouterr().err


def test_an_expert_that_never_succeeds_shows_nothing(
    steering: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from hansa_worlds import Move

    monkeypatch.setattr(Steering, "_begin", lambda self, task: "Go?")
    monkeypatch.setattr(Steering, "expert", lambda self: Move("", "wait"))
    assert hansa("demonstrate", steering, "--out", tmp_path / "x") == 2
    assert "its expert solved none of 1 tasks" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_several_worlds_in_one_are_demonstrated_each_by_its_expert(tmp_path: Path) -> None:
    out = tmp_path / "shown.jsonl"
    parts = [{"name": "walk", "world": "maze"}, {"name": "guess", "world": "wordle"}]
    options = json.dumps({"worlds": parts})
    assert hansa("demonstrate", "mixed", "-n", 4, "--out", out, "--options", options) == 0
    world = make("mixed", {"worlds": parts})
    tasks = {task.id: task for task in world.tasks("train")}
    for each in agentgym_format.read(out.read_bytes(), "f"):
        assert world.start(tasks[each.item_id]).text == each.turns[0].text
