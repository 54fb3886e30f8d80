"""World openenv on a real OpenEnv server: episodes, contract, errors, and a federation."""

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa_worlds import OptionError, World, WorldDown, contract, make
from hansa_worlds.contract import CHECKS
from hansa_worlds.openenv import server as sessions
from tests.support import openenv_faulty, openenvs, small
from tests.support.small import hansa
from tests.support.sources import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with openenvs.serving(tmp_path_factory.mktemp("openenv")) as address:
        yield address


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("hansa_worlds.remote.server.PAUSES", (0.2,) * 10)
    yield
    gc.collect()
    for known in list(_servers()):
        known.close()


def _servers() -> list[sessions.OpenEnvServer]:
    return [each for each in gc.get_objects() if isinstance(each, sessions.OpenEnvServer)]


def world_at(url: str, **options: Any) -> World:
    return make("openenv", {"url": url, "prompt": "none", "start_timeout_seconds": 60, **options})


def guess(url: str, **options: Any) -> World:
    fields = {"action_field": "guess", "text_fields": ["said"], "success": 1.0}
    return world_at(f"{url}/guess", **{**fields, **options})


def test_their_echo_environment_plays_episodes(url: str) -> None:
    """It never says that it is done: an episode ends with enough reward, or with its turns."""
    world = world_at(f"{url}/one", end_on_success=True, success=1.0, max_turns=3)
    for task in world.tasks("train")[:2]:
        assert world.start(task).text == "Echo Env environment ready!"
        seen = world.step("hi")
        assert (seen.text, seen.reward, seen.done) == ("hi", 0.2, False)
        seen = world.step("Thought: longer is better.\nAction: ten letters")
        assert (seen.text, seen.reward, seen.done) == ("ten letters", 1.0, True)
        assert world.success
    world.start(world.tasks("test")[0])
    assert [world.step("hi").done for _ in range(3)] == [False, False, True]
    assert not world.success


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_world_on_their_server_keeps_the_contract(
    url: str, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "EPISODES", 3)
    check(lambda: guess(url, max_turns=6))


def test_the_sidecar_of_the_example_is_played_by_the_options_of_its_manifest(url: str) -> None:
    manifest = yaml.safe_load((ROOT / "examples/11-openenv-sidecar/federation.yaml").read_text())
    silo, _ = manifest["spec"]["environments"]
    world = make(silo["world"], {**silo["options"], "url": f"{url}/example"})
    first = world.start(world.tasks("test")[0]).text
    assert first.startswith("Guess the number.") and first.endswith("from 1 to 9.")
    said = [world.step(str(guess)).text for guess in (1, 9, 5)]
    assert said == ["Higher.", "Lower.", said[-1]] and said[-1] in ("Higher.", "Lower.", "Right.")


def test_a_seed_is_a_task_and_success_is_enough_reward_at_the_end(url: str) -> None:
    world = guess(url)
    played = {}
    for task in world.tasks("test")[:20]:
        world.start(task)
        low, high, said = 1, 9, ""
        while said != "Right.":
            middle = (low + high) // 2
            said = world.step(str(middle)).text
            low, high = (middle + 1, high) if said == "Higher." else (low, middle - 1)
        assert world.success
        played[task.id] = middle
    assert len(set(played.values())) > 3
    world.start(world.tasks("test")[0])
    last = [world.step("no number") for _ in range(5)][-1]
    assert (last.done, last.reward, world.success) == (True, 0.5, False)


def test_arguments_of_a_reset_are_options(url: str) -> None:
    world = guess(url, reset={"tries": 1}, text_fields=["left", "said"])
    assert world.start(world.tasks("test")[0]).text == "1\nGuess a number from 1 to 9."
    assert world.step("no number").done


def test_what_the_environment_raises_costs_a_turn_and_the_episode_goes_on(url: str) -> None:
    world = guess(url)
    world.start(world.tasks("test")[0])
    assert world.step("raise").text == "Error: no such guess"
    assert world.step("5").text in ("Higher.", "Lower.", "Right.")


