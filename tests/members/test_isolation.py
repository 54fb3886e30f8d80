"""The parties reach the store and nothing of one another: asked from inside each of them."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.kube import Cluster, address, make_pod
from tests.members.parties import CLINIC, HQ, LONE, Place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ASKS, LISTENS = "asks", "listens"
NO_WAY = ("network is unreachable", "Client.Timeout exceeded")
"""What is said where there is no way: nodes tell it a few times a second, and then are silent. A
refused connection would be an answer."""


@dataclass(frozen=True, kw_only=True)
class Party:
    """One of the three, as seen from the others."""

    look: Callable[..., str]
    """What each address answers when it is asked from inside, line by line."""
    own: dict[str, str] = field(default_factory=dict)
    """Addresses that are this party's alone, by what is there."""

    def answers(self, *urls: str) -> dict[str, str]:
        """What addresses say to this party."""
        return dict(zip(urls, self.look(*urls).splitlines(), strict=True))


@pytest.fixture(scope="module")
def parties(place: Place, probe: Path) -> Iterator[dict[str, Party]]:
    """Each with somebody who asks, and with all that it has."""
    clusters = {HQ: place.hq.cluster, CLINIC: place.clinic.cluster}
    found = {name: _in_cluster(each) for name, each in clusters.items()}
    found[CLINIC].own["private store"] = place.private.door.endpoint
    listening = [*place.island.within, str(probe), "serve", ":8080", "a machine"]
    with subprocess.Popen(listening) as listener:
        found[LONE] = _alone(place, probe)
        for name, each in found.items():
            each.own["door"] = place.exchange.doors[name].endpoint
        yield found
        listener.kill()
    for cluster in clusters.values():
        cluster.kubectl("delete", "pod", ASKS, LISTENS, "--now")


def _in_cluster(cluster: Cluster) -> Party:
    cluster.apply(make_pod(ASKS, "sleep"), make_pod(LISTENS, "serve", ":8080", "a Pod"))
    pod, _ = address(cluster, LISTENS), address(cluster, ASKS)
    node = cluster.get("pod", LISTENS)["status"]["hostIP"]
    where = ("-n", "default", "-o", "jsonpath={.spec.clusterIP}")
    service = cluster.kubectl("get", "service", "kubernetes", *where).stdout

    def look(*urls: str) -> str:
        return cluster.kubectl("exec", ASKS, "--", "/program", "look", *urls).stdout

    own = {
        "API server": f"https://{node}:6443/version",
        "API server's Service": f"https://{service}/version",
        "Pod": f"http://{pod}:8080/",
    }
    return Party(look=look, own=own)


def _alone(place: Place, probe: Path) -> Party:
    def look(*urls: str) -> str:
        command = [*place.island.within, str(probe), "look", *urls]
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout

    return Party(look=look, own={"machine": f"http://{place.island.address}:8080/"})


@pytest.mark.parametrize("who", [HQ, CLINIC, LONE])
def test_a_party_reaches_the_store_and_what_is_its_own(parties: dict[str, Party], who: str) -> None:
    """So what the others do not reach is there, and answers."""
    own = parties[who].own
    answers = parties[who].answers(*own.values())
    assert answers[own["door"]].startswith("403"), "the store asks for keys"
    for what, url in own.items():
        assert answers[url][:3].isdecimal(), f"{what} at {url}: {answers[url]}"


@pytest.mark.parametrize("who", [HQ, CLINIC, LONE])
def test_a_party_reaches_nothing_of_the_others(parties: dict[str, Party], who: str) -> None:
    others = {
        url: f"{name}'s {what}"
        for name, other in parties.items()
        if name != who
        for what, url in other.own.items()
    }
    for url, said in parties[who].answers(*others).items():
        assert any(words in said for words in NO_WAY), f"{others[url]} at {url}: {said}"


@pytest.mark.parametrize("who", [HQ, LONE])
def test_the_clinics_private_store_is_behind_no_other_address(
    place: Place, parties: dict[str, Party], who: str
) -> None:
    """The machine that has it would answer at a party's own cable, if it listened there."""
    port = place.private.door.endpoint.rpartition(":")[2]
    url = f"{parties[who].own['door'].rpartition(':')[0]}:{port}"
    assert "connection refused" in parties[who].answers(url)[url]
