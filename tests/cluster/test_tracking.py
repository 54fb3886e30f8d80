"""`spec.tracking` on a real cluster: a Job fills a claim after every round, and disturbs none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.cluster.installed import ENDS, WORLDS, Hansa
from tests.cluster.kube import Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "tracked"
CLAIM = "boards"


@pytest.fixture
def claim(hansa: Hansa) -> Iterator[str]:
    """A claim for a board; devkube keeps it in a folder of this machine."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": CLAIM}
    hansa.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
    )
    yield CLAIM
    hansa.clear(NAME)
    hansa.cluster.kubectl("delete", "pvc", CLAIM, "--wait=false")


def folder_of(hansa: Hansa, claim: str) -> Path:
    volume = hansa.cluster.get("pvc", claim)["spec"]["volumeName"]
    return Path(hansa.cluster.get("pv", volume)["spec"]["local"]["path"])


def tracked(hansa: Hansa, **tracking: Any) -> Manifest:
    return hansa.manifest(NAME, tracking=tracking)


def is_told(status: dict[str, Any], reason: str) -> bool:
    held = {c["type"]: c["reason"] for c in status.get("conditions") or []}
    return status.get("phase") in ENDS and held.get("Tracked") == reason


def test_the_board_on_a_claim_has_what_the_status_says(
    hansa: Hansa, claim: str, local_adapter: dict[str, bytes]
) -> None:
    hansa.apply(tracked(hansa, to="tensorboard", claim=claim))
    status = hansa.finish(NAME)
    exported = "tensorboard has the figures up to round 2"
    status = hansa.wait(
        NAME,
        lambda s: is_told(s, "Exported") and s["tracking"]["exported"] == s["tracking"]["task"],
        "waited for the last export",
    )
    assert hansa.condition(NAME, "Tracked")["message"] == exported
    [parent] = folder_of(hansa, claim).iterdir()
    assert parent.name == f"{NAME}-{hansa.cluster.get('hfed', NAME)['metadata']['uid'][:8]}"
    for silo in WORLDS:
        reader = EventAccumulator(str(parent / silo))
        reader.Reload()
        wanted = [(entry["round"], entry["success"][silo]) for entry in status["history"]]
        assert [(p.step, pytest.approx(p.value)) for p in reader.Scalars("success")] == wanted
    assert hansa.adapter(NAME) == local_adapter
    for pod in hansa.pods(NAME, role="tracker"):
        assert "AWS_" not in str(pod["spec"])
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_a_server_that_is_not_there_is_a_condition_and_no_more(
    hansa: Hansa, claim: str, local_adapter: dict[str, bytes]
) -> None:
    hansa.apply(tracked(hansa, to="mlflow", url="http://no-such-service.hansa.svc:5000"))
    hansa.finish(NAME)
    hansa.wait(NAME, lambda s: is_told(s, "TrackerFailed"), "waited for the condition")
    said = hansa.condition(NAME, "Tracked")["message"]
    assert "spec.tracking.url: got http://no-such-service.hansa.svc:5000" in said
    assert hansa.condition(NAME, "Degraded")["status"] == "False"
    assert hansa.adapter(NAME) == local_adapter
