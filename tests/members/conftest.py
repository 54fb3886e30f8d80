"""Two clusters and a namespace that reach one store and not each other, all on one machine."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.installed import Hansa, build_images, install
from tests.cluster.kube import ROOT, Cluster, build_probe, probe_image, running
from tests.members.island import Island
from tests.members.parties import CLINIC, HQ, LONE, PARTIES, Apart, Place, new_key
from tests.members.stores import Exchange, Private
from tests.support import small

FEDERATIONS = ("apart", "disturbed", "cut-off")
SEALED = "apart"
"""The one whose updates are sealed."""
USUAL = ROOT / ".cache" / "devkube" / "cluster"


@pytest.fixture(scope="session")
def one_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[small.Run]:
    """The same federation by `hansa run` on one machine; it runs while clusters start."""
    folder = tmp_path_factory.mktemp("reference")
    with small.Run(small.write_manifest(folder), folder / "run", "--embedded-store") as run:
        yield run


@pytest.fixture(scope="session")
def reference(one_place: small.Run) -> dict[str, bytes]:
    """What that makes."""
    one_place.finish()
    return small.adapter(one_place.out)


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that asks for addresses, in Pods and in the namespace."""
    return build_probe(tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="session")
def clusters(one_place: small.Run, probe: Path) -> Iterator[dict[str, Cluster]]:
    """Two clusters side by side; those that ran before are left running."""
    base, image = os.environ.get("HANSA_CLUSTER") or str(USUAL), probe_image(probe)
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(running(Cluster(state=f"{base}-{name}"), image))
            for name in (HQ, "clinic")
        }


@pytest.fixture(scope="session")
def installed(clusters: dict[str, Cluster]) -> dict[str, Hansa]:
    """An operator in each, by the chart, which brings no store."""
    for cluster in clusters.values():
        build_images(Path(cluster.state))
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda each: install(each, (), minio={"enabled": False}), clusters.values())
        return dict(zip(clusters, made, strict=True))


def cable(cluster: Cluster) -> str:
    """The machine's address on the cable to a cluster."""
    slot = int((Path(cluster.state) / "slot").read_text())
    return f"10.{200 + slot}.0.1"


@pytest.fixture(scope="session")
def place(
    clusters: dict[str, Cluster],
    installed: dict[str, Hansa],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    """Where the parties are, and the stores they reach."""
    folder = tmp_path_factory.mktemp("stores")
    identities = [f"{name}-{party}" for name in FEDERATIONS for party in PARTIES]
    hq, clinic = clusters[HQ], clusters["clinic"]
    with Island() as island:
        doors = {HQ: cable(hq), CLINIC: cable(clinic), LONE: island.gateway}
        with (
            Exchange(folder / "exchange", identities, doors) as exchange,
            Private(folder / "private", CLINIC, cable(clinic), FEDERATIONS) as private,
        ):
            yield Place(
                hq=installed[HQ],
                clinic=installed["clinic"],
                island=island,
                exchange=exchange,
                private=private,
            )


@pytest.fixture(scope="session")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all parties must agree on: model and adapter with their digests."""
    folder = tmp_path_factory.mktemp("digests")
    printed = small.hansa("model", "-f", small.write_manifest(folder), "-o", "json")
    assert printed.returncode == 0, printed.stderr
    found: dict[str, Any] = json.loads(printed.stdout)
    return found


@pytest.fixture(scope="session")
def federations(
    place: Place, digests: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Apart]:
    """Federations by name; the store knows their parties by what `hansa policy` prints."""
    folder = tmp_path_factory.mktemp("keys")
    keys = {party: new_key(folder, party) for party in (HQ, CLINIC, LONE)}
    made = {
        name: Apart(
            name=name,
            at=place,
            folder=tmp_path_factory.mktemp(name),
            digests=digests,
            keys=keys,
            sealing=new_key(folder, "sealing", "--sealing") if name == SEALED else None,
        )
        for name in FEDERATIONS
    }
    for each in made.values():
        each.manifest()
    place.exchange.grant({k: v for each in made.values() for k, v in each.policies().items()})
    return made
