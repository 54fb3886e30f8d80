"""A run in ruins goes back, under the real operator and with a kill, to the bytes of a local one.

The two rounds of a federation that has ended are the good ones; the third is ruined by whoever
holds one silo's key, and the fourth takes its place.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.spec import S3
from hansa.local.results import open_store
from hansa.local.rundir import RunDir
from hansa.store.base import Credentials, ObjectStore
from hansa.store.s3 import S3Store
from tests.cluster import hostile, kills
from tests.cluster.installed import BUCKET, NAMESPACE, Hansa
from tests.support import small
from tests.support.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "evolves"
GOOD, RUINED, AGAIN = 2, 3, 4
LONGER: dict[str, Any] = {
    "rounds": RUINED,
    "evaluation": {"tasks": 60},
    "exploration": {"tasksPerRound": 24},
    "training": {"maxSteps": 16},
}
"""From the third round on: enough of everything that luck does not decide about five points."""


@dataclass(frozen=True)
class Twin:
    """The same on this machine: three good rounds, and two with the ruins undone."""

    hostile: hostile.Files
    """The update that ruins the third round."""
    clean: float
    """Success after three good rounds."""
    success: float
    """Success after the ruins were undone."""
    adapter: dict[str, bytes]
    """What the run ends with then."""


@contextmanager
def opened(out: Path) -> Iterator[ObjectStore]:
    folder = RunDir(out)
    with open_store(folder.load(), folder) as store:
        yield store


@pytest.fixture(scope="module")
def twin(local_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    """Two runs that continue from the good rounds, one of them by way of the ruins."""
    folder = tmp_path_factory.mktemp("twin")
    known = {name: small.SPEC[name] for name in LONGER if name != "rounds"}
    changes = {name: {**value, **LONGER[name]} for name, value in known.items()}
    manifest = small.write_manifest(folder, rounds=RUINED, **changes)
    clean, out = folder / "clean", folder / "ruined"
    for each in (clean, out):
        shutil.copytree(local_run, each)
    with small.Run(manifest, clean) as run:
        run.finish()
    with opened(clean) as store:
        files = hostile.hostile_update(store, small.NAME, RUINED)
    with opened(out) as store:
        hostile.put(store, small.NAME, RUINED, files)
    with small.Run(manifest, out) as run:
        until(lambda: f"RoundAggregated round {RUINED}" in run.events, "the ruins are merged")
        run.kill()
    done = small.hansa("rollback", out, "--to", str(GOOD))
    assert done.returncode == 0, done.stderr
    successes = [float(small.status(each)["success"]) for each in (clean, out)]
    return Twin(files, *successes, small.adapter(out))


def keys_of(hansa: Hansa, party: str) -> Credentials:
    """Credentials of one party of the federation."""
    secret = hansa.secret(f"{NAME}-{party}")
    return Credentials(
        access_key=secret["AWS_ACCESS_KEY_ID"], secret_key=secret["AWS_SECRET_ACCESS_KEY"]
    )


def ruin(hansa: Hansa, files: hostile.Files) -> None:
    """One silo's key is enough to put an update where its client will find its own."""
    s3 = S3(endpoint=hansa.endpoint, bucket=BUCKET, prefix=NAME)
    hostile.put(S3Store(s3, credentials=keys_of(hansa, hostile.SILO)), NAME, RUINED, files)
    hansa.patch(NAME, LONGER)
    hansa.wait(NAME, lambda s: s["adapter"]["round"] == RUINED, "merges the ruins")
    made = lora.decode(hansa.adapter(NAME)[bucket_keys.ADAPTER])
    far = max(abs(value).max() for name, value in made.items() if lora.side(name) == "B")
    assert far > hostile.FAR / 4


def roll_back(hansa: Hansa, to: int, folder: Path) -> str:
    """`hansa rollback`, by somebody who may read the store."""
    reader = keys_of(hansa, "aggregator")
    pair = {"AWS_ACCESS_KEY_ID": reader.access_key, "AWS_SECRET_ACCESS_KEY": reader.secret_key}
    file = folder / "credentials.json"
    file.write_text(json.dumps({"default": pair}))
    kubeconfig = hansa.cluster.script("kubeconfig").stdout.strip()
    place = ("--kubeconfig", kubeconfig, "-n", NAMESPACE, "--endpoint", hansa.endpoint)
    done = small.hansa("rollback", NAME, "--to", str(to), *place, "--credentials", file)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.attack(
    by="a silo",
    does="ruins the adapter by values that pass the gate",
    result="`hansa rollback` goes back; killed in the middle, it gives the same bytes",
)
def test_a_ruined_run_goes_back_and_a_kill_changes_no_byte(
    hansa: Hansa, twin: Twin, tmp_path: Path
) -> None:
    if hansa.status(NAME).get("round") != GOOD:
        hansa.clear(NAME)
        hansa.apply(hansa.manifest(NAME))
    hansa.finish(NAME)
    ruin(hansa, twin.hostile)
    said = roll_back(hansa, GOOD, tmp_path)
    assert said == f"federation/{NAME} goes back to round {GOOD} (undoes 1 of 3 rounds)\n"
    hansa.wait(NAME, lambda s: s["round"] == AGAIN, "goes back")
    kills.kill_at(hansa, NAME, kills.clients_run(AGAIN), kills.kill_operator)
    status = hansa.finish(NAME)
    outcomes = [entry["outcome"] for entry in status["history"]]
    assert outcomes == ["base", "aggregated", "aggregated", "undone", "aggregated"]
    assert hansa.adapter(NAME) == twin.adapter
    assert float(status["success"]) == twin.success
    assert twin.success >= twin.clean - 0.05
    hansa.clear(NAME)
