"""Federations that are wrong in one thing: where that is found out, and in which words it is told.

Each row is a case: what is applied, and what the refusal has to say. Most rows are those of the
tables that the tests without a cluster read, too.
"""

from copy import deepcopy
from typing import Any

from hansa.api import constants
from tests.cluster.kube import Manifest
from tests.support.bad_manifests import BAD
from tests.support.pod_templates import cases

Case = tuple[Manifest, str]

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


AT = "spec.environments[0].podTemplate.spec"
OTHERS_KEYS = {"volumes": [{"name": "x", "secret": {"secretName": "others-keys"}}]}
FOREIGN = [
    {**QUEUED, "credentialsSecret": {"name": "others-keys"}},
    {**MAZE, "podTemplate": {"spec": OTHERS_KEYS}},
]


def _read_rows(operator: str) -> dict[str, Case]:
    """Rows of the table of bad manifests that the operator is asked for."""
    return {str(bad): (bad.manifest(), bad.said[0]) for bad in BAD if bad.operator == operator}


def _read_pod_rows() -> dict[str, Case]:
    """Rows of the table of Pod templates; what the operator allows is tested elsewhere."""
    rows = [row for (row,) in (each.values for each in cases("refusals.yaml"))]
    return {
        row["case"]: (
            make(**pod(**row["spec"])),
            f"{AT}.{row['says'].partition(' (HANSA_ALLOWED')[0]}",
        )
        for row in rows
        if row.get("on_a_cluster")
    }


REPORTED: dict[str, Case] = {
    **_read_rows("strict"),
    **_read_pod_rows(),
    "another silos Secret": (
        make(environments=FOREIGN),
        "spec.environments[1].podTemplate.spec.volumes[0].secret.secretName",
    ),
    "a limit that is no quantity": (
        make(**container(resources={"limits": {"memory": "lots"}})),
        "quantities must match",
    ),
    "a mount without its volume": (
        make(**container(volumeMounts=[{"name": "ghost", "mountPath": "/data"}])),
        "spec.template.spec.containers[0].volumeMounts[1].name: Not found",
    ),
    "options of 200 kB": (
        make(environments=[{**MAZE, "options": {"text": "x" * 200_000}}]),
        "spec.environments[0].options: got an assignment of 20",
    ),
    "options of 1 MB": (
        make(environments=[{**MAZE, "options": {"text": "x" * 1_000_000}}]),
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
    **_read_rows("loose"),
    "no spec at all": (make(environments=None, rounds=None, storage=None), "spec"),
}
