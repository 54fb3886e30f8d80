"""What silos serve themselves, and what joining brought them: said at the end of a run."""

import json
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.report.joining import describe_choice
from tests.support import small
from tests.support.small import hansa

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("personal")
    manifest = small.write_manifest(
        folder, rounds=1, evaluation={"tasks": 4, "alone": True}, personalization="interpolate"
    )
    with small.Run(manifest, folder / "run") as begun:
        begun.finish()
    return folder / "run"


def test_the_status_says_what_each_silo_serves(run: Path) -> None:
    serves = {line["name"]: line["serves"] for line in small.status(run)["environments"]}
    assert set(serves) == set(small.ENVIRONMENTS)
    shown = hansa("status", run).stdout
    assert all(f"{name}: serves {choice}, " in shown for name, choice in serves.items())
    said = run.with_name("run.stderr").read_text()
    assert all(f"{name} serves {choice}: " in said for name, choice in serves.items())
    page = (run / "report.html").read_text()  # its contents name the section, too
    section = page[page.rindex("What each silo serves") :].partition("</section>")[0]
    assert all(describe_choice(choice) in section for choice in serves.values())


def test_what_joining_brought_is_said_wherever_one_looks(run: Path) -> None:
    shown = hansa("status", run).stdout
    said = run.with_name("run.stderr").read_text()
    page = (run / "report.html").read_text()
    for line in small.status(run)["environments"]:
        ratios = {"alone": line["alone"], "shared": line["success"], "served": line["personal"]}
        figures = ", ".join(f"{title} {float(ratio):.1%}" for title, ratio in ratios.items())
        sentence = f"{line['name']}: {figures}: {line['joined']}"
        assert line["joined"].startswith("joining ")
        assert sentence in " ".join(shown.split()) and sentence in said
        assert line["joined"] in page


@pytest.mark.parametrize("environment", small.ENVIRONMENTS)
def test_a_silos_adapter_is_pulled_by_its_name(run: Path, tmp_path: Path, environment: str) -> None:
    pulled = hansa("pull", run, "-e", environment, "--to", tmp_path / "own")
    assert pulled.returncode == 0, pulled.stderr
    manifest = json.loads((tmp_path / "own" / bucket_keys.MANIFEST).read_text())
    serves = {line["name"]: line["serves"] for line in small.status(run)["environments"]}
    if serves[environment] == "global":
        assert manifest["kind"] == "global" and "serves the global adapter" in pulled.stderr
    else:
        assert (manifest["kind"], manifest["choice"]) == ("personal", serves[environment])
    config = json.loads((tmp_path / "own" / bucket_keys.CONFIG).read_text())
    is_mixed = serves[environment].startswith("mix")
    assert config["lora_alpha"] / config["r"] == 2 and config["r"] == (16 if is_mixed else 8)


def test_a_silo_that_chose_nothing_is_told(undisturbed: Path, run: Path, tmp_path: Path) -> None:
    none = hansa("pull", undisturbed, "-e", "maze", "--to", tmp_path / "own")
    assert none.returncode == 2
    assert "--environment: got maze, which chose nothing to serve in round 2" in none.stderr
    wrong = hansa("pull", run, "-e", "moon", "--to", tmp_path / "own")
    assert "--environment: got 'moon', expected maze or webshop" in wrong.stderr
