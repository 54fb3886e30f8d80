"""Files of the chart that are made from others are fresh, and every value is explained."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.chart.charts import CHART, ROOT


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/chart.py, which is no package."""
    spec = importlib.util.spec_from_file_location("chart_tool", ROOT / "tools" / "chart.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_made_files_are_fresh(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = tool.main(["--check"])
    assert code == 0, capsys.readouterr().out


def test_a_stale_file_is_named(
    tool: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file: Path = CHART / "Chart.yaml"
    monkeypatch.setattr(tool, "made", lambda: {file: "other"})
    assert tool.main(["--check"]) == 1
    assert "stale: charts/hansa/Chart.yaml" in capsys.readouterr().out


def test_every_value_has_a_comment(tool: ModuleType) -> None:
    text = (CHART / "values.yaml").read_text()
    assert tool.undocumented(text) == []
    assert tool.undocumented("a:\n  b: 1\n  # said\n  c: {d: 1}\n") == ["a.b"]
