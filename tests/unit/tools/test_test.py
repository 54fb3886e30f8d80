"""`tools/test`: what cannot come to a good end is not gone on with for an hour."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes import of_run, until

ROOT = Path(__file__).parents[3]

PYTHON = """#!/bin/sh
echo "$*" >>calls
while [ -e hold ]; do sleep 0.05; done
"""

WAIT = """
wait_for() { for _ in $(seq 600); do [ ! -e "$1" ] || return 0; sleep 0.05; done; exit 9; }
"""

ON_A_CLUSTER = """
case "$*" in *tests/cluster)
    trap 'sleep 0.5; touch removed; exit 2' TERM
    touch begun
    wait_for never ;;
esac
"""
"""Tests whose cluster takes a moment to be removed."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with this one's `tools/test`, whose other tools only write down their calls."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "test", tmp_path / "tools" / "test")
    for folder in ("unit", "guard", "contract", "local", "chart", "cluster", "members"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    tool(tmp_path, "python", PYTHON)
    for name in ("fetch", "cluster", "images", "debian"):
        tool(tmp_path, name, "#!/bin/sh\n")
    return tmp_path


def tool(tree: Path, name: str, text: str) -> None:
    (tree / "tools" / name).write_text(text)
    (tree / "tools" / name).chmod(0o755)


def start(tree: Path, *args: str) -> subprocess.Popen[str]:
    """In a group of its own, as a terminal does."""
    go = tree / "bin" / "go"
    go.parent.mkdir(exist_ok=True)
    go.unlink(missing_ok=True)
    go.symlink_to("/bin/true")
    return subprocess.Popen(
        [str(tree / "tools" / "test"), *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": f"{go.parent}:{os.environ['PATH']}"},
        start_new_session=True,
    )


def run(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    process = start(tree, *args)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def calls(tree: Path) -> str:
    return (tree / "calls").read_text()


def test_every_folder_of_tests_is_run_once(tree: Path) -> None:
    done = run(tree)
    assert done.returncode == 0, done.stderr
    for folder in ("unit", "guard", "contract", "local", "chart", "cluster", "members"):
        assert calls(tree).count(f"tests/{folder}\n") + calls(tree).count(f"tests/{folder} ") == 1


def test_programs_are_type_checked_once_each_in_as_few_runs_as_their_names_allow(
    tree: Path,
) -> None:
    files = ("bench/a/compare.py", "bench/a/data.py", "bench/b/table.py", "bench/c/compare.py")
    for name in (*files, "tools/oci.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    done = run(tree, "lint")
    assert done.returncode == 0, done.stderr
    checked = [
        line.removeprefix("-m mypy ").split()
        for line in calls(tree).splitlines()
        if line.startswith("-m mypy ")
    ]
    assert sorted(checked) == [
        ["bench/a/compare.py", "bench/a/data.py", "bench/b/table.py", "tools/oci.py"],
        ["bench/c/compare.py"],
    ]


def test_the_longest_files_are_begun_with_not_those_of_most_tests(tree: Path) -> None:
    assert run(tree).returncode == 0
    (line,) = [line for line in calls(tree).splitlines() if "tests/local" in line]
    assert "--no-loadscope-reorder" in line


def test_a_branch_of_the_plan_without_a_test_fails_the_first_step(tree: Path) -> None:
    tool(
        tree,
        "python",
        PYTHON + 'case "$*" in *--cov-fail-under=100*) echo "FAIL 99 % covered"; exit 1 ;; esac\n',
    )
    done = run(tree)
    assert done.returncode != 0
    assert "FAIL 99 % covered" in done.stdout + done.stderr
    assert "tests/unit tests/guard" not in calls(tree)


def test_tests_on_a_cluster_do_not_build_again_what_was_built_beside_the_others(
    tree: Path,
) -> None:
    tool(tree, "python", PYTHON.replace('"$*"', '"$* built=$HANSA_IMAGES_BUILT"'))
    assert run(tree).returncode == 0
    (line,) = [line for line in calls(tree).splitlines() if "tests/cluster" in line]
    assert line.endswith("built=1")


def test_tests_on_a_cluster_run_beside_the_others_and_are_shown_after_them(tree: Path) -> None:
    tool(
        tree,
        "python",
        f"""{PYTHON}{WAIT}
        case "$*" in
            *tests/unit*) touch unit; wait_for cluster ;;
            *tests/cluster) wait_for unit; touch cluster; wait_for local; echo "ran on a cluster" ;;
            *tests/local) touch local; echo "ran here" ;;
        esac
        """,
    )
    done = run(tree)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said.index("ran here") < said.index("== cluster") < said.index("ran on a cluster")
    assert any(re.fullmatch(r"== quick, beside it: (builds|chart|cluster)", s) for s in said)
    times = [name for name, _ in re.findall(r"^(\w+) +(\d+) s$", done.stdout, re.MULTILINE)]
    assert times == ["checks", "quick", "runs", "builds", "chart", "cluster", "members"]


def test_a_failure_on_a_cluster_is_shown_and_fails_all(tree: Path) -> None:
    failing = """
        case "$*" in
            *tests/local) touch local ;;
            *tests/cluster) wait_for local; echo "FAILED on a cluster"; exit 1 ;;
        esac
        """
    tool(tree, "python", PYTHON + WAIT + failing)
    done = run(tree)
    assert done.returncode != 0
    assert "FAILED on a cluster" in done.stderr


def test_a_failure_on_a_cluster_stops_the_tests_before_the_next_step(tree: Path) -> None:
    failing = """
        case "$*" in
            *tests/unit*) wait_for failed; sleep 0.5 ;;
            *tests/cluster) touch failed; echo "FAILED on a cluster"; exit 1 ;;
        esac
        """
    tool(tree, "python", PYTHON + WAIT + failing)
    done = run(tree)
    assert done.returncode != 0
    assert "FAILED on a cluster" in done.stderr
    assert "tests/local" not in calls(tree)


def test_a_failed_step_ends_the_tests_on_a_cluster_and_waits_until_that_is_removed(
    tree: Path,
) -> None:
    failing = 'case "$*" in *ruff*) wait_for begun; exit 3 ;; esac\n'
    tool(tree, "python", PYTHON + WAIT + ON_A_CLUSTER + failing)
    done = run(tree)
    assert done.returncode == 3
    assert (tree / "removed").exists()
    assert of_run(tree) == []


@pytest.mark.parametrize("step", ["tests/unit", "tests/local"])
def test_ctrl_c_leaves_nothing_behind(tree: Path, step: str) -> None:
    held = f'case "$*" in *{step}*) touch held; wait_for never ;; esac\n'
    tool(tree, "python", PYTHON + WAIT + ON_A_CLUSTER + held)
    process = start(tree)
    until((tree / "begun").exists, "the tests on a cluster")
    until((tree / "held").exists, step)
    interrupt(tree, process)


def test_ctrl_c_leaves_nothing_behind_while_only_the_tests_on_a_cluster_run(tree: Path) -> None:
    tool(tree, "python", PYTHON + WAIT + ON_A_CLUSTER)
    process = start(tree)
    until((tree / "begun").exists, "the tests on a cluster")
    assert process.stdout
    assert any("waiting for what is beside" in line for line in process.stdout)
    interrupt(tree, process)


def interrupt(tree: Path, process: subprocess.Popen[str]) -> None:
    """Ctrl-C, as a terminal sends it: to the group in front."""
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert (tree / "removed").exists()
    until(lambda: of_run(tree) == [], "everything to end")


def test_who_ends_the_tests_otherwise_ends_those_on_a_cluster_too(tree: Path) -> None:
    tool(tree, "python", PYTHON + WAIT + ON_A_CLUSTER)
    process = start(tree)
    until((tree / "begun").exists, "the tests on a cluster")
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert (tree / "removed").exists()


def test_a_build_that_fails_stops_the_tests_before_the_next_step(tree: Path) -> None:
    (tree / "hold").touch()
    tool(tree, "images", '#!/bin/sh\necho "error: no buildah" >&2\nrm hold\nexit 2\n')
    done = run(tree)
    assert done.returncode != 0
    assert "error: no buildah" in done.stderr
    assert "tests/local" not in calls(tree)


def test_tests_on_a_cluster_say_that_they_did_not_run_where_images_cannot_be_built(
    tree: Path,
) -> None:
    sentence = "system: got one without apt-get, expected Debian; missing: buildah"
    tool(tree, "debian", f'#!/bin/sh\necho "error: {sentence}" >&2\nexit 2\n')
    tool(tree, "images", "#!/bin/sh\nexit 2\n")
    done = run(tree)
    assert done.returncode == 0, done.stderr
    assert "NOT RUN: tests/cluster and tests/members" in done.stdout
    assert sentence in done.stdout
    assert "tests/chart" in calls(tree)
    assert "tests/cluster" not in calls(tree)
    assert "tests/members" not in calls(tree)


def test_tests_on_two_clusters_say_that_they_did_not_run_where_one_is_given(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSA_TEST_KUBECONFIG", "/a/file")
    done = run(tree)
    assert done.returncode == 0, done.stderr
    assert "NOT RUN: tests/members, which starts two clusters of its own" in done.stdout
    assert "tests/cluster" in calls(tree)
    assert "tests/members" not in calls(tree)


def test_a_failed_lint_leaves_no_coverage_behind(tree: Path) -> None:
    tool(
        tree,
        "python",
        """#!/bin/sh
        case "$*" in
            *--cov*)
                trap 'touch ended; exit 1' TERM
                touch covering
                for _ in $(seq 1200); do sleep 0.05; done ;;
            *ruff*) while [ ! -e covering ]; do sleep 0.05; done; exit 3 ;;
        esac
        """,
    )
    done = run(tree)
    assert done.returncode == 3
    until((tree / "ended").exists, "coverage to end")
