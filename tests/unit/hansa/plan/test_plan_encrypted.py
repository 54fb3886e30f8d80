"""A store that is reached without encryption is told of, once for each spec."""

import pytest

from hansa.cli.validate import list_notes
from hansa.plan.policy import advice
from tests.support.builders import make_federation, make_spec, with_spec
from tests.support.simulated_cluster import Cluster


def store(endpoint: str | None) -> dict[str, object]:
    return {"s3": {"bucket": "bucket", **({"endpoint": endpoint} if endpoint else {})}}


def list_warnings(cluster: Cluster) -> list[str]:
    return [event.message for event in cluster.events if event.reason == "NotEncrypted"]


OPEN = (
    "spec.storage.s3.endpoint: http://minio:9000 is not encrypted: anyone on the network path can "
    "read what is sent; use https"
)


def test_a_silos_endpoint_without_encryption_is_warned_of() -> None:
    addresses = {"maze": "http://turns:8000/v1", "wordle": "http://127.0.0.1:8000/v1"}
    silos = [
        {"name": name, "world": name, "endpoint": {"url": url, "server": "vllm"}}
        for name, url in addresses.items()
    ]
    (warning,) = advice.find_unencrypted(make_spec(environments=silos))
    assert warning.startswith("spec.environments[0].endpoint.url: http://turns:8000/v1 is not enc")


@pytest.mark.attack(
    by="the author of a Federation",
    does="uses an endpoint with `http://`",
    result="`hansa validate` and an Event warn of it",
)
@pytest.mark.parametrize(
    "endpoint, warned",
    [
        (None, False),
        ("https://minio:9000", False),
        ("http://minio:9000", True),
        ("http://minio", True),
        ("http://127.0.0.1:9000", False),
        ("http://localhost:9000", False),
        ("http://127.0.0.1.example.org:9000", True),
    ],
)
def test_an_endpoint_without_encryption_is_warned_of(endpoint: str | None, warned: bool) -> None:
    spec = make_spec("maze", storage=store(endpoint))
    assert bool(advice.find_unencrypted(spec)) is warned
    assert (
        any(
            "is not encrypted" in note
            for note in list_notes(make_federation(storage=store(endpoint)))
        )
        is warned
    )


def test_a_silos_own_store_is_named_by_its_path() -> None:
    maze = {"name": "maze", "world": "maze", "experienceStorage": store("http://mine:1")}
    [warning] = advice.find_unencrypted(make_spec(storage=store(None), environments=[maze]))
    assert warning.startswith(
        "spec.environments[0].experienceStorage.s3.endpoint: http://mine:1 is"
    )


def test_the_event_comes_once_for_each_spec() -> None:
    cluster = Cluster("maze", rounds=4, storage=store("http://minio:9000")).run_round().run_round()
    assert list_warnings(cluster) == [OPEN]
    cluster.federation = with_spec(cluster.federation, rounds=5)
    assert list_warnings(cluster.turn()) == [OPEN, OPEN]
    cluster.federation = with_spec(cluster.federation, storage=store("https://minio:9000"))
    assert list_warnings(cluster.turn()) == [OPEN, OPEN]
