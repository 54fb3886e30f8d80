"""World `scienceworld`: the simulator's own tasks, the same everywhere; a dead one is replaced."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hansa_more_worlds.scienceworld import SIMPLIFICATIONS, VARIATIONS, simulator, variations
from hansa_worlds import NoPlayer, OptionError, WorldDown, make
from tests.support import foreign
from tests.support.processes import is_gone, until

EASY = {"tasks": ["lifespan-longest-lived"]}


@pytest.fixture
def java() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs the program java, which runs ScienceWorld")
    foreign.use()


@pytest.mark.usefixtures("java")
def test_the_table_of_tasks_and_splits_is_the_simulators() -> None:
    game = simulator.new_game()
    assert sorted(game.getTaskNames()) == sorted(VARIATIONS)
    assert {"easy", *game.getPossibleSimplifications().split(", ")} == set(SIMPLIFICATIONS)
    for task, count in VARIATIONS.items():
        assert game.getTaskMaxVariations(task) == count
        game.load(task, 0, "", False)
        assert list(game.getVariationsTrain()) == list(variations(task, "train"))
        assert list(game.getVariationsDev()) == list(variations(task, "validation"))
        assert list(game.getVariationsTest()) == list(variations(task, "test"))


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("task", ["find-animal", "chemistry-mix-paint-secondary-color"])
def test_the_gold_path_is_followed_to_full_score_and_nowhere_else(task: str) -> None:
    world = make("scienceworld", {"tasks": [task]})
    seen = world.start(world.tasks("test")[0])
    while not seen.done:
        seen = world.step(world.expert().text)
        assert len(seen.text) <= 4_000
    assert (seen.reward, world.success) == (1.0, True)
    world.start(world.tasks("test")[0])
    world.step("look around at nothing that is there")
    world.expert()  # what the simulator did not take has changed nothing
    world.step("wait1")
    with pytest.raises(NoPlayer, match="knows no way but the gold path"):
        world.expert()


@pytest.mark.usefixtures("java")
def test_episodes_and_gold_paths_are_the_same_whatever_was_played_before() -> None:
    world = make("scienceworld", {"tasks": ["find-animal"]})
    task, lines = world.tasks("train")[1], []
    for before in range(3):
        for _ in range(before):
            world.start(world.tasks("train")[0])
        said: list[object] = [world.start(task).text]
        while not world._done:
            said += [world.expert(), world.step(world.expert().text)]
        lines.append(said)
    assert lines[0] == lines[1] == lines[2]
    assert str(lines[0]).count("paint") >= 3, "things of one name, whose order Java draws at random"


@pytest.mark.usefixtures("java")
def test_the_simulator_writes_nothing_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator.stop()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    world = make("scienceworld", EASY)
    world.start(world.tasks("train")[0])
    simulator.stop()
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


@pytest.mark.usefixtures("java")
def test_an_episode_whose_simulator_dies_is_broken_and_the_next_one_is_played() -> None:
    world = make("scienceworld", EASY)
    world.start(world.tasks("train")[0])
    process = simulator._running[1].gateway.java_process
    process.kill()
    process.wait()
    with pytest.raises(WorldDown, match="a Java process, ended or does not answer"):
        world.step("look around")
    world.start(world.tasks("train")[0])
    assert not world.step("look around").done


@pytest.mark.usefixtures("java")
def test_the_simulator_ends_with_a_process_that_is_killed() -> None:
    script = (
        "import os, signal\n"
        "from hansa_worlds import make\n"
        "from hansa_more_worlds.scienceworld import simulator\n"
        "world = make('scienceworld', {})\n"
        "world.start(world.tasks('train')[0])\n"
        "print(simulator._running[1].gateway.java_process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": foreign.path()},
        capture_output=True,
        check=False,
    )
    pid = int(ended.stdout)
    until(lambda: is_gone(pid), "the simulator to end")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tasks": "boil"}, "options.tasks: got 'boil', expected a list of distinct names out of"),
        ({"tasks": []}, "options.tasks: got [], expected a list of distinct names out of boil, c"),
        ({"tasks": ["brew"]}, "options.tasks: got 'brew' in it, expected a list of distinct"),
        ({"tasks": [["boil"]]}, "options.tasks: got ['boil'] in it, expected a list of distinct"),
        ({"tasks": ["boil", "boil"]}, "options.tasks: got 'boil' in it, expected a list of dis"),
        ({"simplifications": ["fast"]}, "options.simplifications: got 'fast' in it, expected a"),
        (
            {"tasks": ["power-component"], "simplifications": ["noElectricalAction"]},
            "options.simplifications: got 'noElectricalAction', which task power-component cannot",
        ),
        ({"success": 2}, "options.success: got 2, expected 0.01 to 1"),
        ({"task": "boil"}, "options.task: unknown, expected max_turns, prompt, simplifications,"),
    ],
)
def test_a_bad_option_is_named_with_what_fits(options, sentence) -> None:
    with pytest.raises(OptionError) as refused:
        make("scienceworld", options)
    assert str(refused.value).startswith(sentence)
