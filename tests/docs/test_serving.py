"""docs/serving.md can be typed, its Deployment is one, and foreign lines fit the adapter."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes

from hansa.api import bucket_keys
from tests.support import small
from tests.support.pages import blocks
from tests.support.served import ADDRESS, served

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/serving.md").read_text()
FOREIGN = ("vllm ", "python -m sglang")
BASE = "/models/my-model"


def commands() -> list[str]:
    lines = [line for block in blocks(PAGE, "console") for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page is typed: a run as runs/demo and runs/mine, and the builtin model's folder."""
    home = tmp_path_factory.mktemp("page")
    (home / "runs").mkdir()
    with small.Run(small.write_manifest(home), home / "runs/demo") as begun:
        begun.finish()
    (home / "runs/mine").symlink_to("demo")
    (home / "client_image").symlink_to(ROOT / "client_image")
    (home / "bin").mkdir()
    program = home / "bin/hansa"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hansa.cli.main "$@"\n')
    program.chmod(0o755)
    return home


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}


def type_in(folder: Path, command: str, said: str = "") -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environ(folder),
        input=said,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_page_can_be_typed(folder: Path) -> None:
    python = shlex.quote(sys.executable)
    first, *rest = commands()
    with served(first, folder, environ(folder)) as url:
        snippet = shlex.quote(blocks(PAGE, "python")[0].replace(ADDRESS, url))
        assert type_in(folder, f"{python} -c {snippet}").strip()
        talk, alone, *rest = rest
        for command in (talk, alone):
            assert command.startswith("hansa chat")
            assert type_in(folder, command.replace(ADDRESS, url), said="Reach the goal.\n").strip()
    for command in rest:
        if not command.startswith(FOREIGN):
            type_in(folder, command)
    config = json.loads((folder / "adapters/best" / bucket_keys.CONFIG).read_text())
    for command in commands():
        if command.startswith(FOREIGN):
            assert option(command, "--max-lora-rank") == str(config["r"])
    snippet = shlex.quote(blocks(PAGE, "python")[1])
    assert type_in(folder, f"{python} -c {snippet}").strip()


def option(command: str, name: str) -> str:
    words = shlex.split(command)
    return words[words.index(name) + 1]


def test_foreign_lines_name_the_pulled_adapter() -> None:
    pulled = next(option(command, "--to") for command in commands() if " pull " in command)
    lines = [command for command in commands() if command.startswith(FOREIGN)]
    assert len(lines) == 2
    for line, name in zip(lines, ("--lora-modules", "--lora-paths"), strict=True):
        assert "--enable-lora" in line and BASE in shlex.split(line)
        assert option(line, name) == f"best={pulled}"


def check(value: Any, kind: str, path: str) -> None:
    """Compare a value with a type of Kubernetes' API, as its own client describes it."""
    if match := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        assert isinstance(value, list), path
        for place, each in enumerate(value):
            check(each, match[1], f"{path}[{place}]")
    elif match := re.fullmatch(r"[Dd]ict[\[(]str, (.*)[\])]", kind):
        assert isinstance(value, dict), path
        for name, each in value.items():
            check(each, match[1], f"{path}.{name}")
    elif hasattr(kubernetes, kind):
        model = getattr(kubernetes, kind)
        known = {name: model.openapi_types[field] for field, name in model.attribute_map.items()}
        assert isinstance(value, dict) and value.keys() <= known.keys(), f"{path}: {value}"
        for name, each in value.items():
            check(each, known[name], f"{path}.{name}")
    elif kind == "str":
        assert isinstance(value, str | int), path  # a quantity may be a number
    else:
        assert type(value).__name__ == kind or kind == "object", f"{path}: {value} is no {kind}"


def test_the_deployment_is_one() -> None:
    (text,) = blocks(PAGE, "yaml")
    deployment, service = yaml.safe_load_all(text)
    check(deployment, "V1Deployment", "deployment")
    check(service, "V1Service", "service")
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    pod = template["spec"]
    (container,) = pod["containers"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert container["ports"][0]["name"] == service["spec"]["ports"][0]["targetPort"]


def test_the_deployments_command_is_one_of_hansa() -> None:
    import inspect

    from hansa_client.commands.serve import serve

    (text,) = blocks(PAGE, "yaml")
    container = next(iter(yaml.safe_load_all(text)))["spec"]["template"]["spec"]["containers"][0]
    words = [*container["command"], *container["args"]]
    assert words[:2] == ["hansa", "serve"]
    options = {word[2:].replace("-", "_") for word in words if word.startswith("--")}
    assert options <= set(inspect.signature(serve).parameters)
