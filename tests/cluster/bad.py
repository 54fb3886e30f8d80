"""Federations that are wrong in one thing: where that is found out, and in which words it is told.

Each row is a case: fields of a spec that is good otherwise, and what the refusal has to say.
"""

from copy import deepcopy
from typing import Any

from hansa.api import constants
from tests.cluster.kube import Manifest

Case = tuple[dict[str, Any], str]

QUEUED = {"name": "other", "world": "wordle", "queueName": "nobodys"}
"""An environment that waits in a queue that nobody serves: it costs no Pod."""
MAZE = {"name": "maze", "world": "maze"}
PLACE = {"bucket": "bucket", "prefix": "run"}


def make(name: str = "bad", **fields: Any) -> Manifest:
    """A federation that is good but for these fields of its spec; None leaves one out."""
    given = {"rounds": 2, "storage": {"s3": PLACE}, "environments": [MAZE], **fields}
    spec = {field: deepcopy(value) for field, value in given.items() if value is not None}
    kind = {"apiVersion": constants.API_VERSION, "kind": constants.KIND}
    return {**kind, "metadata": {"name": name}, "spec": spec}


# -- taken, and told in a condition ---------------------------------------------------------------


def pod(**spec: Any) -> dict[str, Any]:
    """An environment whose Pod template has this."""
    return {"environments": [{**MAZE, "podTemplate": {"spec": spec}}]}


def container(**fields: Any) -> dict[str, Any]:
    """An environment whose client container has this."""
    return pod(containers=[{"name": "client", **fields}])


def volume(**source: Any) -> dict[str, Any]:
    """An environment with a volume of this kind."""
    return pod(volumes=[{"name": "mine", **source}])


AT = "spec.environments[0].podTemplate.spec"
OTHERS_KEYS = {"volumes": [{"name": "x", "secret": {"secretName": "others-keys"}}]}
FOREIGN = [
    {**QUEUED, "credentialsSecret": {"name": "others-keys"}},
    {**MAZE, "podTemplate": {"spec": OTHERS_KEYS}},
]
TOKEN = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
KEY_OF_A_SECRET = {"secretKeyRef": {"name": "anybodys", "key": "password"}}

