"""The reference pages are made from the models, and say so when they are stale."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from hansa.manifests import reference
from hansa.manifests.crd import FEDERATION, MEMBER, CrdDefinition

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/reference.py, which is no package."""
    spec = importlib.util.spec_from_file_location("reference_tool", ROOT / "tools/reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_fresh(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = tool.main(["--check"])
    assert code == 0, capsys.readouterr().out


def test_a_stale_page_is_named_and_written(
    tool: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool, "DOCS", tmp_path)
    assert tool.main(["--check"]) == 1
    assert capsys.readouterr().out == (
        "stale: docs/reference.md; run tools/python tools/reference.py\n"
        "stale: docs/reference-member.md; run tools/python tools/reference.py\n"
    )
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0


@pytest.mark.parametrize(
    "kind, some",
    [
        (FEDERATION, {"spec", "spec.training", "spec.storage.s3", "spec.environments"}),
        (MEMBER, {"spec", "spec.federation", "spec.limits", "spec.agreed", "status.conditions"}),
    ],
    ids=["federation", "member"],
)
def test_every_field_of_the_spec_has_a_row_and_every_link_a_heading(
    tool: ModuleType, kind: CrdDefinition, some: set[str]
) -> None:
    page = tool.page(kind)
    sections = {part.partition("\n")[0].lstrip("# "): part for part in page.split("\n#")}
    for entry in reference.walk_fields(reference.describe_spec(kind)):
        section = sections.get(entry.path, "")
        for each in entry.fields if section else []:
            assert f"| `{each.name}` |" in section or f"| [`{each.name}`](#" in section, each.path
    assert some <= sections.keys()
    anchors = {tool.anchor(line.lstrip("# ")) for line in page.splitlines() if line[:1] == "#"}
    links = {part.partition(")")[0] for part in page.split("](#")[1:]}
    assert links <= anchors
