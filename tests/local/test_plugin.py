"""The example package: built as a wheel, installed beside Hansa, federated, and missed by name."""

import os
import shutil
import site
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import processes, small
from tests.support.small import hansa

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/08-plugin"
OFFLINE = ("--quiet", "--no-deps", "--no-index", "--no-cache-dir", "--disable-pip-version-check")


@dataclass(frozen=True)
class Environment:
    """An environment of its own, which has this one's packages and one more."""

    python: Path

    @property
    def variables(self) -> dict[str, str]:
        """What a program of it starts with; the embedded store's program is this one's."""
        own = Path(sys.executable).parent
        return {**os.environ, "PATH": f"{self.python.parent}:{own}:{os.environ['PATH']}"}

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """One call of its Python to the end."""
        return subprocess.run(
            [self.python, *map(str, arguments)],
            env={**self.variables, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=processes.PATIENCE_SECONDS,
            check=False,
        )

    def hansa(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return self.run("-m", "hansa.cli.main", *arguments)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built."""
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(EXAMPLE, source)  # building writes beside the sources
    made = tmp_path_factory.mktemp("wheels")
    build = (sys.executable, "-m", "pip", "wheel", *OFFLINE, "--no-build-isolation")
    subprocess.run([*build, "-w", made, source], check=True, capture_output=True, timeout=300)
    [built] = made.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the package installed by pip; what it shares it reads where it is."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    [packages] = folder.glob("lib/python*/site-packages")
    shared = [f"import site; site.addsitedir({place!r})" for place in site.getsitepackages()]
    (packages / "shared.pth").write_text("\n".join(shared) + "\n")
    install = (sys.executable, "-m", "pip", "--python", python, "install", *OFFLINE)
    subprocess.run([*install, wheel], check=True, capture_output=True, timeout=300)
    return Environment(python)


def manifest(folder: Path, old: str = "", new: str = "") -> Path:
    """The example's manifest in a folder, with one text exchanged."""
    text = (EXAMPLE / "federation.yaml").read_text()
    assert old in text
    path = folder / "federation.yaml"
    path.write_text(text.replace(old, new) if old else text)
    return path


def test_all_three_keep_the_contract(environment: Environment, tmp_path: Path) -> None:
    """The line of docs/plugins.md."""
    suite = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull)
    contract = "hansa.manifests.contract"
    suite += ("--rootdir", str(tmp_path), "-p", contract, "--pyargs", contract)
    asked = ("--strategy", "sign-mean", "--learner", 'short-success={"perTask": 2}')
    ended = environment.run(*suite, *asked, "--world", "cargo")
    assert ended.returncode == 0, ended.stdout
    assert "30 passed" in ended.stdout
    unknown = environment.run(*suite, "--strategy", "sign-maen")
    assert unknown.returncode != 0
    assert "--strategy sign-maen: spec.aggregation.strategy: got 'sign-maen'" in (
        unknown.stdout + unknown.stderr
    )
    nothing = environment.run(*suite)
    assert "got nothing to check, expected one of --strategy" in nothing.stdout + nothing.stderr


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        pytest.param(
            "perTask: 2",
            "perTasks: 2",
            "spec.training.options.perTasks: unknown field, did you mean perTask?",
            id="an unknown option",
        ),
        pytest.param(
            "agreement: 0.5",
            "agreement: 5",
            "spec.aggregation.options.agreement: got 5, expected a number from 0 to 1",
            id="an option out of bounds",
        ),
        pytest.param(
            "serverStep: 2.0",
            "serverStep: auto",
            "spec.aggregation.serverStep: got auto with sign-mean, expected a number",
            id="a step for means",
        ),
        pytest.param(
            "strategy: sign-mean",
            "strategy: mean",
            "spec.aggregation.options.agreement: unknown field, expected none",
            id="options of a builtin",
        ),
    ],
)
def test_validate_checks_by_the_packages_own_models(
    environment: Environment, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    refused = environment.hansa("validate", manifest(tmp_path, old, new))
    assert (refused.returncode, sentence in refused.stderr) == (2, True), refused.stderr


@pytest.fixture(scope="module")
def finished(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the example's federation, run to its end."""
    folder = tmp_path_factory.mktemp("federation")
    file, out = manifest(folder), folder / "run"
    assert environment.hansa("validate", file).returncode == 0
    ended = environment.hansa("run", file, "--embedded-store", "--out", out)
    assert ended.returncode == 0, ended.stderr
    return out


def test_the_package_takes_part_in_a_federation(finished: Path) -> None:
    status = small.status(finished)
    assert status["phase"] == "Succeeded"
    assert status["history"][-1]["updates"] == "2/2"
    assert set(status["history"][-1]["success"]) == {"cargo", "maze"}
    assert status["history"][-1]["success"]["cargo"] > 0.3, "it is written in known words"


def test_what_plug_ins_merged_comes_out_the_same_when_it_is_merged_again(
    environment: Environment, finished: Path
) -> None:
    checked = environment.hansa("audit", finished)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_who_lacks_the_package_reads_the_run_and_is_told_what_cannot_be_checked(
    finished: Path,
) -> None:
    assert hansa("status", finished).returncode == 0
    checked = hansa("audit", finished)
    assert checked.returncode == 3, checked.stdout + checked.stderr
    said = " ".join((checked.stdout + checked.stderr).split())
    assert "spec.aggregation.strategy: got 'sign-mean', which no package here offers" in said


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        pytest.param(
            "world: cargo",
            "world: textcraft",
            "spec.aggregation.strategy: got 'sign-mean', which no package here offers (entry "
            "point hansa.strategies), expected mean or",
            id="strategy",
        ),
        pytest.param(
            "strategy: sign-mean\n    options: {agreement: 0.5}",
            "strategy: mean",
            "spec.environments[1].world: got 'cargo', expected",
            id="world",
        ),
    ],
)
@pytest.mark.parametrize("command", ["validate", "run"])
def test_without_the_package_its_name_is_said(
    tmp_path: Path, command: str, old: str, new: str, sentence: str
) -> None:
    file = manifest(tmp_path, old, new)
    file.write_text(file.read_text().replace("{prompt: brief}", "{}"))
    more = ("--embedded-store", "--out", tmp_path / "run") if command == "run" else ()
    refused = hansa(command, file, *more)
    assert (refused.returncode, sentence in refused.stderr) == (2, True), refused.stderr
