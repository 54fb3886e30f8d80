"""docs/compare.md and docs/results.md: generated tables, and commands that work as shown."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from hansa import load
from hansa.cli import demo
from hansa.compare import comparison
from hansa.manifest import Figures
from hansa.policy import joined
from hansa.spec import PersonalizationMode, differences
from tests import small
from tests.small import hansa
from tools import compare_plot, compare_tables, results_page

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/compare.md").read_text()
RESULTS = ROOT / "docs/results.md"
HERE, _, _ = PAGE.partition("## On a cluster")  # tests/cluster/test_compare.py types that part in
VARIED = {
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
FIGURE = r"\d[\d.]* ?%|(?<![\w-])[+-]\d[\d.]*|\d[\d.]* points?|\d[\d.]* to [+-]?\d"
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


def test_nobody_types_a_figure_into_the_page_of_results() -> None:
    template = results_page.template(RESULTS).read_text()
    words = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|`[^`]*`", "", template, flags=re.DOTALL)
    assert set(re.findall(FIGURE, words)) <= {"95 %"}


@pytest.mark.parametrize("name", QUOTED)
def test_other_pages_quote_results_as_they_are(name: str) -> None:
    page = " ".join((ROOT / name).read_text().split())
    for sentence in QUOTED[name]:
        assert results_page.filled(sentence) in page


def section(page: str, title: str) -> list[str]:
    """The lines below a heading, up to the next one."""
    _, _, rest = page.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0].splitlines()


def test_the_readme_judges_in_twelve_lines_and_one_table_of_single_figures() -> None:
    lines = section((ROOT / "README.md").read_text(), "Is it any good?")
    assert 0 < len(lines) <= 12
    first = next(line for line in lines if line)
    assert first.startswith("**") and "%" not in first, "the verdict comes first"
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    head, _, *body = rows
    assert len(body) == len(QUOTED["README.md"])
    for row in body:
        assert len(row) == len(head)
        assert all(re.fullmatch(r" \d+ ", cell) for cell in row[1:]), row


def test_what_the_readme_says_first_is_what_the_intervals_show() -> None:
    demo, tiny, mazes, merging = (
        results_page.Figures(f"compare-{name}")
        for name in ("demo", "tiny", "related", "smollm2-merging")
    )
    tiny.level("fed-se+auto+cool", "local-evolution+cool")
    demo.better("auto", "alone")
    demo.better("auto", "fed-se")
    mazes.better("fed-se+auto+cool", "local-evolution+cool")
    mazes.better("fed-se+auto+cool", "fed-se")
    merging.better("local-evolution", "regmean")
    with pytest.raises(AssertionError, match="not shown to be better"):
        merging.better("regmean", "local-evolution")


def test_the_demo_ends_with_figures_of_its_comparison() -> None:
    kept = json.loads(demo.FIGURES.read_text())
    assert kept["command"] == "hansa compare examples/05-compare/demo.yaml"
    data = json.loads((ROOT / "docs/results/compare-demo.json").read_text())
    lines = {line["name"]: line["environments"] for line in data["table"]}
    for name, method in (("alone", "alone"), ("shared", "auto")):
        assert kept[name] == {world: figure[1] for world, figure in lines[method].items()}


def test_the_comparison_of_the_demo_has_the_demos_own_settings() -> None:
    wanted = comparison.read(ROOT / "examples/05-compare/demo.yaml", here=False)
    run = next(run for run in wanted.runs if run.method == "auto")
    spec = load.load(demo.MANIFEST).spec
    changed = {path for path, _, _ in differences(spec.to_json(), run.federation.spec.to_json())}
    assert changed <= {"evaluation.tasks", "evaluation.everyRounds", "evaluation.greedy"}


def test_the_page_of_results_begins_with_its_verdicts() -> None:
    page = RESULTS.read_text()
    verdicts = [line for line in section(page, "Verdicts") if line]
    assert page.index("\n## ") == page.index("\n## Verdicts\n")
    assert len(verdicts) >= 5
    for line in verdicts:
        assert line.startswith("- "), line
        assert len(line) <= 160, line
        assert re.search(r"\]\(#[a-z-]+\)\.?$|\]\(demo.md\)\.?$", line), f"no evidence: {line}"


def test_every_verdict_leads_to_its_evidence() -> None:
    page = RESULTS.read_text()
    heads = {
        re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-")
        for head in re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= heads


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_the_pictures_are_generated(name: str) -> None:
    data = json.loads((ROOT / f"docs/results/compare-{name}.json").read_text())
    picture = (ROOT / f"docs/images/compare-{name}.svg").read_text()
    assert compare_plot.drawn(data) == picture, "tools/compare_plot.py says how"


def test_every_way_to_personalize_is_explained() -> None:
    modes = PersonalizationMode.__args__  # type: ignore[attr-defined]
    assert [mode for mode in modes if f"| `{mode}` |" not in PAGE] == []


@pytest.mark.parametrize("served, alone", [(68, 50), (53, 50), (50, 68)])
def test_what_joining_may_bring_is_shown_as_it_is_said(served: int, alone: int) -> None:
    figures = [Figures(episodes=100, successes=successes) for successes in (served, alone)]
    assert f"\n{joined.sentence(*figures)}\n" in PAGE


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
