"""The page of the worlds tells the truth: its episodes, options, tables and examples are real."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hansa_worlds import OptionError, gymnasium_ids, listing, make
from hansa_worlds.agentgym import DIALECTS
from hansa_worlds.contract import CHECKS
from tests import openenvs
from tests.served import ADDRESS, served
from tools import console, worlds_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/worlds.md").read_text()
NEEDED: dict[str, dict[str, object]] = {
    "gymnasium": {"env": "tests.gym_envs:Higher"},
    "proxy": {"url": "http://127.0.0.1:9"},
}
WORLDS = ("maze", "wordle", "textcraft", "babyai", "webshop")
OTHERS = ("agentgym", "gymnasium", "openenv", "proxy", "reasoning-gym", "scienceworld", "textworld")


def section(title: str) -> str:
    """What stands below a heading, up to the next one of its rank or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,3}} |\Z)", PAGE, re.M | re.S)
    assert found, title
    return found[2]


@pytest.mark.slow
def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    for block in console.BLOCK.finditer(PAGE):
        for typed in console.parse(block[1]):
            printed = console.typed_in(typed.command, tmp_path)
            assert console.is_same(typed.shown, printed), typed.command


@pytest.mark.parametrize("world", WORLDS)
def test_the_page_shows_an_episode_of_each_world_that_its_expert_wins(world: str) -> None:
    shown = section(world)
    assert f"$ hansa play {world} --as expert" in shown
    assert re.search(r"^success after \d+ turns?, reward", shown, re.M)


@pytest.mark.parametrize("world", [*WORLDS, *OTHERS])
def test_every_option_of_a_world_is_explained(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSA_WORLD_MODULES", "tests.gym_envs")
    with pytest.raises(OptionError) as found:
        make(world, {"no-such-option": 1, **NEEDED.get(world, {})})
    known = str(found.value).partition("expected ")[2].split(", ")
    titles = {
        "agentgym": "AgentGym servers",
        "gymnasium": "Gymnasium environments",
        "openenv": "OpenEnv servers",
        "proxy": "An agent of your own",
    }
    text = section(titles.get(world, world))
    assert [
        name for name in known if f"`{name}`" not in text and name not in ("max_turns", "prompt")
    ] == []


def test_every_dialect_of_agentgym_is_named() -> None:
    text = section("AgentGym servers")
    assert [name for name in DIALECTS if not re.search(rf"\b{name}\b", text)] == []


def test_the_tables_are_those_of_the_worlds_and_their_scores() -> None:
    assert worlds_tables.filled(PAGE) == PAGE


def test_both_tables_were_measured_on_the_same_levels() -> None:
    by_level = json.loads(worlds_tables.LEVELS.read_text())[0]["players"]
    shown = listing.recorded("babyai", {}) or {}
    assert {player: by_level[player]["successes"] for player in by_level} == {
        player: shown[player]["successes"] for player in shown
    }


def test_the_example_of_a_world_is_one() -> None:
    source = re.findall(r"```python\n(.*?)```", section("A world of your own"), re.S)[0]
    names: dict[str, type] = {}
    exec(source, names)  # noqa: S102  (that it runs is what the page says)
    for check in CHECKS.values():
        check(lambda: names["Doors"]({}))


def test_the_manifest_lines_fit_the_spec() -> None:
    import yaml

    from hansa.spec import Environment, Experience

    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S):
        lines = yaml.safe_load(block)
        spec = lines.get("spec", lines) if isinstance(lines, dict) else {}
        Experience.model_validate(spec.get("experience", {}))
        for environment in spec.get("environments", []):
            Environment.model_validate(environment)


@pytest.mark.slow
def test_a_world_is_served_and_played_as_the_page_says(tmp_path: Path) -> None:
    """By OpenEnv's own client, by curl, and by Gymnasium."""
    text = section("Worlds for others")
    command, requests = re.findall(r"```sh\n(.*?)```", text, re.S)
    openenv, gymnasium = re.findall(r"```python\n(.*?)```", text, re.S)
    program = f"'{sys.executable}' -m hansa.cli.main"
    with served(command.strip().replace("hansa", program, 1), tmp_path, os.environ) as url:
        printed = run([openenvs.install() / "python", "-c", openenv.replace(ADDRESS, url)])
        task = make("maze", {"map": "generated", "size": 6}).tasks("test")[3].id
        assert "The goal is at position" in printed
        assert printed.splitlines()[-1].endswith(f"False {task}")
        answers = [
            run(["bash", "-c", line.replace(ADDRESS, url)]) for line in requests.splitlines()
        ]
        state = json.loads(answers[-1])
        assert (len(answers), state["episode_id"], state["step_count"]) == (3, "mine", 1)
    ended = run([sys.executable, "-c", f"{gymnasium}\nprint(info['split'], terminated)"])
    assert ended == "train False\n"


def run(command: list[str | Path]) -> str:
    environ = {**os.environ, **openenvs.ENVIRON, "PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_ids_for_gymnasium_are_those_that_the_page_names() -> None:
    named = set(re.findall(r"`(hansa/\w+-v0)`", section("Worlds for others")))
    assert named == {gymnasium_ids.ids()[world] for world in WORLDS}


def test_the_number_of_families_of_reasoning_gym_is_that_of_the_package() -> None:
    from hansa_worlds.reasoning_gym import REFUSED

    assert f"{106 - len(REFUSED)} of the package's 106 families" in section("reasoning-gym")
