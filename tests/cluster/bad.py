"""Federations that are wrong in one thing: where that is found out, and in which words it is told.

Each row is a case: fields of a spec that is good otherwise, and what the refusal has to say.
"""

from copy import deepcopy
from typing import Any

from hansa import api
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
    kind = {"apiVersion": api.API_VERSION, "kind": api.KIND}
    return {**kind, "metadata": {"name": name}, "spec": spec}


# -- refused by the apiserver ---------------------------------------------------------------------

BAD_ENVIRONMENT = {"environments": [{"name": "maze", "world": "maze", "wrold": "maze"}]}

REFUSED: dict[str, Case] = {
    "no environments": ({"environments": None}, "spec.environments: Required value"),
    "an empty list of environments": ({"environments": []}, "spec.environments"),
    "101 environments": (
        {"environments": [{"name": f"e{n}", "world": "maze"} for n in range(101)]},
        "spec.environments: Too many: 101: must have at most 100 items",
    ),
    "environments as a mapping": ({"environments": {"maze": MAZE}}, "spec.environments"),
    "privacy without a delta": (
        {"privacy": {"epsilon": 8}},
        "spec.privacy.delta: Required value",
    ),
    "an environment without a world": (
        {"environments": [{"name": "maze"}]},
        "spec.environments.world: expected the world that it plays",
    ),
    "two environments of one name": (
        {"environments": [MAZE, {"name": "maze", "world": "wordle"}]},
        'spec.environments[1]: Duplicate value: {"name":"maze"}',
    ),
    "an environment name that is too long": (
        {"environments": [{"name": "m" * 31, "world": "maze"}]},
        "spec.environments[0].name: Too long: may not be more than 30",
    ),
    "a federation name that is too long": (
        {"name": "f" * 41},
        "metadata.name: expected at most 40 characters",
    ),
    "more updates than environments": (
        {"participation": {"minimumUpdates": 2}},
        "spec.participation.minimumUpdates: expected at most the number of spec.environments",
    ),
    "krum with too few environments": (
        {"aggregation": {"strategy": "krum"}},
        "spec.aggregation.faulty: krum and multi-krum need 2 x faulty + 3 spec.environments",
    ),
    "masks of one silo": (
        {"aggregation": {"secure": {}}},
        "spec.aggregation.secure: expected at least 3 spec.environments, each with its own",
    ),
    "a guard with nothing to guard": (
        {"aggregation": {"strategy": "none"}, "guard": {"maxDrop": 0.1}},
        "spec.guard: aggregation.strategy none has no global adapter to guard",
    ),
    "contributions of one environment": (
        {"evaluation": {"contributions": {}}},
        "spec.evaluation.contributions: expected 3 to 32 spec.environments",
    ),
    "contributions of no round": (
        {"evaluation": {"contributions": {"everyRounds": 0}}},
        "spec.evaluation.contributions.everyRounds",
    ),
    "nine probes": (
        {"probes": [{"name": f"p{n}", "texts": ["Once."]} for n in range(9)]},
        "spec.probes: Too many: 9: must have at most 8 items",
    ),
    "two probes of one name": (
        {"probes": [{"name": "p", "texts": ["Once."]}] * 2},
        'spec.probes[1]: Duplicate value: {"name":"p"}',
    ),
    "a bound on violations below 0": (
        {"guard": {"maxViolations": -0.1}},
        "spec.guard.maxViolations",
    ),
    "a learner that compares, with nothing to compare": (
        {"training": {"learner": "grpo"}},
        "spec.exploration.samplesPerTask: dpo and grpo compare episodes of one task",
    ),
    "a tracker without its address": (
        {"tracking": {"to": "mlflow"}},
        "spec.tracking.url: got nothing, expected the address of the MLflow server",
    ),
    "a password in a tracker's address": (
        {"tracking": {"to": "mlflow", "url": "https://me:secret@mlflow"}},
        "spec.tracking.url",
    ),
    "rounds as text": ({"rounds": "two"}, "spec.rounds"),
    "half a round": ({"rounds": 1.5}, "spec.rounds"),
    "no rounds at all": ({"rounds": 0}, "spec.rounds"),
    "a seed beyond 31 bits": ({"seed": 2**31}, "spec.seed"),
    "suspend as text": ({"suspend": "yes"}, "spec.suspend"),
    "a rank of 1000": ({"adapter": {"rank": 1000}}, "spec.adapter.rank"),
    "a learning rate of 0": ({"training": {"learningRate": 0}}, "spec.training.learningRate"),
    "a learner that no package can bring": (
        {"training": {"learner": "Proximal Policy"}},
        "spec.training.learner",
    ),
    "a negative timeout": (
        {"participation": {"roundTimeoutSeconds": -1}},
        "spec.participation.roundTimeoutSeconds",
    ),
    "a strategy that no package can bring": (
        {"aggregation": {"strategy": "my.package:Bulyan"}},
        "spec.aggregation.strategy",
    ),
    "an unknown kind of model": ({"model": {"source": "ftp://x"}}, "spec.model.source"),
    "a bucket with capitals": ({"storage": {"s3": {"bucket": "My"}}}, "spec.storage.s3.bucket"),
    "storage without a bucket": ({"storage": {"s3": {}}}, "spec.storage.s3.bucket: Required"),
    "an unknown field": ({"round": 3}, 'unknown field "spec.round"'),
    "an unknown field of the training": (
        {"training": {"learningrate": 0.1}},
        'unknown field "spec.training.learningrate"',
    ),
    "an unknown field of the storage": (
        {"storage": {"s3": {**PLACE, "secretKey": "abc"}}},
        'unknown field "spec.storage.s3.secretKey"',
    ),
    "engine openai without endpoints": (
        {"exploration": {"engine": "openai"}},
        "spec.exploration.engine: with openai, expected an endpoint in every environment",
    ),
    "an unknown field of an environment": (
        BAD_ENVIRONMENT,
        'unknown field "spec.environments[0].wrold"',
    ),
}


CHANGED: dict[str, Case] = {
    "another seed": ({"seed": 8}, "spec.seed: cannot change"),
    "another model": ({"model": {"source": "path:/model"}}, "spec.model: cannot change"),
    "another rank": ({"adapter": {"rank": 4}}, "spec.adapter: cannot change"),
    "another bucket": ({"storage": {"s3": {"bucket": "new"}}}, "spec.storage: cannot change"),
    "fewer rounds": ({"rounds": 1}, "spec.rounds: may grow, never shrink"),
}


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
    "a probe with a pattern that would take for ever": (
        {"probes": [{"name": "p", "prompts": ["Hello."], "forbidden": ["(a+)+b"]}]},
        "spec.probes[0].forbidden[0]: got '(a+)+b' with a repeated group",
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
        {"accepted": {"seed": 8, "rounds": 1, "environments": {}}},
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
