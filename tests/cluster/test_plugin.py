"""Plug-ins on a cluster: missing in an image they are named, and an image with them continues.

The images are Hansa's own with one layer more, which holds the example package as pip installs it:
what the example's Dockerfile does, without a registry, in seconds.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansa.core.exits import Exit
from hansa.version import __version__
from tests.cluster.installed import OPERATOR, Hansa
from tests.cluster.kube import GIVEN, ROOT, Manifest
from tools.oci import Layout

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "plugin"
EXAMPLE = ROOT / "examples/08-plugin"
LAYOUT = ROOT / ".cache/images/layout"
PARTS = ("client", "server")
SERVER = "HANSA_SERVER_IMAGE"
MISSING = "which no package here offers (entry point"


def image(part: str) -> str:
    """Name of an image that has the package."""
    return f"hansa-{part}-harbour:{__version__}"


def installed(folder: Path) -> bytes:
    """The package as one layer of an image."""
    source, target = folder / "package", folder / "installed"
    shutil.copytree(EXAMPLE, source)  # building writes beside the sources
    offline = ("--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--no-compile")
    pip = (sys.executable, "-m", "pip", "install", *offline, "--target", str(target))
    subprocess.run([*pip, str(source)], check=True, capture_output=True, timeout=300)
    made = io.BytesIO()

    def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.mode = 0o755 if entry.isdir() else 0o644
        return entry

    with tarfile.open(fileobj=made, mode="w") as layer:
        layer.add(target, "opt/hansa/code", filter=as_root)
    return made.getvalue()


@pytest.fixture(scope="module")
def images(hansa: Hansa, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The client's and the server's image with the package, on the cluster."""
    if GIVEN in os.environ:
        pytest.skip("needs a devkube, into which images can be loaded")
    layout, layer = Layout(LAYOUT), installed(tmp_path_factory.mktemp("layer"))
    for part in PARTS:
        layout.add(image(part), io.BytesIO(layer), f"hansa-{part}:{__version__}")
    done = hansa.cluster.script("load-layout", str(LAYOUT), *map(image, PARTS))
    assert done.returncode == 0, done.stderr
    yield
    for part in PARTS:
        layout.save(layout.others(image(part)))


@pytest.fixture
def federation(hansa: Hansa, images: None) -> Iterator[Manifest]:
    """One round of the example's strategy, learner and world; nothing has its package yet."""
    hansa.clear(NAME)
    changes: dict[str, Any] = {
        "rounds": 1,
        "evaluation": {"tasks": 4},
        "aggregation": {"strategy": "sign-mean", "options": {"agreement": 0.5}},
    }
    made = hansa.manifest(NAME, **changes)
    learner = {"learner": "short-success", "options": {"perTask": 2}}
    made["spec"]["training"] = {**made["spec"]["training"], **learner}
    made["spec"]["environments"][1] |= {"world": "cargo", "options": {"prompt": "brief"}}
    yield made
    hansa.delete(NAME)
    set_server(hansa, f"{SERVER}-")


def set_server(hansa: Hansa, variable: str) -> None:
    """Give the operator another image for aggregators, or take it back."""
    done = hansa.cluster.kubectl("set", "env", f"deployment/{OPERATOR}", variable)
    assert done.returncode == 0, done.stderr
    hansa.settle()


def wait_for(hansa: Hansa, sentence: str) -> None:
    """A condition says it."""
    hansa.wait(NAME, lambda s: sentence in json.dumps(s.get("conditions") or []), sentence)


def exit_codes(hansa: Hansa, role: str) -> set[int]:
    """How the containers of a role's Pods have ended."""
    ends = [
        each["state"]["terminated"]["exitCode"]
        for pod in hansa.pods(NAME, role=role)
        for each in pod["status"].get("containerStatuses", ())
        if "terminated" in each["state"]
    ]
    return set(ends)


def test_what_an_image_lacks_is_named_in_a_condition_and_an_image_with_it_goes_on(
    hansa: Hansa, federation: Manifest
) -> None:
    hansa.apply(federation)
    wait_for(hansa, f"spec.training.learner: got 'short-success', {MISSING}")
    assert exit_codes(hansa, "client") <= {int(Exit.PLUGIN_MISSING)}
    assert hansa.condition(NAME, "Accepted")["status"] == "True", "it is not the operator's affair"

    for environment in federation["spec"]["environments"]:
        [client] = environment["podTemplate"]["spec"]["containers"]
        client["image"] = image("client")
    hansa.apply(federation)
    wait_for(hansa, f"spec.aggregation.strategy: got 'sign-mean', {MISSING}")

    set_server(hansa, f"{SERVER}={image('server')}")
    failed = hansa.status(NAME)["round"]
    hansa.patch(NAME, {"evaluation": {"tasks": 5}})  # a change of the spec opens the next round
    hansa.wait(NAME, lambda s: s["round"] > failed, "the next round opens")
    status = hansa.finish(NAME)
    assert status["history"][-1]["updates"] == "2/2"
    assert set(status["history"][-1]["success"]) == {"maze", "webshop"}
