"""Who takes part in a round: too few, enough and all, and one that comes too late."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hansa.api import bucket_keys, constants
from tests.cluster.installed import Hansa
from tests.cluster.kills import is_active
from tests.cluster.kube import Manifest
from tests.support.tiny_specs import NO_IMAGE, TINY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TOO_MANY_GPUS = {"name": "client", "resources": {"limits": {"nvidia.com/gpu": 100}}}


def with_container(environments: list[Manifest], name: str, container: Manifest) -> list[Manifest]:
    """The environments, one of them with another client container."""
    template = {"spec": {"containers": [container]}}
    return [{**e, "podTemplate": template} if e["name"] == name else e for e in environments]


def rounds(status: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Number, outcome and updates of every round but the base."""
    history = [entry for entry in status["history"] if entry["round"]]
    return [(entry["round"], entry["outcome"], entry["updates"]) for entry in history]


# -- one story, told by tests in their order ------------------------------------------------------

NAME = "rules"


@pytest.fixture(scope="module")
def story(hansa: Hansa) -> Iterator[Hansa]:
    """A federation of two, one of which cannot start; all must take part, for now."""
    hansa.clear(NAME)
    good = hansa.manifest(NAME)["spec"]["environments"]
    bad = with_container(good, "webshop", NO_IMAGE)
    hansa.apply(hansa.manifest(NAME, **TINY, environments=bad, participation={"retries": 1}))
    yield hansa
    hansa.delete(NAME)


def test_below_the_minimum_a_round_fails_and_says_what_to_do(story: Hansa) -> None:
    status = story.wait(NAME, lambda s: s.get("phase") == "Failed", "its round fails")
    assert story.condition(NAME, "Progressing")["reason"] == "TooFewUpdates"
    message = story.condition(NAME, "Progressing")["message"]
    assert "participation.minimumUpdates needs 2" in message
    assert message.startswith("webshop: image 'no-such-image:1'")
    assert "Fix that or lower the minimum, then change the spec or run `hansa retry`" in message
    assert rounds(status) == [(1, "failed", "0/2")]
    story.cluster.until(
        lambda: not any(is_active(pod) for pod in story.pods(NAME)), "nobody is waited for"
    )


def test_a_retry_opens_the_next_number(story: Hansa) -> None:
    note = f"{constants.ANNOTATION_RETRY}=now"
    assert story.cluster.kubectl("annotate", "hfed", NAME, note).returncode == 0
    story.wait(NAME, lambda s: s["round"] == 2, "opens round 2")
    status = story.wait(NAME, lambda s: s["phase"] == "Failed", "fails again")
    assert rounds(status) == [(1, "failed", "0/2"), (2, "failed", "0/2")]


def test_a_change_of_the_spec_goes_on_and_the_minimum_is_enough(story: Hansa) -> None:
    story.patch(NAME, {"participation": {"minimumUpdates": 1}})
    story.wait(
        NAME, lambda s: s["round"] == 3 and is_out(s, "webshop"), "continues without webshop"
    )
    good = story.manifest(NAME)["spec"]["environments"]
    story.patch(NAME, {"environments": good})  # mended, for the next round
    status = story.wait(NAME, lambda s: s["round"] == 4, "opens round 4")
    assert rounds(status)[2] == (3, "aggregated", "1/2")
    assert "webshop: image 'no-such-image:1'" in story.condition(NAME, "Degraded")["message"]


def test_who_was_left_out_is_back_in_the_next_round(story: Hansa) -> None:
    status = story.finish(NAME)
    assert rounds(status)[3] == (4, "aggregated", "2/2")
    assert story.condition(NAME, "Degraded")["status"] == "False"
    assert status["completed"] == 2, "failed rounds do not count"


def is_out(status: dict[str, Any], name: str) -> bool:
    """Whether the open round has given an environment up."""
    environments = (status.get("current") or {}).get("environments") or []
    return any(e["name"] == name and e["state"] == "Failed" for e in environments)


