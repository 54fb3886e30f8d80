"""The chart as tests see it: helm, and the objects that a set of values makes."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "hansa"
RELEASE = "hansa"
NAMESPACE = "hansa-system"

Data = dict[str, Any]


def find_tool(name: str) -> str:
    """A program by its variable ($HELM), the PATH, or built once by tools/fetch."""
    given = os.environ.get(name.upper()) or shutil.which(name)
    if given:
        return given
    made = subprocess.run([str(ROOT / "tools/fetch"), name], check=True, stdout=subprocess.PIPE)
    return made.stdout.decode().strip()


def helm(*arguments: str, values: Data | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, with values from stdin; the caller judges how it ended."""
    given = ["--values", "-"] if values is not None else []
    return subprocess.run(
        [find_tool("helm"), *arguments, *given],
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
        timeout=300,
    )


def template(values: Data) -> subprocess.CompletedProcess[str]:
    """`helm template`, whether it succeeds or not."""
    return helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, values=values)


class Objects:
    """All objects of one rendering."""

    def __init__(self, documents: Iterable[Data]) -> None:
        self.all = [document for document in documents if document]

    def of(self, kind: str) -> list[Data]:
        """Those of a kind."""
        return [each for each in self.all if each["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Data:
        """The only one of a kind, or the only one of that name too."""
        found = [each for each in self.of(kind) if not name or each["metadata"]["name"] == name]
        assert len(found) == 1, f"{kind} {name}: {[e['metadata']['name'] for e in self.of(kind)]}"
        return found[0]

    def kinds(self) -> dict[str, int]:
        """How many there are of each kind."""
        return {kind: len(self.of(kind)) for kind in sorted({each["kind"] for each in self.all})}

    def pods(self) -> Iterator[tuple[str, Data]]:
        """Every Pod's spec, whoever makes the Pod."""
        for each in self.all:
            name = f"{each['kind']}/{each['metadata']['name']}"
            if each["kind"] == "Pod":
                yield name, each["spec"]
            elif each["kind"] in ("Deployment", "Job"):
                yield name, each["spec"]["template"]["spec"]


def render(**values: Any) -> Objects:
    """What the chart makes of values, hooks and tests included."""
    done = template(values)
    assert done.returncode == 0, done.stderr
    return Objects(yaml.load_all(done.stdout, yaml.CSafeLoader))


def refusal(**values: Any) -> str:
    """What helm says to values that it must not take."""
    done = template(values)
    assert done.returncode != 0, "was taken"
    return done.stderr


EVERYTHING: Data = {
    "operator": {"replicas": 2},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {"jobs": {"strict": True}},
    "admissionPolicy": {"enabled": True},
    "minio": {
        "enabled": True,
        "federations": [{"name": "five-worlds", "environments": ["maze", "wordle"]}],
    },
}
"""Values with every option on."""

SEAWEEDFS: Data = {
    **{name: value for name, value in EVERYTHING.items() if name != "minio"},
    "store": "seaweedfs",
    "seaweedfs": {"federations": EVERYTHING["minio"]["federations"]},
}
"""The same with the other store."""
