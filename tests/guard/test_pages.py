"""Pages: what they link to and name is there, and README shows a manifest that fits."""

import re
from pathlib import Path

import yaml

from hansa.manifests.load import build
from tests.support.sources import ROOT


def test_the_readme_shows_a_manifest_that_fits_within_its_first_80_lines() -> None:
    readme = (ROOT / "README.md").read_text()
    [manifest] = re.findall(r"```yaml\n(.*?)```", readme, flags=re.DOTALL)
    assert build(yaml.safe_load(manifest)).spec.rounds == 2
    head = readme.splitlines()[:80]
    assert set(manifest.splitlines()) <= set(head)


def test_the_index_of_the_documentation_names_every_page_and_example() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages = [file.name for file in (ROOT / "docs").glob("*.md") if file.name != "README.md"]
    examples = [f"{folder.name}/README.md" for folder in (ROOT / "examples").glob("[0-9]*")]
    assert [name for name in (*pages, *examples) if name not in index] == []


def test_every_relative_link_of_the_documents_leads_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def slug(heading: str) -> str:
    """The name by which Markdown links to a heading, as GitHub gives it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return {slug(heading) for heading in re.findall(r"^#+ (.+?) *$", text, flags=re.MULTILINE)}


def test_every_link_to_a_section_leads_to_its_heading() -> None:
    folders = (".", "docs", "bench", "charts/*", "examples/*", "plugins/*")
    for folder in folders:
        for page in ROOT.glob(f"{folder}/*.md"):
            for target, section in re.findall(
                r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", page.read_text()
            ):
                file = page.parent / target if target else page
                assert section in anchors(file), f"{page.name} links to {target}#{section}"


def test_every_test_that_a_page_names_is_there() -> None:
    """Guides name the test that shows a promise; attacks.md is made from the tests themselves."""
    for document in [*(ROOT / "docs").glob("*.md"), *(ROOT / "charts").glob("*/README.md")]:
        named = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", document.read_text())
        for path, test in named:
            assert (ROOT / path).is_file(), f"{document.name} names {path}"
            assert f"def {test}" in (ROOT / path).read_text(), f"{document.name} names {test}"
