"""bench/privacy measures what pages show: its scripts run, and sections come with their figures."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sources import ROOT
from tools import results_page
from tools.pages import privacy_tables

pytestmark = pytest.mark.slow

BENCH = ROOT / "bench/privacy"
SMALL = [
    "--rounds",
    "1",
    "--steps",
    "2",
    "--demonstrations",
    "12",
    "--tasks",
    "4",
    "--worlds",
    "wordle",
]
PRIVACY, RESULTS = (
    results_page.template(ROOT / f"docs/{name}.md") for name in ("privacy", "results")
)


def bench(script: str, *arguments: Any) -> str:
    command = [sys.executable, BENCH / script, *arguments]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the figures of a few small runs, and of GPU times that are made up."""
    folder = tmp_path_factory.mktemp("measured")
    noise = ("--sigma", 1)
    for name, more in (("plain", ()), ("private", noise), ("alone", (*noise, "--alone"))):
        run = ("run", *SMALL, "--explore", 4, *more)
        bench("costs.py", *run, "--out", folder / f"costs/{name}.json")
    planted = ("--silo", "wordle", "--explore", 0, "--out", folder / "canary/1.json")
    bench("canary.py", "run", *SMALL, *noise, *planted)
    for shadow in range(4):
        own = ("--shadows", 4, "--shadow", shadow, "--out", folder / f"membership/{shadow}.json")
        bench("membership.py", "run", *SMALL, *own)
    for script, name in (("costs", ""), ("canary", "-canary"), ("membership", "-membership")):
        bench(f"{script}.py", "show", folder / script, "--json", folder / f"privacy{name}.json")
    return folder


def test_a_run_tells_success_in_each_world_and_epsilon_of_each_silo(measured: Path) -> None:
    lines = privacy_tables.read("privacy", measured)
    assert lines and lines.machine
    private = lines.line(sigma=1.0, who="federated")
    assert private["epsilon"] > 0 and private["delta"] == 1e-4 and private["tasks"] == 4
    assert set(private["worlds"]) == {"wordle"}
    assert lines.line(sigma=0.0, who="federated")["epsilon"] is None
    assert lines.line(sigma=0.0, who="start")["seeds"] == [1]
    run = json.loads((measured / "costs/private.json").read_text())
    assert run["epsilon"] == {"wordle": private["epsilon"]}


def test_a_planted_code_has_a_rank_among_a_thousand(measured: Path) -> None:
    lines = privacy_tables.read("privacy-canary", measured)
    assert lines
    for who in ("shared", "own"):
        (rank,) = lines.line(sigma=1.0, who=who)["likelihood"]
        assert 1 <= rank <= 1000


def test_each_task_is_in_half_of_the_shadow_runs(measured: Path) -> None:
    runs = [json.loads((measured / f"membership/{i}.json").read_text()) for i in range(4)]
    kept = [run["rounds"][0]["silos"]["wordle"]["kept"] for run in runs]
    assert sum(kept) == 12 * 2 and all(run["epsilon"] == {"wordle": None} for run in runs)


def test_a_page_has_no_section_of_what_was_not_measured(tmp_path: Path) -> None:
    results = results_page.filled(RESULTS.read_text(), tmp_path)
    assert "## What privacy costs" not in results and "## What an adapter remembers" not in results
    page = results_page.filled(PRIVACY.read_text(), tmp_path)
    assert "What it costs in success" not in page and "GPU is not measured yet" in page


def test_sections_come_with_the_figures(measured: Path) -> None:
    page = results_page.filled(RESULTS.read_text(), measured)
    for name, title in (("", "What privacy costs"), ("-membership", "What an adapter remembers")):
        found = privacy_tables.read(f"privacy{name}", measured)
        assert found and f"\n\n## {title}\n" in page and f"\n\n{found.table}\n" in page
    assert page.endswith("|\n") and "\n\n\n" not in page


def test_figures_of_a_second_model_have_a_table_and_a_verdict_of_their_own(
    measured: Path, tmp_path: Path
) -> None:
    one = json.loads((measured / "privacy.json").read_text())
    assert "SmolLM2 loses" not in results_page.filled(RESULTS.read_text(), measured)
    macros = {(0.0, "federated"): 0.5, (1.0, "federated"): 0.25}
    second = [
        {**line, "model": privacy_tables.SMOLLM2, "macro": [macros[key], 0.2, 0.6]}
        for line in one["table"]
        if (key := (line["sigma"], line["who"])) in macros
    ]
    both = {**one, "table": [*one["table"], *second]}
    (tmp_path / "privacy.json").write_text(json.dumps(both))
    page = results_page.filled(RESULTS.read_text(), tmp_path)
    assert "25.0 (20 to 60) % are left of 50.0 (20 to 60) %" in page and "\n\n\n" not in page
    assert "\n\n**The tiny model**\n\n|" in page and "\n\n**SmolLM2-135M-Instruct**\n\n|" in page


def test_the_page_of_privacy_takes_its_figures_in_as_well(measured: Path, tmp_path: Path) -> None:
    one = json.loads((measured / "privacy.json").read_text())
    lines = [
        {**one["table"][-1], "sigma": sigma, "who": who, "epsilon": sigma or None}
        for sigma in (0.0, 0.5, 1.0, 2.0, 4.0)
        for who in ("alone", "federated")
    ]
    lines.append({**lines[0], "who": "start", "strategy": ""})
    lines.append({**lines[0], "model": "path:another"})
    (tmp_path / "privacy.json").write_text(json.dumps({**one, "table": lines}))
    ways = ("plain", "private", "plainWithoutGraphs", "privateWithoutGraphs")
    names = (*ways, "times", "timesWithoutGraphs")
    time = [{"length": 27, **dict.fromkeys(names, 0.5)}]
    mixed = [{}, {"private": 0.1, "privateWithoutGraphs": 0.3}]
    gpu = {"machine": "a GPU", "check": [{"trajectories": 32}], "time": time, "mixed": mixed}
    (tmp_path / "privacy-gpu.json").write_text(json.dumps(gpu))
    page = results_page.filled(PRIVACY.read_text(), tmp_path)
    assert (
        "\n\n## What it costs in success\n" in page and "\n\n## What it does not protect\n" in page
    )
    assert "\n| noise 0.5 | 0.5 |" in page and "| 27 | 500 | 500 | 500 | 500 | 0.5 | 0.5 |" in page
    assert "a private one takes 100 ms, and 300 without" in page
    assert "not measured yet" not in page and "\n\n\n" not in page


def test_the_attack_finds_members_where_they_show_and_guesses_where_they_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import membership

    random = np.random.default_rng(1)
    members = np.array(
        [[membership.is_member("maze", str(t), run, 16) for t in range(300)] for run in range(16)]
    )
    assert (members.sum(axis=0) == 8).all()
    hard = random.normal(size=300) * 5  # some tasks are likelier than others, in or out
    noise = random.normal(size=members.shape)
    shown = membership.attacked(hard + noise + 2 * members, members)
    assert membership.auc(shown.ravel(), members.ravel()) > 0.85
    hidden = membership.attacked(hard + noise, members)
    assert membership.auc(hidden.ravel(), members.ravel()) == pytest.approx(0.5, abs=0.03)
    assert membership.found_at(shown.ravel(), members.ravel()) > 0.1
