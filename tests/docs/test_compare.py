"""docs/compare.md and docs/results.md: generated tables, and commands that work as shown."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from hansa.api.spec import differences
from hansa.cli import demo
from hansa.compare import comparison
from hansa.manifests import load
from tests.support import small
from tests.support.small import hansa
from tools import compare_plot, compare_tables, results_page
from tools.pages import comparisons, kept

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/compare.md").read_text()
HERE, _, _ = PAGE.partition("## On a cluster")  # tests/cluster/test_compare.py types that part in
VARIED = {
    "aggregation.options",
    "aggregation.strategy",
    "aggregation.serverStep",
    "evaluation.everyRounds",
    "evaluation.greedy",
    "evaluation.tasks",
    "experience.circles",
    "experience.demonstrations",
    "exploration.tasksPerRound",
    "exploration.temperature",
    "personalization",
    "rounds",
}
DEMO = '{% set r = results("compare-demo") %}'
TINY = '{% set r = results("compare-tiny") %}'
SMOLLM2 = '{% set r = results("compare-smollm2") %}'
MERGING = '{% set r = results("compare-smollm2-merging") %}'
SIX = '{% set r = results("compare-six") %}'
RELATED = '{% set r = results("compare-related") %}'
SMOLLM2_MAZES = '{% set r = results("compare-smollm2-related") %}'
MERGED_MAZES = '{% set r = results("compare-smollm2-merging-related") %}'
QUOTED = {
    "README.md": [
        f'{DEMO}| the demo: five different worlds, tiny model | {{{{ r.success("fed-se") }}}} '
        '| {{ r.success("auto") }} | {{ r.success("alone") }} |',
        f'{RELATED}| five silos with a maze each, tiny model | {{{{ r.success("fed-se") }}}} '
        '| {{ r.success("fed-se+auto+cool") }} | {{ r.success("local-evolution+cool") }} |',
        f'{SIX}| six silos of three kinds of world, tiny model | {{{{ r.success("fed-se") }}}} '
        '| {{ r.success("fed-se+auto+cool") }} | {{ r.success("local-evolution+cool") }} |',
        f'{SMOLLM2}| five different worlds, SmolLM2-135M | {{{{ r.success("fed-se") }}}} '
        f'{MERGING}| {{{{ r.success("regmean") }}}} | {{{{ r.success("local-evolution") }}}} |',
        SMOLLM2_MAZES + '| five silos with a maze each, SmolLM2-135M | {{ r.success("fed-se") }} '
        f'{MERGED_MAZES}| {{{{ r.success("fed-se+auto") }}}} '
        '| {{ r.success("local-evolution") }} |',
    ],
    "docs/aggregation.md": [
        TINY + '+{{ r.points("fed-se+step", over="fed-se", places=1) }} points with the tiny model',
        SMOLLM2 + '+{{ r.points("fed-se+step2", over="fed-se", places=1) }} with SmolLM2',
        RELATED + '{{ r.success("fed-se+step") }} % instead of {{ r.success("fed-se") }} %',
    ],
    "docs/learning.md": [
        SMOLLM2 + '[lost {{ r.points("no-history", over="fed-se") }} points by it]'
        '(results.md#a-real-model) ({{ r.limits("no-history", "fed-se") | replace("+", "") }})',
    ],
}
"""Where else results are told, and how; a comparison that is run again changes them, too."""
COMMANDS = re.findall(r"^\$ hansa (.*)$", HERE, flags=re.MULTILINE)


def test_the_table_of_methods_is_generated() -> None:
    assert compare_tables.filled(PAGE) == PAGE, "python tools/compare_tables.py docs/compare.md"


@pytest.mark.parametrize("page", results_page.PAGES, ids=lambda page: page.stem)
def test_pages_of_results_are_generated(page: Path) -> None:
    assert page.read_text() == results_page.made(page), "python -m tools.results_page"


@pytest.mark.parametrize("name", QUOTED)
def test_other_pages_quote_results_as_they_are(name: str) -> None:
    page = " ".join((ROOT / name).read_text().split())
    for sentence in QUOTED[name]:
        assert results_page.filled(sentence) in page


def test_the_demo_ends_with_figures_of_its_comparison() -> None:
    shown = json.loads(demo.FIGURES.read_text())
    assert shown["command"] == "hansa compare examples/05-compare/demo.yaml"
    data = comparisons.to_data(comparisons.read(kept.RESULTS / "compare-demo.json"))
    lines = {line["name"]: line["environments"] for line in data["table"]}
    for name, method in (("alone", "alone"), ("shared", "auto")):
        assert shown[name] == {world: figure[1] for world, figure in lines[method].items()}


def test_the_comparison_of_the_demo_has_the_demos_own_settings() -> None:
    wanted = comparison.read(ROOT / "examples/05-compare/demo.yaml", here=False)
    run = next(run for run in wanted.runs if run.method == "auto")
    spec = load.load(demo.MANIFEST).spec
    changed = {path for path, _, _ in differences(spec.to_json(), run.federation.spec.to_json())}
    assert changed <= {"evaluation.tasks", "evaluation.everyRounds", "evaluation.greedy"}


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_the_pictures_are_generated(name: str) -> None:
    data = comparisons.to_data(comparisons.read(kept.RESULTS / f"compare-{name}.json"))
    picture = (ROOT / f"docs/images/compare-{name}.svg").read_text()
    assert compare_plot.drawn(data) == picture, "tools/compare_plot.py says how"


def test_the_example_is_a_comparison_of_the_methods_that_count() -> None:
    wanted = comparison.read(ROOT / "examples/05-compare/tiny.yaml")
    assert {"pre-trained", "local-evolution", "fedit", "fed-se"} <= set(wanted.methods)
    assert len({run.seed for run in wanted.runs}) >= 3


@pytest.mark.parametrize(
    "example, name",
    [
        ("05-compare/tiny", "05-compare/few"),
        ("05-compare/tiny", "05-compare/related"),
        ("05-compare/tiny", "05-compare/rounds"),
        ("05-compare/tiny", "05-compare/unseen"),
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


def test_leaving_one_silo_out_at_a_time_is_a_comparison(tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(# leave-one-out.yaml.*?)```", PAGE, re.S)
    assert "\n$ hansa compare leave-one-out.yaml\n" in PAGE
    (tmp_path / "federation.yaml").write_text(demo.MANIFEST.read_text())
    file = tmp_path / "leave-one-out.yaml"
    file.write_text(block)
    everybody = {"babyai", "maze", "textcraft", "webshop", "wordle"}
    wanted = {"fed-se": everybody, "no-maze": everybody - {"maze"}}
    wanted["no-wordle"] = everybody - {"wordle"}
    read = comparison.read(file)
    assert (read.reference, len(read.runs)) == ("fed-se", 9)
    for run in read.runs:
        assert {each.name for each in run.federation.spec.environments} == wanted[run.method]
        assert set(run.unseen) == everybody - wanted[run.method]


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
