"""Every answer of an apiserver that is no success is one sentence with a hint."""

from typing import Any

import pytest
from kubernetes.client import Configuration

from hansa.core.errors import InputError
from hansa.core.exits import Exit
from hansa.kubernetes.client import ApiError, Kube
from hansa.kubernetes.errors import explain
from hansa.kubernetes.kubeconfig import Cluster, make_api

KUBE = Kube(
    lambda: Cluster(make_api(Configuration(host="http://127.0.0.1:1")), context="home"),
)
FORBIDDEN = (
    'federations.hansa.dev is forbidden: User "ann" cannot list resource "federations" in API '
    'group "hansa.dev" in the namespace "team"'
)
OWNED = {
    "causes": [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-client-side-apply" using hansa.dev/v1alpha1',
            "field": ".spec.rounds",
        }
    ]
}
NAMED = {"name": "fde", "kind": "federations"}


@pytest.mark.parametrize(
    "status, reason, message, details, sentence, hint, code",
    [
        pytest.param(
            0,
            "NotConnected",
            "http://127.0.0.1:1: Connection refused",
            {},
            "http://127.0.0.1:1: the cluster does not answer (Connection refused)",
            "context home",
            Exit.CRASHED,
            id="nobody answers",
        ),
        pytest.param(
            0,
            "Untrusted",
            "http://127.0.0.1:1: certificate verify failed",
            {},
            "its certificate is not trusted (certificate verify failed)",
            "certificate-authority",
            Exit.CRASHED,
            id="an unknown certificate",
        ),
        pytest.param(
            401,
            "Unauthorized",
            "Unauthorized",
            {},
            "does not know these credentials",
            "log in again",
            Exit.CRASHED,
            id="unknown credentials",
        ),
        pytest.param(
            403,
            "Forbidden",
            FORBIDDEN,
            {},
            "ann may not list federations.hansa.dev in namespace team",
            "kubectl auth can-i list federations.hansa.dev -n team",
            Exit.CRASHED,
            id="forbidden",
        ),
        pytest.param(
            403,
            "Forbidden",
            "exceeded quota: pods",
            {},
            "the apiserver refused it: exceeded quota: pods",
            "",
            Exit.CRASHED,
            id="a quota speaks for itself",
        ),
        pytest.param(
            404,
            "Unknown",
            "404 page not found",
            {},
            "Hansa is not installed on this cluster",
            "helm install hansa",
            Exit.BAD_INPUT,
            id="no definition",
        ),
        pytest.param(
            404,
            "NotFound",
            "",
            NAMED,
            "federation fde: there is none in namespace team",
            "there is: fed",
            Exit.BAD_INPUT,
            id="a wrong name",
        ),
        pytest.param(
            404,
            "NotFound",
            "",
            {"name": "tem", "kind": "namespaces"},
            "--namespace: got tem, which does not exist",
            "",
            Exit.BAD_INPUT,
            id="a wrong namespace",
        ),
        pytest.param(
            409,
            "Conflict",
            "the object has been modified",
            {},
            "somebody else changed it at the same time",
            "run it again",
            Exit.CRASHED,
            id="two writers",
        ),
        pytest.param(
            409,
            "Conflict",
            "",
            OWNED,
            "spec.rounds belongs to kubectl-client-side-apply",
            "--force-conflicts",
            Exit.BAD_INPUT,
            id="fields of another tool",
        ),
        pytest.param(
            422,
            "Invalid",
            "",
            {
                "causes": [
                    {"field": "spec.rounds", "message": "Invalid value: spec.rounds: only grow"},
                    {"field": "spec.seed", "message": "is immutable"},
                    {"field": "<nil>", "message": "some rules were not checked"},
                ]
            },
            "spec.rounds: only grow",
            "and 1 more: spec.seed",
            Exit.BAD_INPUT,
            id="a spec that does not fit",
        ),
        pytest.param(
            503,
            "ServiceUnavailable",
            "etcd is away",
            {},
            "the apiserver answered 503: etcd is away",
            "try again",
            Exit.CRASHED,
            id="a bad day",
        ),
        pytest.param(
            400,
            "BadRequest",
            "strict decoding error",
            {},
            "the apiserver refused it: strict decoding error",
            "",
            Exit.BAD_INPUT,
            id="a bad request",
        ),
    ],
)
def test_each_refusal_has_a_sentence_a_hint_and_an_exit(
    status: int, reason: str, message: str, details: Any, sentence: str, hint: str, code: Exit
) -> None:
    error = explain(ApiError(status, reason, message, details), KUBE, lambda: ["fed"], "team")
    assert sentence in error.message
    assert "\n" not in error.message
    assert hint in error.hint
    assert error.exit is code


def test_a_name_that_is_like_no_other_gets_a_way_to_look() -> None:
    error = explain(ApiError(404, "NotFound", "", NAMED), KUBE)
    assert isinstance(error, InputError)
    assert error.hint == "`hansa status -A` shows all there are"
