"""docs/results keeps little, and what is made of it is on the pages."""

import subprocess
import sys
from pathlib import Path

import pytest

from hansa.compare import comparison, results, table
from hansa.compare.comparison import Run
from hansa.compare.results import Communication, RunResult, RunWork
from tests.support.sources import ROOT
from tools import results_page
from tools.pages import comparisons, kept, merging_tables

BENCH = (ROOT / "bench/README.md").read_text()
DEMO = ROOT / "examples/05-compare/demo.yaml"
WANTED = comparison.read(DEMO, here=False)


def test_what_is_kept_of_all_measurements_is_small() -> None:
    assert sum(path.stat().st_size for path in kept.RESULTS.iterdir()) <= 300_000
    assert list((ROOT / "bench").rglob("*.json")) == []


@pytest.mark.parametrize("name", merging_tables.TABLES)
def test_the_tables_of_ways_to_merge_are_on_the_page_of_measurements(name: str) -> None:
    head, _, *rows = merging_tables.TABLES[name]().splitlines()
    made = "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])
    assert f"\n\n{made}\n\n" in BENCH.replace("**", ""), made


def test_the_page_of_merging_quotes_figures_as_they_are() -> None:
    page = " ".join((ROOT / "docs/merging.md").read_text().split())
    paper, merged = (results_page.Figures(f"compare-smollm2{name}") for name in ("", "-merging"))
    auto, regmean, alone = (
        merged.success(method, places=1) for method in ("fed-se+auto", "regmean", "local-evolution")
    )
    (pooled,) = (row[4] for row in cells("beside") if row[0].startswith("one silo with all worlds"))
    assert f"as the paper has it {paper.success('fed-se', places=1)} %, the mean with" in page
    assert f"`auto` {auto}, `regmean` {regmean}; one silo that has" in page
    assert f"itself {pooled}." in page and f"epochs, has {alone}, in its own" in page
    five, forty = (row for row in cells("scale") if row[0] in ("5", "40"))
    mean, auto, regmean = ([row[at].partition(" ")[0] for row in (five, forty)] for at in (1, 3, 4))
    assert "`regmean` goes from {} to {} %, `auto`".format(*regmean) in page
    assert "from {} to {}; the plain mean".format(*auto) in page
    assert {f"{float(each):.0f}" for each in mean} <= {"58", "59"} and "mean stays at 58 " in page


def cells(name: str) -> list[list[str]]:
    rows = merging_tables.TABLES[name]().splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_picture_of_aggregating_is_generated() -> None:
    command = [sys.executable, "bench/aggregate/plot.py", "docs/results/aggregate.json"]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert drawn.stdout == (ROOT / "docs/images/aggregate.svg").read_text()


def result(run: Run) -> RunResult:
    """One that is made up; silos that evolve alone have an adapter each."""
    is_alone = run.method == "alone"
    names = list(WANTED.environments)
    rows = [
        results.row(
            run,
            name,
            comparisons.tallies(run.seed % 7 + 5 * at + len(own) + 2 * round_, 60),
            round_,
            own,
            comparisons.tallies(50 - at, 60) if round_ else {},
        )
        for round_ in (0, 6)
        for own in (names if is_alone and round_ else [""])
        for at, name in enumerate(names)
    ]
    return RunResult(
        program="1",
        method=run.method,
        base=run.base,
        seed=run.seed,
        spec={},
        rows=rows,
        final=6,
        serves={names[0]: "own"},
        communication=Communication(
            shares="nothing" if is_alone else "adapters", up=5_000_000, down=7_000_000
        ),
        work=RunWork(explored=9, succeeded=4, steps=3, tokens=2),
        wall_seconds=1.5,
        machine="a machine",
    )


def test_a_comparison_keeps_all_that_its_table_needs(tmp_path: Path) -> None:
    known = {run.id: result(run) for run in WANTED.runs[:-1]}
    kept.write(tmp_path / "kept.json", comparisons.compact(DEMO, WANTED, known))
    made = comparisons.to_data(comparisons.read(tmp_path / "kept.json"))
    usual = table.to_data(table.build(WANTED, known))
    assert made["table"] == usual["table"] and made["rows"] == usual["rows"]
    assert made["missing"] == [WANTED.runs[-1].id] and made["title"] == WANTED.title
    for own, other in zip(made["runs"], usual["runs"], strict=True):
        for name in ("method", "seed", "serves", "work", "wallSeconds", "machine"):
            assert own[name] == other[name]


def test_what_was_merged_in_memory_shows_no_bytes_and_no_time(tmp_path: Path) -> None:
    known = {run.id: result(run) for run in WANTED.runs if run.method == "auto"}
    document = comparisons.compact(DEMO, WANTED, known)
    document["runs"] = [{**line, "bytes": 0} for line in document["runs"]]
    kept.write(tmp_path / "kept.json", document)
    (line,) = comparisons.to_data(comparisons.read(tmp_path / "kept.json"))["table"]
    assert line["shares"] == ""


def test_a_run_that_is_not_in_the_comparison_is_refused(tmp_path: Path) -> None:
    document = comparisons.compact(DEMO, WANTED, {WANTED.runs[0].id: result(WANTED.runs[0])})
    document["runs"][0]["method"] = "another"
    kept.write(tmp_path / "kept.json", document)
    with pytest.raises(ValueError, match=r"runs: got \['another-\d+'\]"):
        comparisons.read(tmp_path / "kept.json")


def test_a_task_that_was_played_twice_is_refused() -> None:
    run = WANTED.runs[0]
    row = results.row(run, "maze", {"a": [1, 2]}, 0)
    twice = result(run).model_copy(update={"rows": [row]})
    with pytest.raises(ValueError, match="got 2 episodes of 1 tasks"):
        comparisons.compact(DEMO, WANTED, {run.id: twice})