REPORTED: dict[str, Case] = {
    "no storage": ({"storage": None}, "spec.storage: got nothing, expected storage.s3"),
    "target modules as a number": ({"adapter": {"targetModules": 3}}, "spec.adapter.targetModules"),
    "target modules that are no names": (
        {"adapter": {"targetModules": ["q_proj", 7]}},
        "spec.adapter.targetModules",
    ),
    "options of a builtin strategy": (
        {"aggregation": {"options": {"size": 5}}},
        "spec.aggregation.options: got size, expected none: strategy mean is builtin",
    ),
    "options of a builtin learner": (
        {"training": {"options": {"size": 5}}},
        "spec.training.options: got size, expected none: learner success-sft is builtin",
    ),
    "a probe with a pattern that looks around": (
        {"probes": [{"name": "p", "prompts": ["Hello."], "forbidden": ["(?=a)"]}]},
        "spec.probes[0].forbidden[0]: got '(?=a)', expected a regular expression as RE2 has them",
    ),
    "a bound on violations that nothing counts": (
        {"guard": {"maxViolations": 0.1}},
        "spec.guard.maxViolations: got 0.1, and no probe counts broken rules",
    ),
    "a folder of the node": (volume(hostPath={"path": "/"}), f"{AT}.volumes[0].hostPath"),
    "a projected token": (
        volume(projected=TOKEN),
        f"{AT}.volumes[0].projected.sources[0].serviceAccountToken",
    ),
    "a volume of an unlisted Secret": (
        volume(secret={"secretName": "anybodys"}),
        f"{AT}.volumes[0].secret.secretName",
    ),
    "another silos Secret": (
        {"environments": FOREIGN},
        "spec.environments[1].podTemplate.spec.volumes[0].secret.secretName",
    ),
    "a variable of an unlisted Secret": (
        container(env=[{"name": "KEY", "valueFrom": KEY_OF_A_SECRET}]),
        f"{AT}.containers[0].env[0].valueFrom.secretKeyRef.name",
    ),
    "privilege": (
        container(securityContext={"privileged": True}),
        f"{AT}.containers[0].securityContext.privileged",
    ),
    "an added capability": (
        container(securityContext={"capabilities": {"add": ["NET_ADMIN"]}}),
        f"{AT}.containers[0].securityContext.capabilities.add",
    ),
    "root": (container(securityContext={"runAsUser": 0}), "securityContext.runAsUser"),
    "another command": (container(command=["sh"]), f"{AT}.containers[0].command"),
    "a variable that Hansa sets": (
        container(env=[{"name": "HANSA_ASSIGNMENT", "value": "{}"}]),
        f"{AT}.containers[0].env[0].name",
    ),
    "a variable that is a number": (
        container(env=[{"name": "N", "value": 1}]),
        f"{AT}.containers[0].env[0].value",
    ),
    "the network of the node": (pod(hostNetwork=True), f"{AT}.hostNetwork"),
    "a ServiceAccount": (pod(serviceAccountName="admin"), f"{AT}.serviceAccountName"),
    "a critical PriorityClass": (
        pod(priorityClassName="system-node-critical"),
        f"{AT}.priorityClassName: got 'system-node-critical', expected a PriorityClass",
    ),
    "a toleration of everything": (
        pod(tolerations=[{"operator": "Exists"}]),
        f"{AT}.tolerations[0].key: got nothing, expected the key of a taint",
    ),
    "a second container": (
        pod(containers=[{"name": "extra", "image": "x"}]),
        "any other extra container would keep the Job from completing",
    ),
    "an init container that ends": (
        pod(initContainers=[{"name": "first", "image": "x"}]),
        f"{AT}.initContainers[0].restartPolicy: got nothing, expected Always",
    ),
    "an unknown field of a Pod": (pod(nodeSelektor={"a": "b"}), f"{AT}.nodeSelektor"),
    "a Pod template that is no mapping": (
        {"podTemplate": {"spec": "text"}},
        "spec.podTemplate.spec: got 'text', expected a mapping",
    ),
    "a limit that is no quantity": (
        container(resources={"limits": {"memory": "lots"}}),
        "quantities must match",
    ),
    "a mount without its volume": (
        container(volumeMounts=[{"name": "ghost", "mountPath": "/data"}]),
        "spec.template.spec.containers[0].volumeMounts[1].name: Not found",
    ),
    "a certificate that is none": (
        {"storage": {"s3": {**PLACE, "caSecret": {"name": "s", "key": "password"}}}},
        "spec.storage.s3.caSecret.key",
    ),
    "a private store's certificate that is none": (
        {
            "environments": [
                {
                    **MAZE,
                    "credentialsSecret": {"name": "mine"},
                    "experienceStorage": {
                        "s3": {**PLACE, "caSecret": {"name": "two", "key": "password"}}
                    },
                }
            ]
        },
        "spec.environments[0].experienceStorage.s3.caSecret.key",
    ),
    "options of 200 kB": (
        {"environments": [{**MAZE, "options": {"text": "x" * 200_000}}]},
        "spec.environments[0].options: got an assignment of 20",
    ),
    "options of 1 MB": (
        {"environments": [{**MAZE, "options": {"text": "x" * 1_000_000}}]},
        "spec.environments",
    ),
}


STATUSES: dict[str, Case] = {
    "another seed was accepted": (
        {"accepted": {"seed": 8, "rounds": 1, "environments": {}, "options": {}}},
        "spec.seed: got 7, expected 8 (it cannot change after the first round)",
    ),
    "nonsense was accepted": ({"accepted": {"rounds": "many"}}, "status.accepted: got"),
    "a moment at the end of time": (
        {
            "round": 1,
            "current": {
                "round": 1,
                "openedAt": "2026-01-01T00:00:00Z",
                "startedAt": "9999-12-31T23:59:59Z",
                "start": {},
                "settings": {},
                "participation": {},
                "environments": [{"name": "other", "world": "wordle"}],
            },
        },
        "status.current.startedAt: got 9999-12-31T23:59:59+00:00",
    ),
}


# -- let in by a definition of another version ----------------------------------------------------

LET_IN: dict[str, Case] = {
    "rounds that are text": ({"rounds": "two"}, "spec.rounds: got 'two'"),
    "a field that is unknown": ({"round": 3}, "spec.round"),
    "a far too large rank": ({"adapter": {"rank": 1000}}, "spec.adapter.rank: got 1000"),
    "one name twice": ({"environments": [MAZE, MAZE]}, "spec.environments[1].name: got 'maze'"),
    "more than 100 environments": (
        {"environments": [{"name": f"e{n}", "world": "maze"} for n in range(101)]},
        "spec.environments",
    ),
    "a minimum beyond everybody": (
        {"participation": {"minimumUpdates": 2}},
        "spec.participation.minimumUpdates: got 2, expected 1 to 1",
    ),
    "no spec at all": ({"environments": None, "rounds": None, "storage": None}, "spec"),
}
