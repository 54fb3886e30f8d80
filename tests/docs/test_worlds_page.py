"""The page of the worlds tells the truth: its episodes, options, tables and examples are real."""

import re
from pathlib import Path

import pytest

from hansa_worlds import OptionError, listing, make
from hansa_worlds.contract import CHECKS
from tools import console, worlds_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/worlds.md").read_text()
NEEDED: dict[str, dict[str, object]] = {
    "gymnasium": {"env": "tests.support.gym_envs:Higher"},
    "proxy": {"url": "http://127.0.0.1:9"},
}
WORLDS = ("maze", "wordle", "textcraft", "babyai", "webshop")
OTHERS = ("agentgym", "gymnasium", "openenv", "proxy")


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


@pytest.mark.parametrize("world", [*WORLDS, *OTHERS])
def test_every_option_of_a_world_is_explained(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSA_WORLD_MODULES", "tests.support.gym_envs")
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


def test_the_tables_are_those_of_the_worlds_and_their_scores() -> None:
    assert worlds_tables.filled(PAGE) == PAGE


def test_both_tables_were_measured_on_the_same_levels() -> None:
    lines = worlds_tables.read_levels()
    shown = listing.find_recorded_scores("babyai", {}) or {}
    assert {player: sum(line[player] for line in lines) for player in worlds_tables.PLAYERS} == {
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

    from hansa.api.spec import Environment, Experience

    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S):
        lines = yaml.safe_load(block)
        spec = lines.get("spec", lines) if isinstance(lines, dict) else {}
        Experience.model_validate(spec.get("experience", {}))
        for environment in spec.get("environments", []):
            Environment.model_validate(environment)
