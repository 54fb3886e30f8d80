"""Ways to evolve: what bench/merging/evolve.py reckons, and what pages say of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hansa.compare import statistics, text
from hansa.compare.statistics import Rate
from tests.sources import ROOT
from tools import results_page
from tools.pages import evolve_tables
from tools.pages.evolve_tables import Evolved
from tools.pages.evolve_ways import SETTINGS, WAYS

TEMPLATE = results_page.template(ROOT / "docs/results.md").read_text()
TITLE = "\n## Ways to evolve better\n"
SILO = {"explored": 24, "successes": 9, "kept": 12, "learnedTokens": 300, "steps": 4}
AIDED = {"aided": 5, "aidedSuccesses": 1}


def run(
    seed: int, success: dict[str, float], model: str = "builtin:tiny", **silo: int
) -> dict[str, Any]:
    """A result of question.py, of two rounds and 100 tasks; greedily it wins half of the rest."""
    greedily = {world: rate + (1 - rate) / 2 for world, rate in success.items()}
    early = dict.fromkeys(success, 0.0)
    return {
        "seed": seed,
        "flags": {"federation": "examples/05-compare/few.yaml"},
        "spec": {"rounds": 2, "model": {"source": model}, "evaluation": {"tasks": 100}},
        "device": "a machine",
        "torch": "2",
        "evaluations": [
            {"round": at, "split": "test", "temperature": heat, "tasks": 100, "success": rates}
            for at, heat, rates in ((1, 1.0, early), (2, 1.0, success), (2, 0.0, greedily))
        ],
        "rounds": [{"round": at, "silos": dict.fromkeys(success, SILO | silo)} for at in (1, 2)],
    }


def folder_of(path: Path, runs: dict[str, dict[str, Any]]) -> Path:
    path.mkdir()
    for name, document in runs.items():
        (path / f"{name}.json").write_text(json.dumps(document))
    return path


def reckon(folder: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "bench/merging/evolve.py", folder, "--json", out, *more]
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with figures of a few made-up runs."""
    path = tmp_path_factory.mktemp("evolve")
    runs = {
        f"{way}-{setting}-{seed}": run(
            seed, {"textcraft": textcraft, "wordle": 0.4 + seed / 50}, **silo
        )
        for setting in ("few", "tiny")
        for seed in (1, 2, 3)
        for way, textcraft, silo in (
            ("base", 0.5, {}),
            ("again", 0.5, AIDED),
            ("lead", 0.9, AIDED),
            ("grpo", 0.1, {}),
            ("banditagain", 0.54, AIDED),
        )
    }
    runs["dpo-few-1"] = run(1, {"textcraft": 0.9, "wordle": 0.9})
    del runs["dpo-few-1"]["evaluations"][-1]
    runs["own-few-1"] = run(1, {"textcraft": 0.9, "wordle": 0.9})
    runs["own-few-1"]["spec"]["rounds"] = 3
    for name in ("base-smol-1", "lead-smol-1"):  # stopped after the first of two rounds
        runs[name] = run(1, {"textcraft": 0.3, "wordle": 0.1}, "another")
        del runs[name]["evaluations"][1:]
    ended = reckon(folder_of(path / "runs", runs), path / "evolve.json", "--after", "smol=1")
    assert ended.returncode == 0, ended.stderr
    said = [f"not over, left out: {name}-few-1.json" for name in ("dpo", "own")]
    assert ended.stderr.splitlines() == said
    return path


@pytest.fixture(scope="module")
def page(measured: Path) -> str:
    """The page of results with those figures."""
    return results_page.filled(TEMPLATE, measured)


