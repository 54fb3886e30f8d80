"""Where drift is shown: on screens, on the report's page, in trackers and in metrics."""

from typing import Any

import pytest

from hansa.api.status import Federation
from hansa.cli.screen import render_run
from hansa.cli.views.federation import screen
from hansa.kubernetes.federations import FederationView
from hansa.plan.policy import drift
from hansa.report.data import collect
from hansa.report.page import render
from hansa.report.tracking_figures import build_record
from hansa_operator import metric_table as table
from hansa_operator import steps
from tests.support.builders import NOW, with_status
from tests.support.drift_plans import federation, play


def drifted(*, guarded: bool, rounds: int = 3) -> Federation:
    """After two adapters that broke the rule in half of the episodes."""
    bound = {"maxDrop": 0.5, "maxViolations": 0.1} if guarded else None
    cluster = federation(rounds=rounds, guard=bound)
    for _ in range(3):
        play(cluster, 10, "maze", lie=20, nats=0.25)
    return with_status(cluster.federation, cluster.status)


FREE = (
    "probe wall: its rule was broken in 50.0% of its episodes, +40.0 points since the first "
    "adapter (round 2)",
    "probe memory: its texts are +0.250 nats per token less likely than without an adapter "
    "(round 2)",
)


def test_what_probes_say_of_the_adapter_that_counts() -> None:
    free, held = drifted(guarded=False), drifted(guarded=True)
    assert drift.describe_probes(free.status) == list(FREE)
    assert drift.measure_rises(free.status) == {"wall": 0.4}
    assert drift.measure_rises(held.status) == {"wall": 0.0}, (
        "what was gone back from does not count"
    )
    assert drift.describe_probes(held.status)[0].endswith(
        "+0.0 points since the first adapter (round 0)"
    )
    unplayed = held.status.model_copy(update={"history": []})
    assert drift.describe_probes(unplayed) == []
    assert drift.measure_rises(unplayed) == {}


def test_both_screens_show_it() -> None:
    free = drifted(guarded=False)
    data = free.to_json()
    shown = screen(FederationView(federation=data), NOW)
    assert shown.footer[:2] == list(FREE)
    said = [str(part) for part in render_run(free).renderables]
    assert f"  {FREE[0]}" in said


@pytest.mark.parametrize(
    "history",
    [[], [{"round": "one", "outcome": "base"}], [{"round": 1, "outcome": "base", "probes": 3}]],
)
def test_a_status_that_does_not_fit_shows_nothing_and_breaks_nothing(history: Any) -> None:
    data = drifted(guarded=False).to_json()
    data["status"]["history"] = history
    footer = screen(FederationView(federation=data), NOW).footer
    assert not [line for line in footer if line.startswith("probe")]


def test_the_page_has_a_table_by_round_and_one_by_environment() -> None:
    page = render(collect(drifted(guarded=False), None))
    assert "What each environment says of the newest adapter" in page
    shown = page.replace('"', "")
    assert "data-probe=wall data-round=2 data-value=0.5" in shown
    assert "data-probe=wall data-round=0 data-value=0.1" in shown
    assert "+0.250 nats" in page
    assert "#drift" in page


def test_trackers_get_a_curve_of_each_probe() -> None:
    points = build_record(drifted(guarded=False), "id", is_over=False).federation.points
    curve = {(p.metric, p.step): p.value for p in points if p.metric.endswith((".wall", ".memory"))}
    assert curve["violations.wall", 0] == 0.1
    assert curve["violations.wall", 2] == 0.5
    assert curve["forgotten.memory", 2] == 0.25


def test_metrics_tell_each_environments_word_and_what_most_confirm() -> None:
    figures = list(steps.list_probe_figures(drifted(guarded=False).status))
    assert (table.PROBE_VIOLATIONS, ("maze", "wall"), 1.0) in figures
    assert (table.PROBE_VIOLATIONS, ("wordle", "wall"), 0.5) in figures
    assert (table.PROBE_DRIFT, ("wall",), 0.4) in figures
    assert (table.PROBE_FORGOTTEN, ("memory",), 0.25) in figures
    assert {metric for metric, _, _ in figures} == set(steps.PROBE_METRICS)
