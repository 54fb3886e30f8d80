"""The operator may do what it does, and nothing else."""

import json

import pytest

from hansa.api import constants
from tests.cluster import audit, members
from tests.cluster.admission import MADE, changed, privileged, refusals
from tests.cluster.audit import OPERATOR, Use
from tests.cluster.installed import NAMESPACE, Hansa

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

GRANTED = {
    *(
        Use(verb, f"{plural}.{constants.GROUP}")
        for plural in (constants.PLURAL, constants.MEMBER_PLURAL)
        for verb in ("list", "watch")
    ),
    *(
        Use("update", f"{plural}.{constants.GROUP}/status")
        for plural in (constants.PLURAL, constants.MEMBER_PLURAL)
    ),
    *(Use(verb, "jobs.batch") for verb in ("create", "delete", "list", "watch")),
    *(Use(verb, "pods") for verb in ("list", "watch")),
    *(Use(verb, "events") for verb in ("create", "list")),
    *(Use(verb, "leases.coordination.k8s.io") for verb in ("get", "update")),
}


def granted(hansa: Hansa) -> set[Use]:
    """What the roles bound to the operator's account say, read from the cluster."""
    found = set()
    for kind in ("rolebindings", "clusterrolebindings"):
        listed = hansa.cluster.kubectl("get", kind, "-A", "-o", "json")
        for binding in json.loads(listed.stdout)["items"]:
            subjects = {(s["kind"], s["name"]) for s in binding.get("subjects") or ()}
            if ("ServiceAccount", OPERATOR.rpartition(":")[2]) in subjects:
                found |= _rules(hansa, binding)
    return found


def _rules(hansa: Hansa, binding: dict) -> set[Use]:
    role = binding["roleRef"]
    namespace = binding["metadata"].get("namespace", NAMESPACE)
    got = hansa.cluster.kubectl("get", role["kind"], role["name"], "-n", namespace, "-o", "json")
    return {
        Use(verb, _named(resource, group))
        for rule in json.loads(got.stdout)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _named(resource: str, group: str) -> str:
    name, _, sub = resource.partition("/")
    return f"{name}{'.' + group if group else ''}{'/' + sub if sub else ''}"


@pytest.mark.attack(
    by="a thief of the operator's token",
    does="uses a right that the operator does not need",
    result="there is none: the rights granted are those that it uses",
)
def test_its_roles_say_exactly_this(hansa: Hansa) -> None:
    assert granted(hansa) == GRANTED


@pytest.mark.attack(
    by="a thief of the operator's token",
    does="reads Secrets, or makes other objects than Jobs and Events",
    result="denied",
)
def test_it_can_read_no_secret_and_make_nothing_but_jobs_and_events(hansa: Hansa) -> None:
    output = hansa.cluster.kubectl("auth", "can-i", "--list", f"--as={OPERATOR}").stdout
    assert "secrets" not in output
    assert "[*]" not in output
    assert "*.*" not in output
    for verb in ("get", "list", "watch", "create"):
        answer = hansa.cluster.kubectl("auth", "can-i", verb, "secrets", f"--as={OPERATOR}")
        assert answer.stdout.strip() == "no"
    makes = [line.split()[0] for line in output.splitlines() if "create" in line]
    allowed = {"jobs.batch", "events"}
    assert {m for m in makes if not m.startswith("selfsubject")} == allowed


@pytest.mark.attack(
    by="a thief of the operator's token",
    does=(
        "makes a Job with a token, a host path, privileges or root, under `admissionPolicy.enabled`"
    ),
    result="the API server refuses it",
)
def test_the_api_server_refuses_its_jobs_that_are_not_hardened(hansa: Hansa) -> None:
    """The rules are tried in test_admission.py; here they bind an operator that works."""
    jobs = {"hardened": MADE["gpu-client"], "privileged": changed(privileged)}
    assert set(refusals(hansa.cluster, jobs, OPERATOR)) == {"privileged"}


@pytest.mark.attack(
    by="a thief of the operator's token",
    does="uses a right that the operator does not need",
    result="there is none: the rights granted are those that it uses",
)
def test_every_right_is_used_and_none_beside(hansa: Hansa) -> None:
    """A clash, a missing volume, a suspension and a member bring forth the rarer requests."""
    name = "other"
    clash = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-r1-maze-a1"},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "any", "image": "any:1"}],
                }
            },
        },
    }
    hansa.cluster.apply(clash)
    manifest = hansa.manifest(name)
    volume = {"name": "lost", "configMap": {"name": "is-not-there"}}
    mount = {"name": "lost", "mountPath": "/lost"}
    manifest["spec"]["environments"][1]["podTemplate"] = {
        "spec": {"volumes": [volume], "containers": [{"name": "client", "volumeMounts": [mount]}]}
    }
    hansa.apply(manifest)
    hansa.wait(name, lambda s: "belongs to another object" in str(s), "the clash is told")
    hansa.wait(name, lambda s: "is-not-there" in str(s), "the missing volume is told")
    hansa.patch(name, {"suspend": True})
    hansa.wait(name, lambda s: s.get("phase") == "Suspended", "it is suspended")
    hansa.delete(name)
    hansa.cluster.apply(members.manifest("rests", suspend=True))
    hansa.cluster.until(
        lambda: members.phase(hansa.cluster, "rests") == "Suspended", "the member is suspended"
    )
    hansa.cluster.kubectl("delete", constants.MEMBER_SHORT_NAME, "rests")
    hansa.cluster.kubectl("delete", "job", f"{name}-r1-maze-a1")
    used = {use for use in audit.uses(hansa.cluster) if not use.resource.startswith("selfsubject")}
    assert used == granted(hansa)
