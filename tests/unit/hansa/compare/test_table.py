"""The table's means, intervals and costs are those of the runs' files, checked by known numbers."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansa.api.bucket_documents import TaskTallies
from hansa.compare import estimate, page, results, statistics, table, text
from hansa.compare.estimate import FirstRound
from hansa.compare.results import Communication
from hansa.compare.statistics import Rate
from hansa.core.errors import InputError, InvalidDocument
from hansa.core.stats import rate_interval
from tests.support.builders import make_federation
from tests.support.comparison_tables import (
    ENVIRONMENTS,
    built,
    make_result,
    make_run,
    make_wanted,
    shared,
    tasks,
)

# Intervals


def test_one_seed_has_an_interval_close_to_wilsons() -> None:
    for won in (0, 3, 50, 97, 100):
        rate = Rate(success=won / 100, effective=100, weight=100)
        found = statistics.summarize({1: {"maze": rate}}).macro
        expected = rate_interval(won / 100, 100)
        assert found.value == won / 100
        assert found.low == pytest.approx(expected.low, abs=0.015)
        assert found.high == pytest.approx(expected.high, abs=0.015)


def test_means_are_over_seeds_environments_and_episodes() -> None:
    small, large = Rate(0.5, 10, 10), Rate(0.2, 90, 90)
    other = Rate(0.7, 10, 10), Rate(0.4, 90, 90)
    found = statistics.summarize({1: {"a": small, "b": large}, 2: {"a": other[0], "b": other[1]}})
    assert found.environments["a"].value == pytest.approx(0.6)
    assert found.macro.value == pytest.approx((0.35 + 0.55) / 2)
    assert found.micro.value == pytest.approx((0.23 + 0.43) / 2)


def test_seeds_that_disagree_widen_the_interval() -> None:
    def spread(*rates: float) -> float:
        found = statistics.summarize(
            {seed: {"maze": Rate(rate, 1000, 1000)} for seed, rate in enumerate(rates)}
        )
        return found.macro.high - found.macro.low

    assert spread(0.3, 0.5, 0.7) > 3 * spread(0.5, 0.5, 0.5)


def test_the_bootstrap_over_seeds_covers_about_what_it_says() -> None:
    # Known answer: the mean of n equal seeds has the binomial's standard error over n x episodes.
    found = statistics.summarize({s: {"maze": Rate(0.5, 400, 400)} for s in range(4)}).macro
    assert found.high - found.low == pytest.approx(2 * 1.96 * (0.25 / 1600) ** 0.5, rel=0.05)


def test_differences_pair_the_seeds_that_both_have() -> None:
    ours = {1: {"m": Rate(0.6, 1e4, 1)}, 2: {"m": Rate(0.2, 1e4, 1)}, 3: {"m": Rate(0.0, 1e4, 1)}}
    theirs = {1: {"m": Rate(0.5, 1e4, 1)}, 2: {"m": Rate(0.1, 1e4, 1)}}
    found = statistics.estimate_difference(ours, theirs)
    assert found is not None and found.value == pytest.approx(0.1)
    assert found.high - found.low < 0.05  # far less than seeds differ: they were drawn in pairs
    assert statistics.estimate_difference(ours, {9: {"m": Rate(0.5, 10, 10)}}) is None


def test_the_same_results_give_the_same_figures() -> None:
    samples = {1: {"m": Rate(0.6, 50, 50)}, 2: {"m": Rate(0.2, 50, 50)}}
    assert statistics.summarize(samples) == statistics.summarize(samples)


# Lines


def test_a_shared_adapter_has_one_line_with_its_last_round() -> None:
    run = make_run("fed-se", 1)
    rows = [*((n, 10, 0, "") for n in ENVIRONMENTS), *((n, 40, 2, "") for n in ENVIRONMENTS)]
    (line,) = built((run, make_result(run, *rows))).lines
    assert line.summary.macro.value == 0.4
    assert [(round_, figure.value) for round_, figure in line.curve] == [(0, 0.1), (2, 0.4)]
    assert (line.megabytes, line.seconds, line.steps, line.shares) == (4.0, 60.0, 10, "adapters")


def test_local_adapters_are_scored_at_home_and_everywhere() -> None:
    run = make_run("local-evolution", 1)
    home = [(name, 80, 2, name) for name in ENVIRONMENTS]
    away = [(name, 20, 2, of) for of in ENVIRONMENTS for name in ENVIRONMENTS if name != of]
    base = [(name, 5, 0, "") for name in ENVIRONMENTS]
    lines = built((run, make_result(run, *base, *home, *away))).lines
    assert [line.name for line in lines] == ["local-evolution", "local-evolution, all worlds"]
    assert lines[0].summary.macro.value == 0.8
    assert lines[1].summary.macro.value == pytest.approx((80 + 20 + 20) / 300)
    assert [figure.value for _, figure in lines[0].curve] == [0.05, 0.8]


def test_what_silos_serve_themselves_counts_instead_of_the_global_adapter() -> None:
    run = make_run("fed-se+personal", 1)
    shared_ = [(name, 40, 2, "") for name in ENVIRONMENTS]
    own = [(name, 60, 2, name) for name in ENVIRONMENTS]
    (line,) = built((run, make_result(run, *shared_, *own))).lines
    assert line.summary.macro.value == 0.6


def test_an_adapter_that_a_guard_went_back_from_does_not_count() -> None:
    run = make_run("fed-se", 1)
    rows = [(name, won, r, "") for name in ENVIRONMENTS for r, won in enumerate((10, 40, 5))]
    (line,) = built((run, make_result(run, *rows, final=1))).lines
    assert line.summary.macro.value == 0.4


def test_an_earlier_adapter_does_not_pass_for_one_that_a_silo_could_not_play() -> None:
    first, second = make_run("fed-se", 1), make_run("fed-se", 2)
    begun = [(name, 10, 0, "") for name in ENVIRONMENTS]
    played = [(name, 40, 2, "") for name in ENVIRONMENTS]
    made = built(
        (first, make_result(first, *begun, *played)),
        (second, make_result(second, *begun, *played[1:])),
    )
    assert made.lines[0].summary.seeds == 1 and made.lines[0].summary.macro.value == 0.4
    assert made.missing == ["fed-se-2"]


def test_a_silo_alone_that_never_learned_is_the_base() -> None:
    run = make_run("local-evolution", 1)
    begun = [(name, 10, 0, "") for name in ENVIRONMENTS]
    learned = [(name, 40, 2, name) for name in list(ENVIRONMENTS)[1:]]
    nothing = Communication(shares="nothing")
    made = built((run, make_result(run, *begun, *learned, communication=nothing)))
    assert made.lines[0].summary.macro.value == pytest.approx((10 + 40 + 40) / 300)


def test_a_world_in_which_every_episode_broke_has_no_figure() -> None:
    run = make_run("centralized", 1)
    rows = [results.row(run, name, tasks(50, 100), 1) for name in ENVIRONMENTS]
    rows[0] = results.row(run, rows[0].environment, {}, 1)
    made = built((run, shared(run, 50, 50, 50).model_copy(update={"rows": rows, "final": 1})))
    assert made.lines == [] and made.missing == ["centralized-1"]


def test_adapters_that_play_the_same_tasks_do_not_count_as_more_tasks() -> None:
    run = make_run("local-evolution", 1)
    rows = [(name, 40, 2, of) for of in ENVIRONMENTS for name in ENVIRONMENTS]
    home, everywhere = built((run, make_result(run, *rows))).lines
    assert everywhere.summary.macro == home.summary.macro


def test_the_reference_is_what_others_are_compared_with() -> None:
    usual, other = make_run("fed-se", 1), make_run("fedit", 1)
    made = built((usual, shared(usual, 50, 50, 50)), (other, shared(other, 30, 40, 50)))
    assert made.lines[0].against is None
    assert made.lines[1].against is not None
    assert made.lines[1].against.value == pytest.approx(-0.1)


def test_what_is_missing_is_named_and_the_rest_is_shown() -> None:
    first, second = make_run("fed-se", 1), make_run("fed-se", 2)
    others = [(make_run("fedit", seed), None) for seed in (1, 2)]
    made = built((first, shared(first, 50, 50, 50)), (second, None), *others)
    assert made.missing == ["fed-se-2", "fedit-1", "fedit-2"]
    assert [line.name for line in made.lines] == ["fed-se"]
    assert "Missing: fed-se-2, fedit." in text.render_markdown(table.to_data(made))


def test_tasks_of_a_mixed_world_belong_to_their_environments() -> None:
    run = make_run("centralized", 1)
    tallies = TaskTallies.model_validate(
        {
            "program": "1",
            "environment": "centre",
            "adapter": {"round": 2, "sha256": "a" * 64},
            "fingerprint": "a" * 64,
            "inputs": {},
            "tasks": {"maze/a/1": [1, 1], "maze/b": [0, 1], "wordle/c": [1, 1]},
            "greedy": {"maze/b": [1, 1]},
        }
    )
    found = results.split_by_environment(run, tallies)
    assert found["maze"] == ({"a/1": [1, 1], "b": [0, 1]}, {"b": [1, 1]})
    assert found["wordle"] == ({"c": [1, 1]}, {})
    stray = tallies.model_copy(update={"tasks": {"chess/a": [1, 1]}})
    with pytest.raises(InvalidDocument, match="got 'chess/a', of no silo"):
        results.split_by_environment(run, stray)


# Text and page


def test_the_markdown_has_every_figure_with_its_limits() -> None:
    run = make_run("fed-se", 1)
    shown = text.render_markdown(table.to_data(built((run, shared(run, 50, 25, 0)))))
    head, _, line = shown.splitlines()
    assert head == (
        "| method | macro | against fed-se | babyai | maze | wordle | micro | MB | time | seeds |"
    )
    assert line.startswith("| fed-se | 25.0 (")
    assert ") |  | 50.0 (40 to 59) | 25.0 (17 to 34) | 0.0 (0 to 2) | 25.0 (" in line
    assert line.endswith(") | 4.00 | 60 s | 1 |")


def test_what_is_solved_greedily_has_a_column_where_a_run_has_played_so() -> None:
    ours, theirs = make_run("fed-se", 1), make_run("fedit", 1)
    sampled = shared(ours, 50, 25, 0)
    shares = zip(sampled.rows, (0.9, 0.8, 0.7), strict=True)
    rows = [row.model_copy(update={"greedy": share}) for row, share in shares]
    greedy = sampled.model_copy(update={"rows": rows})
    made = built((ours, greedy), (theirs, shared(theirs, 1, 2, 3)))
    head, _, line, other = text.render_markdown(table.to_data(made)).splitlines()
    assert head.startswith("| method | macro | greedy | against fed-se | babyai |")
    assert [each.split(" | ")[2] for each in (line, other)] == ["80.0", ""]
    assert "80.0\u202f%" in page.render(made)
    one_is_missing = sampled.model_copy(update={"rows": [rows[0], *sampled.rows[1:]]})
    assert built((ours, one_is_missing)).lines[0].summary.greedy is None


def test_a_narrow_terminal_gets_all_columns_in_blocks() -> None:
    rows = [["method", "maze", "words", "MB"], ["fed-se", "50.0 (40 to 59)", "1.0 (0 to 3)", "4"]]
    assert text.split_columns(rows, 1000) == [rows]
    narrow = text.split_columns(rows, 26)
    assert [block[0] for block in narrow] == [["method", "maze"], ["method", "words", "MB"]]
    assert text.split_columns(rows, 1) == [[[r[0], r[i]] for r in rows] for i in (1, 2, 3)]


def test_the_page_shows_the_macro_average_before_the_worlds() -> None:
    usual, other = make_run("fed-se", 1), make_run("fedit", 1)
    made = built((usual, shared(usual, 50, 50, 50)), (other, shared(other, 30, 40, 50)))
    shown = page.render(made).split("<tbody>")[0]
    heads = re.findall(r'<th scope="col">(.*?)</th>', shown)
    assert heads == ["method", "macro", "against fed-se", *ENVIRONMENTS, "micro", "seeds"]
    _, _, line = page.render(made).split("</tbody>")[0].split("<tr>")[1:]
    cells = re.findall(r"<b.*?>(.*?)</b>", line)
    assert [re.sub(r"\s%", "", cell) for cell in cells] == [
        "40.0",
        "\u221210.0",
        "30.0",
        "40.0",
        "50.0",
        "40.0",
    ]


def test_the_page_is_whole_and_loads_nothing() -> None:
    usual, other = make_run("fed-se", 1), make_run("<b>mine</b>", 1, base="fed-se")
    made = built((usual, shared(usual, 50, 50, 50)), (other, shared(other, 30, 40, 50)))
    html = page.render(made)
    assert html == page.render(made)
    assert "<b>mine" not in html and "&lt;b&gt;mine" in html
    assert "http-equiv" in html and "src=" not in html
    document = json.loads(html.split('id="hansa-data">')[1].split("</script>")[0])
    assert [line["macro"][1] for line in document["table"]] == [0.5, 0.4]


# Files


def test_a_result_comes_back_from_its_file(tmp_path: Path) -> None:
    run = make_run("fed-se", 1)
    assert results.read(tmp_path, run) is None
    result = shared(run, 50, 50, 50)
    results.write(tmp_path, run, result)
    assert results.read(tmp_path, run) == result


def test_a_result_of_another_spec_is_refused_by_the_field(tmp_path: Path) -> None:
    run = make_run("fed-se", 1)
    results.write(tmp_path, run, shared(run, 50, 50, 50))
    changed = make_run("fed-se", 1, training={"epochs": 5})
    with pytest.raises(InputError, match=r"made with spec\.training\.epochs 2, .* now says 5"):
        results.read(tmp_path, changed)


def test_a_result_is_refused_when_a_world_that_took_no_part_has_changed(tmp_path: Path) -> None:
    run = replace(make_run("fed-se", 1), unseen=("maze",))
    result = shared(run, 50, 50, 50).model_copy(update={"left_out": run.left_out})
    results.write(tmp_path, run, result)
    assert results.read(tmp_path, run) == result
    worlds = [{"name": n, "world": n} for n in ENVIRONMENTS]
    worlds[1]["options"] = {"size": 9}
    silos = make_federation(environments=worlds)
    with pytest.raises(InputError, match=r"spec\.environments\.maze\.options.* now says .*9"):
        results.read(tmp_path, replace(run, silos=silos))


def test_results_of_two_base_models_are_not_mixed(tmp_path: Path) -> None:
    runs = [make_run("fed-se", 1), make_run("fedit", 1)]
    for run, digest in zip(runs, ("a" * 64, "b" * 64), strict=True):
        result = shared(run, 50, 50, 50).model_copy(update={"base_model": digest})
        results.write(tmp_path, run, result)
    with pytest.raises(InputError, match="another base model than fed-se-1"):
        results.read_results(tmp_path, make_wanted(*runs))


def test_a_file_that_is_no_result_is_told(tmp_path: Path) -> None:
    run = make_run("fed-se", 1)
    results.file(tmp_path, run).parent.mkdir()
    results.file(tmp_path, run).write_text("{}")
    with pytest.raises(InputError, match="something else than a result"):
        results.read(tmp_path, run)


# The estimate

FIRST = FirstRound(
    method="fed-se",
    seed=1,
    fixed=1.0,
    evaluate=3.0,
    explore=10.0,
    train=20.0,
    merge=0.5,
    steps=30,
    shown=30,
    explored=60,
    succeeded=30,
)


@pytest.mark.parametrize(
    "method, fields, seconds",
    [
        pytest.param("pre-trained", {}, 3.0, id="an evaluation alone"),
        pytest.param("fed-se", {}, 9 + 3 + 20 + 20 + 30, id="training grows with the experience"),
        pytest.param(
            "no-history", {"experience": {"history": False}}, 9 + 3 + 20 + 40, id="or does not"
        ),
        pytest.param(
            "fedit", {"exploration": {"tasksPerRound": 0}}, 9 + 3 + 10 + 10, id="nothing explored"
        ),
        pytest.param(
            "fed-se", {"training": {"maxSteps": 10}}, 9 + 3 + 20 + 40, id="steps are capped"
        ),
        pytest.param(
            "local-evolution",
            {"aggregation": {"strategy": "none"}},
            9 + 3 + 20 + 50 + 6,
            id="adapters of their own are scored in two more worlds",
        ),
    ],
)
def test_the_estimate_follows_from_the_first_round(
    method: str, fields: dict[str, Any], seconds: float
) -> None:
    assert estimate.estimate_runs(FIRST, [make_run(method, 1, **fields)]) == pytest.approx(seconds)