def test_an_action_may_be_json(url: str) -> None:
    world = guess(url, action_form="json")
    world.start(world.tasks("test")[0])
    assert world.step('{"guess": "5"}').text in ("Higher.", "Lower.", "Right.")
    assert world.step("5").text == "That is no action here: give one JSON object."
    assert world.step('{"gess": "5"}').text == "That is no action here: it needs other fields."
    assert world.step('{"guess": 5}').text == "Error: guess: Input should be a valid string"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"action_field": "gess"},
            "options.action_field: got 'gess', expected the field of the server's actions",
        ),
        (
            {"text_fields": ["sayed"]},
            "options.text_fields: got sayed, expected fields of the observation",
        ),
    ],
)
def test_a_field_that_the_server_does_not_have_is_named(
    url: str, options: dict[str, Any], sentence: str
) -> None:
    world = guess(url, **options)
    with pytest.raises(OptionError) as refused:
        world.start(world.tasks("test")[0])
        world.step("5")
    assert str(refused.value).startswith(sentence)
    assert f"{url}/guess/schema lists them" in str(refused.value)


def test_a_server_that_is_full_of_our_own_episodes_is_said_to_be(url: str) -> None:
    """Their template has room for one session."""
    one, other = (world_at(f"{url}/one", retries=1) for _ in range(2))
    one.start(one.tasks("test")[0])
    with pytest.raises(OptionError, match="no room beside our 1 sessions, expected as many"):
        other.start(other.tasks("test")[0])
    assert one.step("still there").text == "still there"
    one.close()
    assert other.start(other.tasks("test")[1]).text == "Echo Env environment ready!"


def test_a_server_that_is_full_of_others_is_tried_again(url: str) -> None:
    theirs = world_at(f"{url}/one", retries=0)  # another address object, so not one of ours
    ours = world_at(f"{url}/one", retries=1)
    theirs.start(theirs.tasks("test")[0])
    with pytest.raises(WorldDown, match=r"is full \(error CAPACITY_REACHED\), expected one with"):
        ours.start(ours.tasks("test")[0])
    theirs.close()
    assert ours.start(ours.tasks("test")[1]).text == "Echo Env environment ready!"


def test_a_world_that_is_gone_leaves_its_session_to_the_next(url: str) -> None:
    for index in range(3):  # one session is all there is
        world = world_at(f"{url}/one", retries=0)
        world.start(world.tasks("test")[index])
        assert world.step("hi").text == "hi"
        del world
        gc.collect()


def write(folder: Path, url: str, **changes: Any) -> Path:
    options = {"url": url, "prompt": "none", "max_turns": 3, "success": 0.5, "retries": 1}
    echo = {"name": "echo", "world": "openenv", "options": {**options, "end_on_success": True}}
    return small.write_beside_maze(folder, echo, **changes)


def federate(folder: Path, url: str, **changes: Any) -> dict[str, Any]:
    """The status of the environment after a run that succeeds."""
    out = folder / "run"
    small.finish(write(folder, url, **changes), out, "--embedded-store")
    status = json.loads(hansa("status", out, "-o", "json").stdout)["status"]
    assert status["phase"] == "Succeeded"
    assert set(status["history"][-1]["success"]) == {"maze", "echo"}
    echo: dict[str, Any] = next(e for e in status["environments"] if e["name"] == "echo")
    return echo


def test_their_echo_environment_is_a_silo_beside_a_maze(tmp_path: Path, url: str) -> None:
    echo = federate(tmp_path, f"{url}/echo")
    assert (echo["explored"], echo["broken"]) == (12, 0)
    assert echo["succeeded"] > 0  # five letters are easily said


@pytest.mark.full
def test_a_server_with_too_little_room_is_named_to_the_person_who_runs(
    tmp_path: Path, url: str
) -> None:
    """Their template has room for one session, and eight episodes are played at a time."""
    with small.Run(write(tmp_path, f"{url}/one"), tmp_path / "run", "--embedded-store") as run:
        assert run.wait() != 0
        said = " ".join(run.said.split())
    assert f"options.url: got {url}/one, a server that has no room beside our 1 sessions" in said


@pytest.mark.full
def test_episodes_whose_answers_were_lost_are_left_out_and_the_round_goes_on(
    tmp_path: Path,
) -> None:
    with openenv_faulty.serving() as server:
        server.fail("step", "drop", "", "raw {", "", "huge")
        federate(tmp_path, server.url, maxBrokenEpisodes=0.5)
        assert not server.faults["step"]
