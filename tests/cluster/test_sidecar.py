"""A world's server beside its client: a native sidecar that comes first and goes with the Job."""

from pathlib import Path

import pytest

from tests.cluster.installed import Hansa
from tests.cluster.kube import Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "rules2"
PORT = 36001
SERVER = f"""
import os, signal
from tests.support.agentgym_server import GymServer
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the first process of a container ignores it
GymServer("maze", {PORT}).serve_forever()
"""
SUPPORT = Path(__file__).parents[1] / "support"


def gym() -> Manifest:
    """A server that speaks as AgentGym's maze does, as files of a ConfigMap."""
    files = ("agentgym_server.py", "agentgym_games.py")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gym", "namespace": "hansa"},
        "data": {name: (SUPPORT / name).read_text() for name in files},
    }


def beside(environment: Manifest, image: str) -> Manifest:
    """The environment, played on a server that is its client's sidecar."""
    sidecar = {
        "name": "gym",
        "image": image,
        "imagePullPolicy": "Never",
        "restartPolicy": "Always",
        "command": ["python", "-c", SERVER],
        "env": [{"name": "PYTHONPATH", "value": "/gym:/opt/hansa/code"}],
        "volumeMounts": [{"name": "gym", "mountPath": "/gym/tests/support"}],
    }
    pod = environment["podTemplate"]["spec"]
    volumes = [{"name": "gym", "configMap": {"name": "gym"}}]
    return {
        **environment,
        "world": "agentgym",
        "options": {"environment": "maze", "url": f"http://127.0.0.1:{PORT}", "max_turns": 4},
        "podTemplate": {"spec": {**pod, "initContainers": [sidecar], "volumes": volumes}},
    }


def server_of(hansa: Hansa) -> Manifest:
    """The state of the sidecar in the first round's Pod."""
    (pod,) = hansa.pods(NAME, environment="maze", role="client")
    (server,) = pod["status"]["initContainerStatuses"]
    assert server["name"] == "gym"
    return dict(server["state"])


def test_a_world_plays_on_a_server_that_is_its_clients_sidecar(hansa: Hansa) -> None:
    hansa.clear(NAME)
    hansa.apply(gym())
    plain = hansa.manifest(NAME)["spec"]["environments"]
    settings = hansa.cluster.get("configmap", "hansa-operator")["data"]
    image = settings["HANSA_CLIENT_IMAGE"]
    environments = [beside(e, image) if e["name"] == "maze" else e for e in plain]
    changes = {"rounds": 1, "experience": {"demonstrations": 0}, "evaluation": {"tasks": 4}}
    try:
        hansa.apply(hansa.manifest(NAME, **changes, environments=environments))
        status = hansa.finish(NAME)
        line = next(e for e in status["environments"] if e["name"] == "maze")
        assert line["explored"] == 8
        assert line.get("broken", 0) == 0
        hansa.cluster.until(lambda: "terminated" in server_of(hansa), "it goes with the Job")
    finally:
        hansa.delete(NAME)
        hansa.cluster.kubectl("delete", "configmap", "gym")