# -- too late -------------------------------------------------------------------------------------

LATE = "rules2"


@pytest.fixture(scope="module")
def alone(hansa: Hansa) -> dict[str, bytes]:
    """The adapter of a federation that never had a second environment."""
    hansa.clear(LATE)
    (maze, _) = hansa.manifest(LATE)["spec"]["environments"]
    hansa.apply(hansa.manifest(LATE, **TINY, rounds=1, environments=[maze]))
    hansa.finish(LATE)
    made = hansa.adapter(LATE)
    hansa.clear(LATE)
    return made


@pytest.fixture
def closed_node(hansa: Hansa) -> Iterator[str]:
    """A node that takes no new Pods from the scheduler, so that an aggregator has to wait."""
    node = hansa.cluster.kubectl("get", "nodes", "-o", "name").stdout.split()[0]
    yield node.removeprefix("node/")
    hansa.cluster.kubectl("uncordon", node)


def test_a_late_update_changes_no_byte(
    hansa: Hansa, alone: dict[str, bytes], closed_node: str
) -> None:
    good = hansa.manifest(LATE)["spec"]["environments"]
    slow = with_container(good, "webshop", TOO_MANY_GPUS)
    enough = {"minimumUpdates": 1}
    hansa.apply(hansa.manifest(LATE, **TINY, rounds=1, environments=slow, participation=enough))
    hansa.wait(LATE, lambda s: s.get("updates") == "1/2", "maze answers")
    late = next(j for j in hansa.jobs(LATE) if j["metadata"]["name"].endswith("webshop-a1"))

    hansa.cluster.kubectl("cordon", closed_node)
    turn_the_clock(hansa, LATE)
    status = hansa.wait(LATE, lambda s: (s.get("current") or {}).get("members"), "it is too late")
    assert [m["environment"] for m in status["current"]["members"]] == ["maze"]
    assert is_out(status, "webshop")
    gone = late["metadata"]["name"]
    hansa.cluster.until(lambda: not hansa.cluster.get("job", gone), "the late Job is deleted")

    come_in_late(hansa, late, closed_node)
    hansa.patch(LATE, {"environments": good})  # it can be evaluated, at least
    hansa.cluster.kubectl("uncordon", closed_node)
    assert rounds(hansa.finish(LATE)) == [(1, "aggregated", "1/2")]
    assert hansa.adapter(LATE) == alone
    hansa.clear(LATE)


def turn_the_clock(hansa: Hansa, name: str) -> None:
    """Let the round's timeout have passed: its first client started long ago."""
    patch = json.dumps({"status": {"current": {"startedAt": "2026-01-01T00:00:00Z"}}})
    arguments = ("hfed", name, "--subresource=status", "--type=merge", "-p", patch)
    done = hansa.cluster.kubectl("patch", *arguments)
    assert done.returncode == 0, done.stderr


def come_in_late(hansa: Hansa, job: Manifest, node: str) -> None:
    """Run the Pod of a deleted Job to its end, past the scheduler: it sends its update."""
    spec = {**job["spec"]["template"]["spec"], "nodeName": node}
    client = {**spec["containers"][0], "resources": {}}
    hansa.cluster.kubectl("delete", "pod", "comes-late", "--ignore-not-found")
    own = "app.kubernetes.io/managed-by"  # without it, the store's NetworkPolicy is in its way
    labels = {own: job["spec"]["template"]["metadata"]["labels"][own]}
    metadata = {"name": "comes-late", "labels": labels}
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    hansa.cluster.apply({**kind, "spec": {**spec, "containers": [client]}})
    log = hansa.cluster.finished("comes-late")
    with closing(hansa.store(LATE)) as store:
        committed = f"{bucket_keys.update_folder(LATE, 'webshop', 1)}{bucket_keys.MANIFEST}"
        assert committed in store.list(f"{LATE}/"), log
    hansa.cluster.kubectl("delete", "pod", "comes-late")
