"""Building images: what is asked for wrongly is said in one sentence, before anything is built."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hansa.version import __version__

ROOT = Path(__file__).parents[3]


def images(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "tools" / "images"), *args], capture_output=True, text=True, check=False
    )


def test_names_bear_the_projects_version() -> None:
    assert images("--names").stdout.split() == [
        f"hansa-{part}:{__version__}" for part in ("operator", "client", "server")
    ]


def test_names_can_lie_below_a_registry_and_bear_another_tag() -> None:
    done = images("--names", "--registry", "registry.example/you/", "--tag", "v1", "server")
    assert done.stdout == "registry.example/you/hansa-server:v1\n"


def test_stores_are_named_alone_or_beside_the_three() -> None:
    assert images("--names", "--tag", "7", "minio").stdout == "hansa-minio:7\n"
    beside = images("--names", "--tag", "7", "--from-environment", "--minio", "--seaweedfs").stdout
    parts = ("operator", "client", "server", "minio", "seaweedfs")
    assert beside.split() == [f"hansa-{part}:7" for part in parts]


@pytest.mark.parametrize(
    "args, sentence",
    [
        (["--tag"], "--tag: got nothing, expected a value"),
        (["worker"], "got 'worker', expected operator, client, server, minio,"),
        (["--minio"], "--minio: got it alone, expected it with --from-environment"),
        (["--seaweedfs"], "--seaweedfs: got it alone, expected it with --from-environment"),
        (["--built"], "--built: got it alone, expected it with --from-environment"),
        (["--from-environment", "--built", "--push"], "--built: got it with --push or --archive,"),
        (["--from-environment", "--built", "--archive", "x"], "expected it with --load alone"),
        (["--from-environment", "--base", "x"], "--base: got 'x' beside --from-environment"),
        (["--from-environment", "--push"], "whose packages and base nobody checks by hash"),
        (["--push", "--base", "a:1"], "--push: got the base 'a:1', expected one by digest"),
        (["--sbom"], "--sbom: got nothing, expected a value"),
        (["--from-environment", "--sbom", "x"], "packages are not those of requirements/"),
    ],
)
def test_a_wrong_option_is_refused_with_a_sentence(args: list[str], sentence: str) -> None:
    done = images(*args)
    assert done.returncode == 2
    assert sentence in done.stderr


@pytest.mark.parametrize("folder", ["operator", "client_image", "server_image"])
def test_every_image_runs_as_a_numbered_user_without_a_healthcheck(folder: str) -> None:
    text = (ROOT / folder / "Dockerfile").read_text()
    assert "\nUSER 65532:65532\n" in text
    assert "HEALTHCHECK" not in text


def test_all_images_stand_on_one_base_which_a_build_can_replace() -> None:
    texts = [
        (ROOT / folder / "Dockerfile").read_text()
        for folder in ("operator", "client_image", "server_image")
    ]
    assert len({tuple(re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE)) for text in texts}) == 1
    for text in texts:
        assert re.search(r"^ARG BASE=python:3\.12-slim(@sha256:[0-9a-f]{64})?$", text, re.MULTILINE)
        used = {line.split()[1] for line in text.splitlines() if line.startswith("FROM ")}
        stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text, re.MULTILINE))
        assert used - stages == {"${BASE}"}, "no other image"


def test_torch_is_in_the_clients_image_only_and_below_the_code() -> None:
    texts = {
        folder: (ROOT / folder / "Dockerfile").read_text()
        for folder in ("operator", "client_image", "server_image")
    }
    assert [folder for folder, text in texts.items() if " torch" in text.split("FROM", 1)[1]] == [
        "client_image"
    ]
    order = [
        texts["client_image"].index(stage) for stage in (" AS torch", " AS packages", " AS code")
    ]
    assert order == sorted(order)


def test_images_that_were_built_a_moment_ago_are_only_loaded(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(ROOT / "tools/images", tools)
    (tmp_path / "hansa").mkdir()
    (tmp_path / "hansa/version.py").write_text('__version__ = "7"\n')
    for name in ("cluster", "python", "debian", "fetch"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$*" >>calls\n')
        (tools / name).chmod(0o755)
    command = [str(tools / "images"), "--from-environment", "--minio", "--built", "--load"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = " ".join(f"hansa-{part}:7" for part in ("operator", "client", "server", "minio"))
    layout = tmp_path / ".cache" / "images" / "layout"
    assert (tmp_path / "calls").read_text() == f"cluster load-layout {layout} {names}\n"
