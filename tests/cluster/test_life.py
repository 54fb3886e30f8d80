"""The life of a federation: suspended, deleted, applied again, edited and grown, byte for byte.

One federation lives through all of it; the tests tell its story in their order.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hansa.api import constants
from hansa.api.assignment import ENV_ASSIGNMENT
from tests.cluster.installed import BUCKET, Hansa
from tests.cluster.kube import Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "rules"


@pytest.fixture(scope="module")
def alive(hansa: Hansa) -> Iterator[Hansa]:
    """The federation that is told about."""
    hansa.clear(NAME)
    hansa.apply(hansa.manifest(NAME))
    yield hansa
    hansa.clear(NAME)


def in_round(round_: int, *states: str) -> Any:
    """Whether a round is open and one of its environments is in one of the states."""

    def is_so(status: dict[str, Any]) -> bool:
        current = status.get("current") or {}
        seen = {e["state"] for e in current.get("environments", [])}
        return current.get("round") == round_ and bool(seen & set(states or seen))

    return is_so


def objects(hansa: Hansa) -> dict[str, str]:
    """Every object of the federation in the bucket, with the moment it was written."""
    with closing(hansa.store(NAME)) as store:
        listed = store._client().list_objects_v2(Bucket=BUCKET, Prefix=f"{NAME}/")
    return {each["Key"]: str(each["LastModified"]) for each in listed.get("Contents", [])}


def assignments(hansa: Hansa, round_: int) -> list[dict[str, Any]]:
    """What the clients of a round were told."""
    label = f"{constants.LABEL_FEDERATION}={NAME},{constants.LABEL_ROUND}={round_}"
    label += f",{constants.LABEL_ROLE}=client"
    done = hansa.cluster.kubectl("get", "jobs", "-l", label, "-o", "json")
    pods = [job["spec"]["template"] for job in json.loads(done.stdout)["items"]]
    return [json.loads(variable(pod, ENV_ASSIGNMENT)) for pod in pods]


def variable(pod: Manifest, name: str) -> str:
    """A variable of a Pod's first container."""
    env = pod["spec"]["containers"][0]["env"]
    return str(next(each["value"] for each in env if each["name"] == name))


def unfinished(hansa: Hansa) -> list[Manifest]:
    """Pods that have work to do, or are being ended."""
    return [pod for pod in hansa.pods(NAME) if pod["status"].get("phase") != "Succeeded"]


# -- stopped and gone on --------------------------------------------------------------------------


def test_suspending_in_a_round_ends_its_jobs(alive: Hansa) -> None:
    alive.wait(NAME, in_round(1, "Running"), "a client runs")
    alive.patch(NAME, {"suspend": True})
    alive.wait(NAME, lambda s: s["phase"] == "Suspended", "is suspended")
    alive.cluster.until(lambda: not unfinished(alive), "no Pod is left that has not finished")
    assert alive.status(NAME)["current"]["round"] == 1


def test_resuming_goes_on_in_the_same_round(alive: Hansa) -> None:
    alive.patch(NAME, {"suspend": False})
    status = alive.wait(NAME, in_round(2, "Running"), "comes to round 2")
    assert [e["round"] for e in status["history"]] == [0, 1]


def test_deleting_in_a_round_leaves_no_job_and_the_bucket_as_it_was(alive: Hansa) -> None:
    alive.cluster.kubectl("delete", "hfed", NAME)
    left = objects(alive)
    alive.cluster.until(lambda: not alive.children(NAME), "no Job or Pod is left")
    assert objects(alive).items() >= left.items()
    assert f"{NAME}/global/00001/manifest.json" in left


def test_applying_it_again_goes_on_and_ends_with_the_bytes_of_an_undisturbed_run(
    alive: Hansa, local_adapter: dict[str, bytes]
) -> None:
    before = objects(alive)
    alive.apply(alive.manifest(NAME))
    status = alive.finish(NAME)
    assert [e["outcome"] for e in status["history"]] == ["base", "aggregated", "aggregated"]
    assert objects(alive).items() >= before.items(), "nothing is made a second time"
    assert alive.adapter(NAME) == local_adapter


# -- edited ---------------------------------------------------------------------------------------

GUEST = {
    "name": "guest",
    "world": "maze",
    "queueName": "nobodys",
    "credentialsSecret": {"name": f"{NAME}-maze"},
}
"""An environment that waits in a queue for ever."""
RATE = 1.0e-3


def test_a_finished_federation_grows(alive: Hansa) -> None:
    alive.patch(NAME, {"rounds": 4})
    alive.wait(NAME, in_round(3, "Running"), "runs round 3")


def test_edits_in_a_round_count_from_the_next(alive: Hansa) -> None:
    labelled = {"metadata": {"labels": {"edited": "yes"}}}
    environments = [*alive.manifest(NAME)["spec"]["environments"], GUEST]
    training = {**alive.manifest(NAME)["spec"]["training"], "learningRate": RATE}
    edits = {"training": training, "environments": environments, "podTemplate": labelled}
    alive.patch(NAME, edits)
    third = assignments(alive, 3)
    assert {each["settings"]["training"]["learningRate"] for each in third} == {5.0e-3}
    assert {each["environment"] for each in third} == {"maze", "webshop"}

    alive.wait(NAME, in_round(4, "Queued"), "opens round 4 with its guest")
    fourth = assignments(alive, 4)
    assert {each["settings"]["training"]["learningRate"] for each in fourth} == {RATE}
    assert {each["environment"] for each in fourth} == {"guest", "maze", "webshop"}
    alive.cluster.until(lambda: len(alive.pods(NAME, round="4")) == 2, "the Pods of round 4")
    assert all(p["metadata"]["labels"]["edited"] for p in alive.pods(NAME, round="4"))
    assert not any("edited" in p["metadata"]["labels"] for p in alive.pods(NAME, round="3"))


def test_an_environment_that_leaves_takes_its_job_with_it(alive: Hansa) -> None:
    environments = alive.manifest(NAME)["spec"]["environments"]
    alive.patch(NAME, {"environments": environments})
    guest = f"{NAME}-r4-guest-a1"
    alive.cluster.until(lambda: not alive.cluster.get("job", guest), "the guest's Job is deleted")
    status = alive.finish(NAME)
    assert [e["name"] for e in status["environments"]] == ["maze", "webshop"]
    assert (status["completed"], status["updates"]) == (4, "2/2")


# -- another run under the same prefix ------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"seed": 8}, "seed 7 there, 8 here", id="another seed"),
        pytest.param(
            {"training": {"learningRate": RATE}},
            "training.learningRate 0.005 there, 0.001 here",
            id="another learning rate",
        ),
    ],
)
def test_another_run_under_the_same_prefix_is_refused_with_the_field(
    alive: Hansa, change: dict[str, Any], field: str
) -> None:
    alive.cluster.kubectl("delete", "hfed", NAME)  # Jobs of the old one may be there for a while
    before = objects(alive)
    manifest = alive.manifest(NAME)
    training = {**manifest["spec"]["training"], **change.get("training", {})}
    alive.apply({**manifest, "spec": {**manifest["spec"], **change, "training": training}})
    alive.wait(NAME, lambda s: s.get("phase") == "Failed", "is refused")
    assert field in alive.condition(NAME, "Degraded")["message"]
    assert objects(alive) == before
