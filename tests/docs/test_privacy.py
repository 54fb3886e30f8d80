"""docs/privacy.md: its manifest is valid, and its commands print what it shows."""

import json
from pathlib import Path

import yaml

from hansa.api import privacy_ledger
from tests.support import small
from tests.support.pages import blocks

PAGE = (Path(__file__).parents[2] / "docs/privacy.md").read_text()


def manifest(folder: Path) -> Path:
    (shown,) = blocks(PAGE, "yaml")
    spec = yaml.safe_load(shown)["spec"]
    place = {"bucket": "shared", "endpoint": "https://store.example"}
    document = {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "clinics"},
        "spec": {"storage": {"s3": place}, **spec},
    }
    path = folder / "federation.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_what_the_page_shows_is_what_is_printed(tmp_path: Path) -> None:
    file = manifest(tmp_path)
    assert small.hansa("validate", file).returncode == 0
    (shown,) = blocks(PAGE, "console")
    command, _, lines = shown.partition("\n")
    assert command == "$ hansa privacy federation.yaml"
    printed = small.hansa("privacy", "-f", file)
    assert printed.returncode == 0, printed.stderr
    for line in filter(None, lines.splitlines()):
        assert line == "..." or line in printed.stdout.splitlines()
    document = json.loads(small.hansa("privacy", "-f", file, "-o", "json").stdout)
    assert document["rounds"][-1]["rounds"] == 10
    assert document["environments"] == [{"name": "north", "units": 680, "epsilon": 7.9997}]


def test_the_budget_of_the_page_is_what_is_printed_and_what_a_silo_reads(tmp_path: Path) -> None:
    (shown,) = blocks(PAGE, "json")
    printed = small.hansa("privacy", "-f", manifest(tmp_path), "--budget", "4").stdout
    assert json.loads(printed) == json.loads(shown)
    assert privacy_ledger.Budget.model_validate_json(shown).epsilon == 4


def test_a_manifest_without_privacy_and_a_budget_of_nothing_are_refused(tmp_path: Path) -> None:
    plain = small.hansa("privacy", "-f", small.write_manifest(tmp_path))
    assert plain.returncode == 2
    assert "spec.privacy: got nothing, expected it" in plain.stderr
    nothing = small.hansa("privacy", "-f", manifest(tmp_path), "--budget", "0")
    assert nothing.returncode == 2
    assert "--budget: got 0, expected above 0 and up to 1000" in nothing.stderr
