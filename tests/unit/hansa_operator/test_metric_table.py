"""The table of metrics: names that follow the conventions, labels that stay few."""

import pytest

from hansa_operator.metric_table import COMMON_LABELS, MEMBER_LABELS, METRICS


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_follows_the_conventions(metric):
    assert metric.name.startswith("hansa_")
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert metric.labels[:2] in (COMMON_LABELS, MEMBER_LABELS)
    assert "round" not in metric.labels
    assert metric.help.endswith(".")
    assert bool(metric.buckets) == (metric.type == "histogram")
    assert list(metric.buckets) == sorted(metric.buckets)


def test_no_name_is_used_twice():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
