"""Alerts and dashboard: real Prometheus tools accept them, and they name the operator's metrics."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa_operator.metric_table import METRICS, Metric
from tests.chart.charts import EVERYTHING, Objects, render

NAME = re.compile(r"\bhansa_[a-z_]+")
LABELS = re.compile(r"\b(hansa_[a-z_]+?)(?:_bucket|_sum|_count)?\{([^}]*)\}")
TABLE = {metric.name: metric for metric in METRICS}
SCRAPED_WITH = {"le", "pod", "job", "instance"}
ALERTS = Path(__file__).parent / "alerts.yaml"


@pytest.fixture(scope="module")
def rules(full: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = full.one("PrometheusRule")["spec"]
    return spec


@pytest.fixture(scope="module")
def dashboard(full: Objects) -> dict[str, Any]:
    data = full.one("ConfigMap", "hansa-dashboard")["data"]["hansa.json"]
    loaded: dict[str, Any] = json.loads(data)
    return loaded


def expressions(rules: dict[str, Any], dashboard: dict[str, Any]) -> Iterator[str]:
    for group in rules["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    yield from (each.get("definition", "") for each in dashboard["templating"]["list"])


def family(name: str) -> Metric | None:
    """The metric behind a name, which for histograms may be that of one of its series."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    histogram = TABLE.get(base)
    return histogram if histogram and histogram.type == "histogram" else TABLE.get(name)


def test_alerts_and_dashboard_name_every_metric_and_no_other(
    rules: dict[str, Any], dashboard: dict[str, Any]
) -> None:
    named = {name for text in expressions(rules, dashboard) for name in NAME.findall(text)}
    assert [name for name in sorted(named) if family(name) is None] == []
    assert {found.name for name in named if (found := family(name))} == set(TABLE)


def test_expressions_select_and_group_by_labels_that_exist(
    rules: dict[str, Any], dashboard: dict[str, Any]
) -> None:
    for text in expressions(rules, dashboard):
        for name, selectors in LABELS.findall(text):
            used = set(re.findall(r"(\w+)\s*=", selectors))
            metric = family(name)
            assert metric and used <= set(metric.labels) | SCRAPED_WITH, text
        known = {label for name in NAME.findall(text) for label in family(name).labels}  # type: ignore[union-attr]
        for grouped in re.findall(r"\bby \(([^)]*)\)", text):
            assert set(re.split(r",\s*", grouped)) <= known | SCRAPED_WITH, text


def test_every_panel_has_a_place_a_sentence_and_a_query(dashboard: dict[str, Any]) -> None:
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        mine = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not mine & cells, panel["title"]
        cells |= mine
        if panel["type"] != "row":
            assert panel["description"] and panel["targets"], panel["title"]


@pytest.mark.slow
def test_the_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool: got none, expected Debian's package prometheus or its like"
    metrics = {
        **EVERYTHING["metrics"],
        "prometheusRule": {"enabled": True, "alertLabels": {"team": "ml"}},
    }
    spec = render(**{**EVERYTHING, "metrics": metrics}).one("PrometheusRule")["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    shutil.copy(ALERTS, tmp_path / "alerts.yaml")
    for what, file in (("check", "rules.yaml"), ("test", "alerts.yaml")):
        done = subprocess.run(
            [promtool, what, "rules", file], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    tested = {
        t["alertname"]
        for case in yaml.safe_load(ALERTS.read_text())["tests"]
        for t in case["alert_rule_test"]
        if t["exp_alerts"]
    }
    assert tested == {rule["alert"] for group in spec["groups"] for rule in group["rules"]}
