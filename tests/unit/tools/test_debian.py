"""Debian's packages: locks are waited for, and a failure stops with apt's own words."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
TEST_PROGRAMS = ("chromium", "promtool", "buildah", "debootstrap", "containerd", "runc")
BUSY = "E: Could not get lock {}. It is held by process 4711 (unattended-upgr)"
LISTS, FRONTEND = "/var/lib/apt/lists/lock", "/var/lib/dpkg/lock-frontend"

APT = """#!{python}
import sys, pathlib
here = pathlib.Path({folder!r})
words = [each for each in sys.argv[1:] if not each.startswith("-")]
with (here / "calls").open("a") as calls:
    print(*words, file=calls)
script = here / words[0]
lines = script.read_text().splitlines() if script.exists() else []
if lines:
    script.write_text("\\n".join(lines if lines[0].startswith("always ") else lines[1:]))
    print(lines[0].removeprefix("always "), file=sys.stderr)
    sys.exit(100)
brings = {{"prometheus": "promtool", "default-jre-headless": "java", "build-essential": "cc"}}
for name in words[1:]:
    if name != "hollow":
        (here / "bin" / brings.get(name, name)).symlink_to("/bin/true")
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This machine's programs, less apt-get, Docker and what `tools/setup --test` installs."""
    programs = tmp_path_factory.mktemp("bare")
    left_out = {"apt-get", "docker", "chromium-browser", "google-chrome", "google-chrome-stable"}
    for folder in ("/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for each in Path(folder).iterdir() if Path(folder).is_dir() else ():
            target = programs / each.name
            if each.name not in left_out.union(TEST_PROGRAMS) and not target.is_symlink():
                target.symlink_to(each)
    return programs


@pytest.fixture
def machine(tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare machine with an apt-get that fails as the files `update` and `install` say."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script(programs / "apt-get", APT.format(python=sys.executable, folder=str(tmp_path)))
    monkeypatch.setenv("PATH", f"{programs}:{bare}")
    monkeypatch.setenv("HANSA_APT_SECONDS", "20")
    monkeypatch.setenv("HANSA_PYTHON", sys.executable)
    return tmp_path


def script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **more},
    )


def calls(machine: Path) -> list[str]:
    log = machine / "calls"
    return log.read_text().splitlines() if log.exists() else []


as_root_on_debian = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/etc/debian_version").exists(),
    reason="installs packages, which only root on Debian may",
)


@as_root_on_debian
def test_the_set_up_for_tests_stops_with_apts_words_when_a_package_cannot_be_installed(
    machine: Path,
) -> None:
    (machine / "install").write_text("always E: Unable to locate package chromium")
    done = run("tools/setup", "--test")
    assert done.returncode == 2
    assert "E: Unable to locate package chromium" in done.stderr
    assert "error: apt-get install: failed, see above" in done.stderr


@as_root_on_debian
@pytest.mark.parametrize("call, lock", [("update", LISTS), ("install", FRONTEND)])
def test_another_who_installs_is_waited_for(machine: Path, call: str, lock: str) -> None:
    (machine / call).write_text(f"{BUSY.format(lock)}\n" * 2)
    done = run("tools/debian", "install", "buildah")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("waiting for another program that installs packages") == 1
    assert calls(machine).count("update") == (3 if call == "update" else 1)
    assert calls(machine)[-1] == "install buildah"


@as_root_on_debian
def test_one_who_installs_for_ever_is_not(machine: Path) -> None:
    (machine / "install").write_text(f"always {BUSY.format(FRONTEND)}")
    done = run("tools/debian", "install", "buildah", HANSA_APT_SECONDS="2")
    assert done.returncode == 2
    assert BUSY.format(FRONTEND) in done.stderr
    assert "error: apt-get install: another program was still installing after 2 s" in done.stderr


def test_images_without_a_builder_say_so(machine: Path) -> None:
    done = run("tools/images", "server")
    assert done.returncode == 2
    assert "builder: got neither Docker that runs nor buildah" in done.stderr


def test_programs_that_are_here_need_no_apt(machine: Path) -> None:
    (machine / "bin" / "chrome").symlink_to("/bin/true")
    assert run("tools/debian", "missing", "bash", "chromium").stdout == ""
    assert run("tools/debian", "install", "bash").returncode == 0
    assert calls(machine) == []


@pytest.mark.parametrize(
    "impossible, reason",
    [
        (
            lambda bin: (bin / "apt-get").unlink(),
            "system: got one without apt-get, expected Debian",
        ),
        (
            lambda bin: script(bin / "id", '#!/bin/sh\n[ "$1" = -u ] && echo 1000 || echo ada\n'),
            "user: got ada, expected root, who may install packages",
        ),
    ],
    ids=["not Debian", "not root"],
)
def test_where_nothing_can_be_installed_the_set_up_names_what_is_missing_and_goes_on(
    machine: Path, impossible: Callable[[Path], object], reason: str
) -> None:
    impossible(machine / "bin")
    done = run("tools/setup", "--test")
    assert done.returncode == 0, done.stderr
    assert f"will not run here: {reason}; missing: chromium promtool buildah" in done.stderr
    assert calls(machine) == []
    refused = run("tools/debian", "have", "buildah", "bash")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: {reason}; missing: buildah")
