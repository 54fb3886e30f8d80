"""`tools/test`: what cannot come to a good end is not gone on with for an hour."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import until

ROOT = Path(__file__).parents[3]

PYTHON = """#!/bin/sh
echo "$*" >>calls
while [ -e hold ]; do sleep 0.05; done
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project with this one's `tools/test`, whose other tools only write down their calls."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "test", tmp_path / "tools" / "test")
    for folder in ("unit", "guard", "contract", "local", "chart", "cluster"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    tool(tmp_path, "python", PYTHON)
    for name in ("fetch", "cluster", "images", "debian"):
        tool(tmp_path, name, "#!/bin/sh\n")
    return tmp_path


def tool(tree: Path, name: str, text: str) -> None:
    (tree / "tools" / name).write_text(text)
    (tree / "tools" / name).chmod(0o755)


def run(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    go = tree / "bin" / "go"
    go.parent.mkdir(exist_ok=True)
    go.unlink(missing_ok=True)
    go.symlink_to("/bin/true")
    return subprocess.run(
        [str(tree / "tools" / "test"), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{go.parent}:{os.environ['PATH']}"},
    )


def calls(tree: Path) -> str:
    return (tree / "calls").read_text()


def test_every_folder_of_tests_is_run_once(tree: Path) -> None:
    done = run(tree)
    assert done.returncode == 0, done.stderr
    for folder in ("unit", "guard", "contract", "local", "chart", "cluster"):
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
    assert "NOT RUN: tests/cluster" in done.stdout
    assert sentence in done.stdout
    assert "tests/chart" in calls(tree)
    assert "tests/cluster" not in calls(tree)


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
