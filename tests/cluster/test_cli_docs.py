"""docs/cli.md can be typed from top to bottom, and its short answers are what is really said."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api import bucket_keys
from hansa.cli.main import COMMANDS
from hansa.local.objectstore import RUNNER
from tests.cluster.cli import NAME, Typist, labels, make_job, manifest
from tests.cluster.kube import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAGE = (ROOT / "docs/cli.md").read_text()
SHORT = re.compile(r"federation/\S+ .*|adapter")
"""Answers that are the same every time."""


def typed() -> list[tuple[str, list[str]]]:
    """Commands of the page with the lines shown below each."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def prepare(typist: Typist, store: dict[str, str]) -> dict[str, Callable[[], Any]]:
    """What an operator does before a command, by the command's beginning."""

    def start_again() -> None:
        typist.hansa("delete", NAME, "--wait")
        typist.apply(document(store))
        job = make_job(f"{NAME}-r1-maze-a1", labels("maze"), "say", "hello")
        typist.cluster.apply(typist.own(job))
        typist.cluster.until(
            lambda: typist.cluster.get("job", f"{NAME}-r1-maze-a1")["status"].get("succeeded"),
            "the Job ends",
        )
        typist.advance({"wordle": "starting"})

    return {
        "hansa wait": lambda: typist.advance({}),
        "hansa watch": typist.finish,
        "hansa status two-worlds -o wide": start_again,
        "hansa retry": lambda: typist.advance({"maze": "failed"}, passes=12),
    }


def document(store: dict[str, str]) -> dict[str, Any]:
    return manifest(storage={"s3": store})


@pytest.mark.slow
def test_the_page_can_be_typed_from_top_to_bottom(
    typist: Typist, weed: Any, undisturbed: Path, fresh_prefix: str
) -> None:
    place = {"bucket": weed.s3.bucket, "prefix": fresh_prefix}
    bucket = weed.store()
    for file in sorted(
        (undisturbed / "adapter").iterdir(), key=lambda f: f.name == bucket_keys.MANIFEST
    ):
        key = bucket_keys.global_folder(fresh_prefix, 2) + file.name
        bucket.put_if_absent(key, file.read_bytes())
    bucket.close()
    (typist.folder / "federation.yaml").write_text(yaml.safe_dump(document(place)))
    mine = weed.credentials[RUNNER]
    variables = {"AWS_ACCESS_KEY_ID": mine.access_key, "AWS_SECRET_ACCESS_KEY": mine.secret_key}
    before = prepare(typist, place)
    for command, shown in typed():
        for beginning, act in before.items():
            if command.startswith(beginning):
                act()
        words = command.replace("http://127.0.0.1:9000", weed.s3.endpoint).split()[1:]
        done = typist.hansa(*words, **variables)
        assert done.code == 0, f"{command}: {done.err}"
        expected = [line for line in shown if SHORT.fullmatch(line)]
        assert [line for line in done.out.splitlines() if SHORT.fullmatch(line)] == expected


def test_every_command_for_a_cluster_is_on_the_page() -> None:
    local = {"demo", "run", "report", "validate", "privacy", "explain", "crd", "policy"}
    local |= {"worlds", "play", "demonstrate", "evaluate", "aggregate", "inspect", "compare"}
    local |= {"audit"}  # of a whole run: tests/local/test_audit.py
    local |= {"export"}  # tests/docs/test_tracking.py; on a cluster by test_export.py here
    local |= {"push"}  # tests/docs/test_sharing.py
    local |= {"mail"}  # tests/local/test_mail.py
    local |= {"invite", "member", "join"}  # tests/local/test_join.py
    local |= {"serve", "chat"}  # test_serve.py here, tests/local/test_serve.py, tests/docs
    for name in COMMANDS.keys() - local:
        assert f"| `hansa {name}" in PAGE or f", `hansa {name}" in PAGE
        assert any(command.split()[1] == name for command, _ in typed())
