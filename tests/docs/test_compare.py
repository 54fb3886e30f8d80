"""docs/compare.md and docs/results.md: generated tables, and commands that work as shown."""

import json
import re
import shlex
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.compare import comparison, statistics, table, text
from hansa.compare.results import Result
from hansa.spec import PersonalizationMode, differences
from tests import small
from tests.small import hansa
from tools import compare_plot, compare_tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/compare.md").read_text()
HERE, _, _ = PAGE.partition("## On a cluster")  # tests/cluster/test_compare.py types that part in
VARIED = {
    "aggregation.strategy",
    "aggregation.serverStep",
    "evaluation.everyRounds",
    "experience.demonstrations",
    "exploration.tasksPerRound",
}
SIGNED = r"[+-]\d+(?:\.\d)?"
DIFFERENCE = rf"(?:({SIGNED})[^+\d-]{{0,20}})?([+-]\d+) to ([+-]\d+)"
COMMANDS = re.findall(r"^\$ hansa (.*)$", HERE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["compare.md", "results.md"])
def test_the_tables_are_generated(name: str) -> None:
    page = (ROOT / "docs" / name).read_text()
    assert compare_tables.filled(page) == page, f"python tools/compare_tables.py docs/{name}"


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_the_pictures_are_generated(name: str) -> None:
    data = json.loads((ROOT / f"docs/results/compare-{name}.json").read_text())
    picture = (ROOT / f"docs/images/compare-{name}.svg").read_text()
    assert compare_plot.drawn(data) == picture, "tools/compare_plot.py says how"


def test_the_text_gives_only_differences_that_the_results_have() -> None:
    page = (ROOT / "docs/results.md").read_text()
    sections = re.findall(r"<!-- table: (\S+) -->.*?<!-- end -->(.*?)(?=\n#|\Z)", page, re.DOTALL)
    claimed = {
        name: set(re.findall(DIFFERENCE, " ".join(prose.split()))) for name, prose in sections
    }
    assert sum(map(len, claimed.values())) > 20
    wrong = {name: claims - set(_differences(name)) for name, claims in claimed.items() if claims}
    assert not any(wrong.values()), wrong


def _differences(name: str) -> Iterator[tuple[str, str, str]]:
    """How much better each method is than each other one, as value and limits, or limits alone."""
    data: dict[str, Any] = json.loads((ROOT / f"docs/results/{name}.json").read_text())
    runs: dict[str, list[Result]] = {}
    for run in data["runs"]:
        own = [row for row in data["rows"] if (row["method"], row["seed"]) == _key(run)]
        result = Result.model_validate({**run, "spec": {}, "rows": own})
        runs.setdefault(run["method"], []).append(result)
    samples = {method: table.last(mine, data["environments"]) for method, mine in runs.items()}
    for one, other in permutations(samples, 2):
        found = statistics.difference(samples[one], samples[other])
        assert found
        value, low, high = re.findall(SIGNED, text.points([found.low, found.value, found.high]))
        yield value, low, high
        yield "", low, high


def _key(run: dict[str, Any]) -> tuple[str, int]:
    return run["method"], run["seed"]


def test_every_way_to_personalize_is_explained() -> None:
    modes = PersonalizationMode.__args__  # type: ignore[attr-defined]
    assert [mode for mode in modes if f"| `{mode}` |" not in PAGE] == []


def test_the_example_is_a_comparison_of_the_methods_that_count() -> None:
    wanted = comparison.read(ROOT / "examples/compare-tiny.yaml")
    assert {"pre-trained", "local-evolution", "fedit", "fed-se"} <= set(wanted.methods)
    assert len({run.seed for run in wanted.runs}) >= 3


@pytest.mark.parametrize(
    "example, name",
    [
        ("compare-tiny", "compare-few"),
        ("compare-tiny", "compare-related"),
        ("compare-tiny", "compare-unseen"),
        ("04-real-model/compare", "04-real-model/few"),
        ("04-real-model/compare", "04-real-model/related"),
    ],
)
def test_the_other_settings_are_those_of_the_example_but_for_what_they_vary(
    example: str, name: str
) -> None:
    own = comparison.read(ROOT / f"examples/{example}.yaml", here=False)
    usual = own.runs[0].silos.spec.to_json()
    for run in comparison.read(ROOT / f"examples/{name}.yaml", here=False).runs:
        spec = {**run.silos.spec.to_json(), "seed": usual["seed"]}
        varied = {path for path, _, _ in differences(usual, spec)}
        assert varied <= {*VARIED, "environments"}, varied


@pytest.mark.slow
def test_its_file_is_one_and_its_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small.write_manifest(tmp_path, rounds=1, evaluation={"tasks": 2})
    document = yaml.safe_load(re.findall(r"```yaml\n(# compare.yaml.*?)```", PAGE, re.S)[0])
    Path("compare.yaml").write_text(json.dumps(document))
    assert len(comparison.read(Path("compare.yaml")).runs) == 18
    few = {"seeds": [1], "methods": ["pre-trained", "fed-se+personal"]}
    Path("compare.yaml").write_text(json.dumps({**document, **few}))
    assert len(COMMANDS) == 4
    for command in COMMANDS:
        ended = hansa(*shlex.split(command))
        assert ended.returncode == 0, ended.stderr
        assert "--estimate" not in command or "for all that is left" in ended.stderr
    data = json.loads(ended.stdout)
    assert [line["name"] for line in data["table"]] == ["pre-trained", "fed-se+personal"]
    served = next(run["serves"] for run in data["runs"] if run["method"] == "fed-se+personal")
    assert set(served) == set(small.ENVIRONMENTS)
