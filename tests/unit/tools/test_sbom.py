"""The lists of the images' packages, by CycloneDX's own program and by its schema."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import ROOT

pytestmark = pytest.mark.slow  # pip works out every image's packages

PARTS = ("operator", "client", "server")


def write(folder: Path, *parts: str, epoch: str = "") -> dict[str, str]:
    """What tools/images writes, by image."""
    environment = {**os.environ, "HANSA_PYTHON": sys.executable}
    environment.pop("SOURCE_DATE_EPOCH", None)
    if epoch:
        environment["SOURCE_DATE_EPOCH"] = epoch
    command = [str(ROOT / "tools/images"), "--sbom", str(folder), *parts]
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return {file.name.removesuffix(".cdx.json"): file.read_text() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write(tmp_path_factory.mktemp("first"))


def pins(part: str) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of each package that an image may install."""
    lines = (ROOT / f"requirements/{part}.txt").read_text().replace("\\\n", " ").splitlines()
    matches = (re.match(r"([\w.-]+)==(\S+) ", line) for line in lines)
    return {
        match[1]: (match[2], set(re.findall(r"--hash=sha256:(\w+)", match.string)))
        for match in matches
        if match
    }


def hashes(component: dict[str, Any]) -> set[str]:
    references = component["externalReferences"]
    return {each["content"] for reference in references for each in reference["hashes"]}


@pytest.mark.parametrize("part", PARTS)
def test_a_list_is_valid_and_has_what_the_image_may_install(
    texts: dict[str, str], part: str
) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # its import takes seconds

    text = texts[f"hansa-{part}"]
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    document = json.loads(text)
    assert document["metadata"]["component"]["name"] == "hansa"
    listed = {each["name"]: (each["version"], hashes(each)) for each in document["components"]}
    assert len(listed) > 20 and listed == pins(part)


def test_the_same_requirements_give_the_same_bytes_and_a_time_only_on_request(
    texts: dict[str, str], tmp_path: Path
) -> None:
    server = texts["hansa-server"]
    assert "timestamp" not in server
    assert write(tmp_path / "again", "server") == {"hansa-server": server}
    later = write(tmp_path / "later", "server", epoch="1700000000")
    assert "2023-11-14T22:13:20" in later["hansa-server"]
