"""`hansa trajectories`: a run's episodes from its own store, listed, shown and exported."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.local.objectstore import LocalStore
from hansa.local.rundir import RunDir
from hansa_client.experience import agentgym_format, shards
from hansa_client.experience.shards import ShardHeader
from hansa_client.trajectory import Episode, Turn
from hansa_worlds import make
from tests.support import builders, small
from tests.support.commands import hansa

RULES = make("maze", {}).introduction()


def episode(round_: int, task: str, *, success: bool, rules: str = RULES) -> Episode:
    first = Turn(role="user", text=f"{rules}\nYou stand in {task}.", tokens=[1])
    actions = [Turn(role="agent", text="Thought: why\n\nAction: move up", tokens=[2])]
    if round_ == 0:
        actions = [
            Turn(role="agent", text="look", trained=False),
            Turn(role="user", text="..."),
            *actions,
        ]
    return Episode(
        task=task,
        round=round_,
        source="exploration" if round_ else "demonstration",
        seed=1,
        success=success,
        reward=float(success),
        turns=[first, *actions, Turn(role="user", text="The end.")],
    )


SHARDS = {
    ("maze", 0): [episode(0, "maze-a", success=True)],
    ("maze", 1): [episode(1, "maze-b", success=False), episode(1, "maze-a", success=True)],
    ("wordle", 1): [episode(1, "wordle-apple", success=False, rules="")],
}


def shard(environment: str, round_: int) -> bytes:
    header = ShardHeader(
        program="0",
        environment=environment,
        round=round_,
        fingerprint="0" * 64,
        inputs={},
        episodes=len(SHARDS[environment, round_]),
    )
    return shards.encode(header, SHARDS[environment, round_])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of a run that continues, with these shards in its own store, and one that is none."""
    folder = RunDir(tmp_path_factory.mktemp("run") / "mine")
    folder.prepare()
    folder.save(builders.make_federation("maze", "wordle", storage=None))
    with folder.lock(), LocalStore(folder.store, ("maze", "wordle"), prefix="fed") as store:
        for environment, round_ in SHARDS:
            key = bucket_keys.experience_shard("fed", environment, round_)
            store.store().put_if_absent(key, shard(environment, round_))
        store.store().put_if_absent(bucket_keys.experience_shard("fed", "wordle", 2), b"no shard")
        yield folder.path


def listed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_the_table_has_a_line_for_each_episode(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("trajectories", run) == 0
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()] == [
        ["K", "ENVIRONMENT", "ROUND", "TASK", "SOURCE", "END", "REWARD", "TURNS"],
        ["1", "maze", "0", "maze-a", "demonstration", "success", "1", "2"],
        ["2", "maze", "1", "maze-b", "exploration", "failure", "0", "1"],
        ["3", "maze", "1", "maze-a", "exploration", "success", "1", "1"],
        ["4", "wordle", "1", "wordle-apple", "exploration", "failure", "0", "1"],
    ]
    said = shown.err.splitlines()
    assert said[0] == f"reading the silos' private experience in {run}/store"
    assert "note: left out: fed/experience/wordle/00002.jsonl.zst: expected a shard" in said[1]
    assert said[2] == "4 episodes, 2 of them successful; --show K shows one"


