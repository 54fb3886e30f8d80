"""A whole run with privacy on two real stores: what is in the shared one, and when a silo stops."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import TaskTallies
from hansa.local.objectstore import LocalStore
from hansa.store.private import KEY, SECRET
from hansa_client.experience import shards
from tests.support import small

pytestmark = pytest.mark.slow

UNTOLD = {
    *("succeeded", "broken", "experience", "kept", "tokens", "generated"),
    *("solved", "entropy", "skipped", "loss", "worth", "greedy"),
}
"""Fields whose value a silo keeps to itself."""
UNTOLD_TABLES = {"passAt", "groups", "kinds"}
"""The same of tables, whose names would tell, too."""
PRIVACY = {"epsilon": 50.0, "delta": 1e-3, "samplingRate": 0.3, "noiseMultiplier": 1.0}


class Party:
    """Two stores that know nothing of each other, and the manifest of a run on them."""

    def __init__(self, folder: Path, exchange: LocalStore, private: LocalStore) -> None:
        self.folder, self.exchange, self.private = folder, exchange, private

    def manifest(self, **changes: Any) -> Path:
        own = small.storage(self.private, self.private.s3.endpoint or "", "own")
        environments = [
            {**environment, "experienceStorage": own} for environment in small.SPEC["environments"]
        ]
        return small.write_manifest(
            self.folder,
            **{
                "storage": small.storage(self.exchange, self.exchange.s3.endpoint or "", "shared"),
                "environments": environments,
                "aggregation": {"strategy": "ffa"},
                "evaluation": {"tasks": 8, "validationTasks": 6},
                "privacy": PRIVACY,
                **changes,
            },
        )

    def credentials(self) -> Path:
        pair = self.private.credentials["_runner"]
        variables = {
            **self.exchange.environ("_runner"),
            KEY: pair.access_key,
            SECRET: pair.secret_key,
        }
        path = self.folder / "credentials.json"
        path.write_text(json.dumps({"default": variables}))
        return path


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Party]:
    with (
        LocalStore(tmp_path / "exchange", small.ENVIRONMENTS, prefix="shared") as exchange,
        LocalStore(tmp_path / "private", small.ENVIRONMENTS, prefix="own") as private,
    ):
        yield Party(tmp_path, exchange, private)


def objects(store: LocalStore) -> dict[str, bytes]:
    bucket = store.store()
    return {key: bucket.get(key) for key in bucket.list("")}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if name in UNTOLD_TABLES:
        yield name, value
    elif isinstance(value, dict):
        for inner, each in value.items():
            yield from leaves(each, inner)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each, name)
    else:
        yield name, value


def exact_counts(private: dict[str, bytes]) -> set[int]:
    """Numbers of the silos' own that are large enough to be nobody else's."""
    exact: set[int] = set()
    for key, data in private.items():
        if key.endswith(".zst"):
            shard = shards.decode(data, key)
            tokens = sum(len(t.tokens) for e in shard.episodes if e.success for t in e.turns)
            exact |= {shard.header.generated, tokens}
    return {count for count in exact if count > 100}


@pytest.mark.attack(
    by="a reader of the bucket",
    does="reads counts, losses, seconds or logs of a run with `spec.privacy`",
    result="no exact figure is there",
)
def test_a_walk_over_all_that_left_the_silos_finds_no_exact_count(party: Party) -> None:
    out = party.folder / "run"
    done = small.hansa("run", party.manifest(), "--out", out, "--credentials", party.credentials())
    assert done.returncode == 0, done.stderr
    shared, private = objects(party.exchange), objects(party.private)
    assert not [key for key in shared if "/experience/" in key]
    exact = exact_counts(private)
    assert len(exact) >= 4
    documents = {key: data for key, data in shared.items() if key.endswith(".json")}
    documents["status"] = json.dumps(small.status(out)).encode()
    said = [*out.glob("jobs/*/report.json"), *out.glob("jobs/*/progress.json")]
    documents |= {str(path): path.read_bytes() for path in said}
    assert len([key for key in documents if "/evaluations/" in key]) == 6
    for key, data in documents.items():
        for name, value in leaves(json.loads(data)):
            assert name not in UNTOLD | UNTOLD_TABLES or not value, f"{key}: {name} {value}"
            assert not (type(value) is int and value in exact), f"{key}: {name} {value}"
    written = [
        path for path in out.rglob("*") if path.is_file() and path.suffix in (".log", ".txt")
    ]
    text = done.stderr + done.stdout + "".join(p.read_text(errors="replace") for p in written)
    assert "sending" in text
    words = UNTOLD | UNTOLD_TABLES | {"successes", "episodes"}
    for line in text.splitlines():
        assert not re.search(rf"\b({'|'.join(words)})=", line), line

    tallies = {
        key.partition("/evaluations/")[2]: TaskTallies.model_validate_json(data)
        for key, data in private.items()
        if "/maze/evaluations/" in key
    }
    assert all(len(each.tasks) == 8 for each in tallies.values())

    status = small.status(out)
    epsilons = {line["name"]: line["epsilon"] for line in status["environments"]}
    assert epsilons.keys() == {"maze", "webshop"}
    assert all(0 < epsilon <= 50 for epsilon in epsilons.values())
    shown = small.hansa("status", out).stdout
    assert f"maze: epsilon {epsilons['maze']:.3g} of one record so far" in shown
    small.hansa("report", out, "--credentials", party.credentials())
    page = (out / "report.html").read_text()
    assert "Epsilon after each round" in page
    card = (out / "adapter" / "README.md").read_text()
    assert "Each silo trained with differential privacy for every task" in card


def test_a_silo_whose_own_budget_is_spent_is_left_out_and_the_others_go_on(party: Party) -> None:
    budget = {"kind": "budget", "unit": "task", "epsilon": 5.0, "delta": 1e-3}
    key = bucket_keys.privacy_budget("maze")
    party.private.store().put_if_absent(key, json.dumps(budget).encode())
    manifest = party.manifest(participation={"minimumUpdates": 1})
    out = party.folder / "run"
    done = small.hansa("run", manifest, "--out", out, "--credentials", party.credentials())
    assert done.returncode == 0, done.stderr
    status = small.status(out)
    assert [entry["updates"] for entry in status["history"][1:]] == ["2/2", "1/2"]
    (maze,) = [line for line in status["environments"] if line["name"] == "maze"]
    assert not maze["healthy"] and "5 as this silo's budget" in maze["message"]
    (degraded,) = [line for line in status["conditions"] if line["type"] == "Degraded"]
    assert (degraded["status"], degraded["reason"]) == ("True", "PrivacyBudgetSpent")
    assert "PrivacyBudgetSpent" in small.hansa("status", out).stdout
    assert (out / "events.log").read_text().count("JobRetried") == 0
    spent = [key for key in objects(party.private) if "hansa-privacy/maze/training-" in key]
    assert {Path(key).suffix for key in spent} == {".key", ".json"} and len(spent) == 2
