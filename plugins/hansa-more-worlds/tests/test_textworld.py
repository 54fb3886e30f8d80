"""World `textworld`: real games, won by their own policies; the interpreter sees only commands."""

from pathlib import Path

import pytest

from hansa_more_worlds.textworld.games import LEVELS, compiled
from hansa_worlds import OptionError, World, make
from tests.support import foreign

pytestmark = foreign.NEEDS_TEXTWORLD
GAMES = [
    {"game": "coin-collector", "level": 3},
    {"game": "treasure-hunter", "level": 12},
    {"game": "simple"},
]
HOSTILE = ("save", "script", "restart", "quit", "undo", "tw-extra-infos score", "take x. quit")
HOSTILE += ("look then quit", "look, quit", "look" + " x" * 60, "look\x00")


@pytest.fixture(autouse=True)
def package() -> None:
    foreign.use()


def win(world: World) -> int:
    """Play the expert to the end; the number of turns."""
    turns, done = 0, False
    while not done:
        done = world.step(world.expert().text).done
        turns += 1
    assert world.success
    return turns


@pytest.mark.parametrize("options", GAMES, ids=lambda options: options["game"])
def test_the_games_own_policy_wins_in_as_many_steps_as_its_walkthrough(options) -> None:
    world = make("textworld", options)
    task = world.tasks("train")[0]
    world.start(task)
    assert win(world) == len(compiled(world._kind, "train", int(task.payload[0])).walkthrough)
    assert {game["game"] for game in GAMES} == LEVELS.keys()


def test_an_expert_finds_its_way_back_from_anywhere() -> None:
    world = make("textworld", {"level": 9})
    world.start(world.tasks("validation")[0])
    for _ in range(4):
        moves = [move for move in world.legal() if move.startswith("go ")]
        world.step(moves[-1])
    win(world)


def test_nothing_but_a_command_of_the_game_reaches_its_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    world = make("textworld", {"level": 3})
    world.start(world.tasks("test")[0])
    sent: list[str] = []
    step = world._env.step
    world._env.step = lambda command: sent.append(command) or step(command)
    for text in HOSTILE:
        seen = world.step(text)
        assert seen.text.startswith("That is no command here. A command begins with close, drop,")
    assert sent == []
    world.step("LOOK")
    assert sent == ["look"]
    assert list(tmp_path.iterdir()) == []
    win(world)


def test_an_agent_reads_the_goal_and_the_room_without_pictures_and_status_lines() -> None:
    world = make("textworld", {"level": 3, "prompt": "none"})
    first = world.start(world.tasks("test")[0]).text
    goal, room, *rest = first.splitlines()
    assert "floor" in goal
    assert room.startswith("-= ") and room.endswith(" =-")
    assert rest
    assert "$$" not in first
    assert " =-0/" not in first + world.step("inventory").text
    plain = make("textworld", {"level": 3, "prompt": "none", "goal": "none"})
    assert plain.start(plain.tasks("test")[0]).text.startswith("-= ")


def test_a_game_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiled.cache_clear()
    world = make("textworld", {"level": 1})
    world.start(world.tasks("test")[3])
    world.legal()
    assert list(tmp_path.iterdir()) == []
    win(world)
    world.close()


def test_games_are_the_same_in_every_process() -> None:
    script = (
        "from hansa_worlds import make\n"
        "for game, level in (('coin-collector', 103), ('treasure-hunter', 5), ('simple', 1)):\n"
        "    world = make('textworld', {'game': game, 'level': level, 'goal': 'detailed'})\n"
        "    said = [world.start(world.tasks('test')[0]).text]\n"
        "    while not world._done:\n"
        "        said += [world.legal(), world.expert(), world.step(world.expert().text)]\n"
        "    print(said)\n"
    )
    assert foreign.says_the_same_in_every_process(script)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"game": "cooking"},
            "options.game: got 'cooking', expected coin-collector or simple or t",
        ),
        ({"level": 31}, "options.level: got 31, expected 1 to 30"),
        ({"game": "simple", "level": 2}, "options.level: got 2, expected 1 to 1"),
        (
            {"game": "coin-collector", "level": 160},
            "options.level: got 160, a game of 120 rooms, expected one of at most 100",
        ),
        ({"goal": "long"}, "options.goal: got 'long', expected detailed or brief or none"),
        ({"test": [5, 5]}, "options.test: got [5, 5], expected"),
        ({"levle": 1}, "options.levle: unknown, expected game, goal, level, max_turns, prompt, t"),
    ],
)
def test_a_bad_option_is_named_with_what_fits(options, sentence) -> None:
    with pytest.raises(OptionError) as refused:
        make("textworld", options)
    assert str(refused.value).startswith(sentence)
