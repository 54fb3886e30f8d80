"""The comparison's page begins with what its intervals show, and colours nothing else."""

import re

import pytest

from hansa.compare import page
from hansa.compare.table import ComparisonTable
from tests.support.comparison_tables import built, make_run, shared


def compared(seeds: int = 3, **won: int) -> ComparisonTable:
    """Methods with so many successes of 100 in each world, beside fed-se with 50."""
    runs = []
    for name, count in {"fed-se": 50, **won}.items():
        for seed in range(1, seeds + 1):
            run = make_run(name, seed, base="fed-se")
            runs.append((run, shared(run, count, count, count)))
    return built(*runs)


def verdict(shown: ComparisonTable) -> str:
    html = page.render(shown)
    line = re.search(r'<p class="verdict">(.*?)</p>', html)
    assert line, "no verdict"
    assert html.index('class="verdict"') < html.index("<nav") < html.index("<table")
    return re.sub(r"<[^>]+>", "", line[1])


@pytest.mark.parametrize(
    ("won", "sentence"),
    [
        pytest.param({}, "Only fed-se is here: nothing is compared.", id="one method"),
        pytest.param(
            {"second": 52, "third": 49},
            "No method is shown to be better or worse than fed-se: every interval of a difference "
            "includes zero.",
            id="no interval excludes zero",
        ),
        pytest.param(
            {"second": 90, "third": 51},
            "Better than fed-se: second (+40.0). No difference is shown for third.",
            id="one is better",
        ),
        pytest.param(
            {"second": 10, "third": 90, "fourth": 95},
            "Better than fed-se: third (+40.0), fourth (+45.0). Worse: second (\u221240.0).",
            id="better and worse ones",
        ),
        pytest.param(
            {"second": 10},
            "No method is shown to be better than fed-se. Worse: second (\u221240.0).",
            id="only a worse one",
        ),
    ],
)
def test_the_verdict_says_what_the_intervals_show(won: dict[str, int], sentence: str) -> None:
    assert verdict(compared(**won)) == sentence


def test_a_verdict_of_one_seed_says_what_it_leaves_open() -> None:
    assert "1 seed: nothing is said about others" in verdict(compared(1, second=90))
    assert "seed" not in verdict(compared(3, second=90))


def test_a_verdict_says_that_runs_are_missing() -> None:
    done, todo = make_run("fed-se", 1), make_run("second", 1, base="fed-se")
    assert "so far" in verdict(built((done, shared(done, 1, 1, 1)), (todo, None)))


def test_without_any_result_the_verdict_says_so() -> None:
    run = make_run("fed-se", 1)
    assert verdict(built((run, None))) == "No run is over yet: nothing is compared so far."


@pytest.mark.parametrize(
    ("count", "colours"), [(52, set()), (48, set()), (90, {"up"}), (10, {"down"})]
)
def test_only_a_difference_whose_interval_excludes_zero_is_coloured(
    count: int, colours: set[str]
) -> None:
    html = page.render(compared(second=count))
    assert set(re.findall(r'class="(up|down)"', html)) == colours


def test_the_page_has_contents_captions_and_one_run_as_one() -> None:
    html = page.render(compared(1))
    linked = re.findall(r'href="#([^"]+)"', re.findall(r"<nav.*?</nav>", html)[0])
    assert linked == re.findall(r'<h2 id="([^"]+)"', html)
    assert html.count("<caption>") == html.count("<table")
    assert html.count("<figcaption>") == html.count("<figure")
    assert "1 run<" in html and "1 runs" not in html
