"""Ways to kill a part of the system, and moments of a round to do it at."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.installed import LONG_SECONDS, Hansa
from tests.cluster.kube import Manifest

Kill = Callable[[Hansa, str], None]
Moment = Callable[[Hansa, str], bool]


def processes(pod: Manifest, program: str) -> list[int]:
    """Processes of a Pod whose command line names a program; this machine sees them all."""
    mark = f"pod{pod['metadata']['uid']}"
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            groups = (folder / "cgroup").read_text()
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if mark in groups and program in command:
            found.append(int(folder.name))
    return found


def kill_processes(pod: Manifest, program: str) -> None:
    """End them as a fault would: at once and without a word."""
    found = processes(pod, program)
    assert found, f"no process {program} in Pod {pod['metadata']['name']}"
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def _delete_pod(hansa: Hansa, name: str) -> None:
    done = hansa.cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    assert done.returncode == 0, done.stderr


def kill_operator(hansa: Hansa, _: str) -> None:
    """The operator's Pod vanishes; its Deployment makes another."""
    for name in hansa.operators():
        _delete_pod(hansa, name)


def kill_client(hansa: Hansa, name: str) -> None:
    """A client's Pod vanishes in the middle of its work."""
    running = [
        p
        for p in (*hansa.pods(name, role="client"), *hansa.pods(name, role="evaluate"))
        if is_active(p)
    ]
    assert running, "no client runs"
    _delete_pod(hansa, running[0]["metadata"]["name"])


def kill_aggregator(hansa: Hansa, name: str) -> None:
    """The aggregator's Pod vanishes."""
    pods = [p for p in hansa.pods(name, role="aggregator") if is_active(p)]
    assert pods, "no aggregator runs"
    _delete_pod(hansa, pods[0]["metadata"]["name"])


def kill_minio(hansa: Hansa, _: str) -> None:
    """The store's process ends; the kubelet starts it again with the same volume."""
    for pod in hansa.cluster.list("pod", "app.kubernetes.io/component=minio"):
        kill_processes(pod, "minio")


def _kill_part(part: str) -> Kill:
    def kill(hansa: Hansa, _: str) -> None:
        pid = int(hansa.cluster.script("pid", part).stdout)
        os.kill(pid, signal.SIGKILL)

    kill.__doc__ = f"The cluster's {part} dies; its supervisor starts another."
    return kill


kill_kubelet = _kill_part("kubelet")
kill_apiserver = _kill_part("kube-apiserver")

KILLS: dict[str, Kill] = {
    "operator": kill_operator,
    "client": kill_client,
    "aggregator": kill_aggregator,
    "minio": kill_minio,
    "kubelet": kill_kubelet,
    "apiserver": kill_apiserver,
}


# -- moments --------------------------------------------------------------------------------------


def is_active(pod: Manifest) -> bool:
    """Whether a Pod still has work to do."""
    gone = pod["metadata"].get("deletionTimestamp")
    return not gone and pod.get("status", {}).get("phase") in ("Pending", "Running")


def _runs(pod: Manifest) -> bool:
    return is_active(pod) and pod["status"]["phase"] == "Running"


def clients_run(round_: int) -> Moment:
    """A client of this round plays or trains."""

    def look(hansa: Hansa, name: str) -> bool:
        return any(_runs(p) for p in hansa.pods(name, role="client", round=str(round_)))

    return look


def one_has_answered(round_: int) -> Moment:
    """One client of this round has answered; another still works, unless it was as quick."""

    def look(hansa: Hansa, name: str) -> bool:
        status = hansa.status(name)
        return status.get("round") == round_ and _count(status) >= 1

    return look


def aggregator_exists(round_: int) -> Moment:
    """The aggregator of this round is being started or runs."""

    def look(hansa: Hansa, name: str) -> bool:
        return any(map(is_active, hansa.pods(name, role="aggregator", round=str(round_))))

    return look


def evaluation_runs(hansa: Hansa, name: str) -> bool:
    """The last adapter is being measured."""
    return any(map(is_active, hansa.pods(name, role="evaluate")))


def _count(status: dict[str, Any]) -> int:
    return int(str(status.get("updates") or "0/0").partition("/")[0])


def kill_at(hansa: Hansa, name: str, moment: Moment, kill: Kill) -> None:
    """Wait for a moment of a federation's life, then kill."""
    deadline = time.monotonic() + LONG_SECONDS
    while not moment(hansa, name):
        assert time.monotonic() < deadline, f"{name}: the moment never came: {hansa.story(name)}"
        phase = hansa.status(name).get("phase")
        assert phase not in ("Succeeded", "Failed"), f"{name} is {phase}: {hansa.story(name)}"
        time.sleep(0.2)
    kill(hansa, name)