@pytest.mark.parametrize(
    "filters, tasks",
    [
        (["--environment", "maze"], ["maze-a", "maze-b", "maze-a"]),
        (["--round", 0], ["maze-a"]),
        (["--round", 9], []),
        (["--success"], ["maze-a", "maze-a"]),
        (["--failed"], ["maze-b", "wordle-apple"]),
        (["--task", "maze-b"], ["maze-b"]),
        (["--task", "maze-*", "--failed"], ["maze-b"]),
    ],
)
def test_filters_narrow_the_list(
    run: Path, filters: list[str], tasks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("trajectories", run, *filters, "-o", "json") == 0
    assert [entry["task"] for entry in json.loads(capsys.readouterr().out)] == tasks


def test_a_long_list_is_cut_and_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa("trajectories", run, "--limit", 1) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "1 of 4 episodes, 2 of them successful" in shown.err
    assert "--limit 0 lists all" in shown.err


def test_one_episode_is_shown_as_play_shows_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("trajectories", run, "--failed", "--show", 1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "maze, round 1, exploration, task maze-b"
    assert lines[-5:] == [
        " 1> Thought: why",
        "    Action: move up",
        "    The end.",
        "",
        "failure after 1 turn, reward 0",
    ]
    assert hansa("trajectories", run, "--failed", "--show", 1, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["turns"][1] == {"role": "agent", "text": "Thought: why\n\nAction: move up"}
    assert hansa("trajectories", run, "--failed", "--show", 3) == 2
    assert "--show: got 3, but there are 2 such episodes" in capsys.readouterr().err


def test_episodes_are_exported_for_others(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.jsonl"
    assert hansa("trajectories", run, "--success", "--export", out) == 0
    assert f"2 episodes in {out}: they are private data of the silos" in capsys.readouterr().err
    shown, explored = agentgym_format.read(out.read_bytes(), "f")
    assert shown.turns[0].text == RULES
    assert [turn.loss for turn in shown.turns] == [None, False, None, False, None, True, None]
    assert [turn.text for turn in explored.merge_rules()] == [
        turn.text for turn in SHARDS["maze", 1][1].turns
    ]
    assert hansa("trajectories", run, "--export", out) == 2
    assert f"--export: got {out}, which exists" in capsys.readouterr().err
    assert hansa("trajectories", run, "--round", 9, "--export", tmp_path / "x") == 2
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["./nowhere"], "RUN: got nowhere, which holds no run"),
        (["."], "RUN: got ., which holds no run"),
        (
            ["RUN", "--environment", "chess"],
            "--environment: got 'chess', expected one of maze, wordle",
        ),
        (["RUN", "--endpoint", "http://x"], "--endpoint: got it with the folder"),
        (["RUN", "--show", "0"], "invalid value for '--show'"),
    ],
)
def test_what_is_wrong_is_named(
    run: Path,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(run) if each == "RUN" else each for each in arguments]
    assert hansa("trajectories", *given) == 2
    assert message in capsys.readouterr().err


def test_a_name_that_is_no_folder_is_looked_for_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert hansa("trajectories", "mine") != 0
    assert "error: " in capsys.readouterr().err


def test_a_store_of_your_own_is_read_with_each_silos_credentials(
    weed: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = {"s3": {"endpoint": weed.s3.endpoint, "bucket": weed.s3.bucket, "prefix": "fed"}}
    folder = RunDir(tmp_path / "run")
    folder.prepare()
    folder.save(builders.make_federation("maze", "wordle", storage=storage))
    key = bucket_keys.experience_shard("fed", "maze", 77)  # other tests share the store
    weed.store("maze").put_if_absent(key, shard("maze", 1))
    given = tmp_path / "credentials.json"
    given.write_text(json.dumps({"default": weed.environ("maze")}))
    command = ("trajectories", folder.path, "--credentials", given, "--round", 77)
    assert hansa(*command, "-o", "json") == 0
    shown = capsys.readouterr()
    assert [entry["task"] for entry in json.loads(shown.out)] == ["maze-b", "maze-a"]
    assert "note: left out: wordle, whose store these credentials may not read" in shown.err
    assert f"in s3://{weed.s3.bucket}/fed/experience/maze/" in shown.err


@pytest.mark.slow
def test_a_real_run_can_be_browsed(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("trajectories", undisturbed, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {entry["environment"] for entry in found} == set(small.ENVIRONMENTS)
    assert {entry["source"] for entry in found} == {"demonstration", "exploration"}
    out = tmp_path / "all.jsonl"
    assert hansa("trajectories", undisturbed, "--export", out, "--success") == 0
    assert len(agentgym_format.read(out.read_bytes(), "f")) == sum(e["success"] for e in found)