def lines(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    table = json.loads((folder / "evolve.json").read_text())["table"]
    return {(line["setting"], line["way"]): line for line in table}


def test_a_line_has_what_its_runs_have(measured: Path) -> None:
    table = lines(measured)
    assert len(table) == 12 and ("few", "dpo") not in table
    line = table["few", "again"]
    assert line["seeds"] == [1, 2, 3]
    assert line["macro"][1] == pytest.approx((0.5 + 0.44) / 2)
    assert line["greedy"] == pytest.approx((0.75 + 0.72) / 2)
    wordle = line["worlds"]["wordle"]
    assert wordle["won"] == [42, 44, 46] and wordle["tasks"] == [100] * 3
    assert wordle["greedyWon"] == [71, 72, 73] and wordle["success"][1] == 0.44
    counts = {
        "explored": 96,
        "aided": 20,
        "aidedWon": 4,
        "relabelled": 0,
        "tokens": 1200,
        "steps": 16,
    }
    assert {name: line[name] for name in counts} == counts


def test_runs_that_were_stopped_count_after_the_round_that_all_reached(
    measured: Path, page: str
) -> None:
    line = lines(measured)["smol", "lead"]
    assert line["explored"] == 48 and line["greedy"] is None and line["macro"][1] == 0.0
    assert "): after 1 rounds of 2, where runs were stopped, 100 held-out" in page


def test_settings_of_the_tiny_model_are_pooled_for_ways_that_all_have(measured: Path) -> None:
    evolved = evolve_tables.read(measured)
    assert evolved
    pooled, few = evolved.pooled("lead"), evolved.gain("lead", "base", "few").interval
    assert pooled and pooled.interval.value == few.value
    assert few.low < pooled.interval.low < few.value
    document = json.loads((measured / "evolve.json").read_text())
    table = [e for e in document["table"] if (e["setting"], e["way"]) != ("few", "lead")]
    assert Evolved({**document, "table": table}).pooled("lead") is None
    other = [{**each, "model": "path:another"} for each in document["settings"]]
    assert Evolved({**document, "settings": other}).pooled("lead") is None


def test_a_difference_is_paired_by_seed_as_in_comparisons(measured: Path) -> None:
    ours, theirs = (
        {
            seed: {
                "textcraft": Rate(rate, effective=100, weight=100),
                "wordle": Rate(0.4 + seed / 50, effective=100, weight=100),
            }
            for seed in (1, 2, 3)
        }
        for rate in (0.9, 0.5)
    )
    gain = statistics.difference(ours, theirs)
    assert gain and gain.low > 0
    table = lines(measured)
    assert table["few", "lead"]["against"] == [gain.low, gain.value, gain.high]
    assert table["few", "again"]["against"][1] == 0 and table["few", "base"]["against"] is None
    evolved = evolve_tables.read(measured)
    assert evolved and evolved.gain("lead", "base", "few").interval == gain


def test_results_that_cannot_be_compared_are_refused(
    tmp_path: Path,
) -> None:
    one = run(2, {"wordle": 0.5})
    wrong = reckon(folder_of(tmp_path / "wrong", {"base-few-1": one}), tmp_path / "evolve.json")
    assert wrong.returncode and wrong.stderr == "error: base-few-1.json: seed: got 2, expected 1\n"
    alone = reckon(folder_of(tmp_path / "alone", {"more-few-2": one}), tmp_path / "evolve.json")
    assert alone.stderr == "error: more-few: got seeds [2], expected one of base's\n"
    strange = reckon(folder_of(tmp_path / "new", {"new-few-2": one}), tmp_path / "evolve.json")
    assert strange.returncode and "error: new-few-2.json: got new and few" in strange.stderr
    assert not (tmp_path / "evolve.json").exists()


def test_the_verdicts_follow_from_the_figures(page: str) -> None:
    verdicts = page.partition("## How to read")[0]
    first = "- **One of 4 other ways to evolve is ahead of the usual one**: most +20.0 points ("
    assert first in verdicts
    assert "- **One is behind it**: most -20.0 points (" in verdicts
    assert "two together**: +2.0 points (" in verdicts and "3.0 too few. [Evidence]" in verdicts
    assert "- **In wordle none of 4 is ahead**: at best +0.0 points" in verdicts
    assert "- **In textcraft one of 4 is ahead**: most +40.0 points" in verdicts
    section = page.partition(TITLE)[2]
    assert "; greedily +10.0 (" in section
    assert "against its control, *unsolved again*, +20.0 (" in section
    assert "1.2 times the episodes, 1.0 times the trained tokens.\n" in section
    assert "- **Behind the usual way**, different worlds: *grpo* -20.0 (" in section


def test_the_hope_is_reached_where_it_is(measured: Path) -> None:
    document = json.loads((measured / "evolve.json").read_text())
    table = [line for line in document["table"] if line["way"] != "banditagain"]
    (verdict,) = (v for v in Evolved({**document, "table": table}).verdicts if "hoped" in v)
    assert verdict.startswith("**Five points were hoped for**: +20.0 points (")
    assert "*expert begins*, reached. [" in verdict


def test_a_page_has_no_section_of_ways_that_were_not_measured(tmp_path: Path) -> None:
    page = results_page.filled(TEMPLATE, tmp_path)
    assert TITLE not in page and "ways-to-evolve" not in page and "\n\n\n" not in page


@pytest.mark.parametrize("is_made_up", [True, False], ids=["made up", "measured"])
def test_the_tables_of_the_page_are_the_files_figures(
    measured: Path, page: str, is_made_up: bool
) -> None:
    folder = measured if is_made_up else evolve_tables.RESULTS
    page = page if is_made_up else (ROOT / "docs/results.md").read_text()
    section = page.partition(TITLE)[2].partition("\n## ")[0]
    assert "\n\n\n" not in page
    for setting, words in SETTINGS.items():
        own = [line for (where, _), line in lines(folder).items() if where == setting]
        _, _, rest = section.partition(f"\n**{words[0].upper()}{words[1:]}** (")
        table = rest.partition("\n\n")[2].partition("\n\n")[0].strip()
        shown = [row.strip("| ").split(" | ") for row in table.splitlines()]
        assert len(shown[2:]) == len(own)
        for line in own:
            name = WAYS[line["way"]].words
            (row,) = (row for row in shown if row[0] == name)
            figures = [line["macro"], *(world["success"] for world in line["worlds"].values())]
            assert [row[1], *row[5 : 5 + len(line["worlds"])]] == list(map(text.percent, figures))
            assert row[3] == text.points(line["against"])
            assert row[2] == ("" if line["greedy"] is None else f"{100 * line['greedy']:.1f}")


def test_what_pages_say_in_words_is_what_the_intervals_show() -> None:
    evolved, table = evolve_tables.read(), lines(evolve_tables.RESULTS)
    assert evolved and evolved.learners in (ROOT / "docs/learning.md").read_text()
    ahead = [(gain.way, gain.setting) for gain in evolved.gains() if gain.verdict == "ahead"]
    assert sorted(ahead) == [("cold2hot", "few"), ("more", "few")]

    def verdict(way: str, setting: str = "few", *, greedy: bool = False) -> str:
        return evolved.gain(way, "base", setting, greedy=greedy).verdict

    more = evolved.pooled("more")
    assert more and more.verdict == "ahead" and 0.01 < more.interval.value < 0.03
    for way in ("again", "cold2hot", "lead", "sft424"):
        for setting in ("tiny", "few", "related"):
            assert evolved.gain(way, "more", setting).verdict == "level", (way, setting)
    ways = ("base", "cold2hot", "more")
    played = {way: table["few", way]["explored"] + table["few", way]["aided"] for way in ways}
    assert played["base"] < played["cold2hot"] < played["more"]
    assert {verdict("sft424", setting) for setting in ("tiny", "few", "related")} == {"level"}
    assert verdict("short7") == verdict("short7", "tiny") == "level"
    for setting in ("tiny", "few", "related"):
        assert verdict("grpo", setting) == "behind", setting
        assert verdict("grpo", setting, greedy=True) == "level", setting
    assert (verdict("warmgrpo"), verdict("warmgrpo", greedy=True)) == ("behind", "level")
    empty = {(setting, way) for way in WAYS for setting in ("tiny", "few", "related")} - set(table)
    assert {(s, w) for s, w in empty if w in evolved.ways} == {("related", "relabel")}
    assert evolved.gain("warmgrpo", "grpo", "few").verdict == "ahead"
    assert {
        verdict(way, setting, greedy=hot)
        for way in ("dpo", "warmdpo")
        for setting in ("tiny", "few", "related")
        for hot in (True, False)
    } == {"behind"}
    assert table["related", "dpo"]["macro"][1] < 0.01
    tried = {way for setting, way in table if setting == "smol" and way != "base"}
    assert {"cold2hot", "more"} < tried
    assert {verdict(way, "smol") for way in tried} == {"level"}
    assert {verdict("half", setting) for setting in ("tiny", "few", "related")} == {"level"}
    again, lead, hint = (
        table["few", way]["aidedWon"] / table["few", way]["aided"]
        for way in ("again", "lead", "hint")
    )
    assert lead > 2 * again and again < hint < 1.5 * again
    assert evolved.gain("lead", "again", "few").verdict == "level"


def test_every_way_says_what_it_is_and_has_a_control_that_is_one() -> None:
    assert len({way.words for way in WAYS.values()}) == len(WAYS)
    assert all(way.control in WAYS and way.about for way in WAYS.values())
