"""The parties reach the store and nothing of one another: asked from inside each of them."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.kube import Cluster, address, ask, make_pod
from tests.members.parties import CLINIC, HQ, LONE, Place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ASKS, LISTENS = "asks", "listens"
NO_WAY = ("network is unreachable", "no route to host", "exceeded", "timeout")
"""What is said where no packet gets through; a refused connection would be an answer."""


@dataclass(frozen=True, kw_only=True)
class Party:
    """One of the three, as seen from the others."""

    ask: Callable[[str], str]
    """What is got from an address, from inside."""
    own: dict[str, str]
    """Addresses that are this party's alone, by what is there."""
    store: str
    """Its door to the store that all share."""


@pytest.fixture(scope="module")
def parties(place: Place, probe: Path) -> Iterator[dict[str, Party]]:
    """Each with somebody who asks, and with all that it has."""
    doors, private = place.exchange.doors, place.private.door.endpoint
    clusters = {HQ: place.hq.cluster, CLINIC: place.clinic.cluster}
    found = {name: _party(each, doors[name].endpoint) for name, each in clusters.items()}
    found[CLINIC].own["private store"] = private
    found[LONE] = _lone(place, probe, doors[LONE].endpoint)
    yield found
    for each in clusters.values():
        each.kubectl("delete", "pod", ASKS, LISTENS, "--now")


def _party(cluster: Cluster, store: str) -> Party:
    cluster.apply(make_pod(ASKS, "sleep"), make_pod(LISTENS, "serve", ":8080", "a Pod"))
    pod = address(cluster, LISTENS)
    address(cluster, ASKS)
    node = cluster.get("pod", LISTENS)["status"]["hostIP"]
    service = cluster.kubectl("get", "service", "-n", "default", "kubernetes", "-o", _CLUSTER_IP)
    return Party(
        ask=lambda url: ask(cluster, ASKS, url),
        own={
            "API server": f"https://{node}:6443/version",
            "API server's Service": f"https://{service.stdout}/version",
            "Pod": f"http://{pod}:8080/",
            "door": store,
        },
        store=store,
    )


_CLUSTER_IP = "jsonpath={.spec.clusterIP}"


def _lone(place: Place, probe: Path, store: str) -> Party:
    def ask_there(url: str) -> str:
        command = [*place.island.within, str(probe), "get", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return (done.stdout or done.stderr).strip()

    listens = f"http://{place.island.address}:8080/"
    return Party(ask=ask_there, own={"machine": listens, "door": store}, store=store)


@pytest.fixture(scope="module")
def listener(place: Place, probe: Path) -> Iterator[None]:
    """Somebody who would answer on the lone machine."""
    command = [*place.island.within, str(probe), "serve", ":8080", "a machine"]
    with subprocess.Popen(command) as process:
        yield
        process.kill()


@pytest.mark.parametrize("who", [HQ, CLINIC, LONE])
def test_a_party_reaches_the_store(parties: dict[str, Party], who: str) -> None:
    said = parties[who].ask(parties[who].store)
    assert said.startswith("403"), said  # the store answers, and asks for keys


@pytest.mark.parametrize("who", [HQ, CLINIC, LONE])
def test_what_a_party_has_is_there_for_itself(
    parties: dict[str, Party], listener: None, who: str
) -> None:
    for what, url in parties[who].own.items():
        said = parties[who].ask(url)
        assert said[:3].isdecimal(), f"{what} at {url}: {said}"


@pytest.mark.parametrize("who", [HQ, CLINIC, LONE])
def test_a_party_reaches_nothing_of_the_others(
    parties: dict[str, Party], listener: None, who: str
) -> None:
    others = [(name, each) for name, each in parties.items() if name != who]
    for name, other in others:
        for what, url in other.own.items():
            said = parties[who].ask(url)
            assert any(words in said for words in NO_WAY), f"{name}'s {what} at {url}: {said}"


@pytest.mark.parametrize("who", [HQ, LONE])
def test_the_clinics_private_store_is_behind_no_other_address(
    place: Place, parties: dict[str, Party], who: str
) -> None:
    """The machine that has it would answer at a party's own cable, if it listened there."""
    port = place.private.door.endpoint.rpartition(":")[2]
    host = place.exchange.doors[who].endpoint.rpartition(":")[0]
    assert "connection refused" in parties[who].ask(f"{host}:{port}")
