"""Policies of the chart: who may talk to whom by default, and what the operator may make."""

from typing import Any

import pytest

from tests.chart.charts import CHART, NAMESPACE, Objects, helm, refusal, render

METADATA = {"169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32"}
METADATA_6 = {"fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"}
API_SERVER = {"apiServer": {"cidrs": ["10.96.0.1/32", "192.0.2.7/32", "2001:db8::1/128"]}}
DNS = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}


def jobs(objects: Objects) -> list[dict[str, Any]]:
    """The policies of the Jobs' Pods."""
    return [p for p in objects.of("NetworkPolicy") if p["metadata"]["name"] == "hansa-jobs"]


def namespaces(**values: Any) -> list[str]:
    """Where Jobs get a policy."""
    return [policy["metadata"]["namespace"] for policy in jobs(render(**values))]


def excepted(policy: dict[str, Any]) -> dict[str, set[str]]:
    """What the open rule leaves out, by family of addresses."""
    blocks = [peer["ipBlock"] for peer in policy["spec"]["egress"][1]["to"] if "ipBlock" in peer]
    return {block["cidr"]: set(block["except"]) for block in blocks}


def notes(*arguments: str) -> str:
    """What `helm install` prints at its end."""
    where = ("--namespace", NAMESPACE, "--dry-run=client")
    done = helm("install", "hansa", str(CHART), *where, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


# -- NetworkPolicies ------------------------------------------------------------------------------


def test_by_default_the_operator_and_the_jobs_have_a_policy_each(plain: Objects) -> None:
    made = {policy["metadata"]["name"]: policy["spec"] for policy in plain.of("NetworkPolicy")}
    assert set(made) == {"hansa-operator", "hansa-jobs"}
    assert made["hansa-jobs"]["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/managed-by": "hansa-operator"
    }


def test_by_default_nothing_reaches_a_job_and_a_job_reaches_no_metadata_service(
    plain: Objects,
) -> None:
    (policy,) = jobs(plain)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == []
    assert policy["spec"]["egress"][0] == DNS
    assert excepted(policy) == {"0.0.0.0/0": METADATA, "::/0": METADATA_6}


def test_by_default_a_job_reaches_object_stores_inside_and_outside_of_the_cluster(
    plain: Objects,
) -> None:
    (policy,) = jobs(plain)
    rule = policy["spec"]["egress"][1]
    assert "ports" not in rule
    assert {"namespaceSelector": {}} in rule["to"], "to some plugins Pods are no addresses"


def test_no_job_reaches_the_api_server_whose_addresses_are_given() -> None:
    (policy,) = jobs(render(networkPolicy=API_SERVER))
    assert excepted(policy) == {
        "0.0.0.0/0": METADATA | {"10.96.0.1/32", "192.0.2.7/32"},
        "::/0": METADATA_6 | {"2001:db8::1/128"},
    }


def test_strict_jobs_reach_what_is_listed_and_nothing_else(full: Objects) -> None:
    (policy,) = jobs(full)
    assert policy["spec"]["ingress"] == []
    ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert ports == {53, 9000}
    store = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    (policy,) = jobs(render(networkPolicy={"jobs": {"strict": True, "egress": [store]}}))
    assert policy["spec"]["egress"] == [DNS, store]


def test_a_list_of_egress_that_nobody_would_heed_is_refused() -> None:
    """Before, such a list was strict: an upgrade must not open it in silence."""
    said = refusal(networkPolicy={"jobs": {"egress": [{"to": []}]}})
    assert "networkPolicy.jobs.egress: got rules while networkPolicy.jobs.strict is off" in said


@pytest.mark.parametrize(
    "values, expected",
    [
        pytest.param({}, [NAMESPACE], id="the release's"),
        pytest.param({"watch": {"namespaces": ["a", "b"]}}, ["a", "b"], id="the watched ones"),
        pytest.param(
            {
                "watch": {"namespaces": ["a", "b"]},
                "networkPolicy": {"jobs": {"namespaces": ["c"]}},
            },
            ["c"],
            id="those that are named",
        ),
        pytest.param(
            {
                "minio": {
                    "enabled": True,
                    "federations": [{"name": "f", "environments": ["x"], "namespace": "team-a"}],
                }
            },
            [NAMESPACE, "team-a"],
            id="those of the store's users",
        ),
        pytest.param(
            {
                "store": "seaweedfs",
                "seaweedfs": {
                    "federations": [{"name": "f", "environments": ["x"], "namespace": "team-b"}],
                },
            },
            [NAMESPACE, "team-b"],
            id="those of the other store's users",
        ),
    ],
)
def test_jobs_get_a_policy_in_all_namespaces_that_the_chart_knows_of(
    values: dict[str, Any], expected: list[str]
) -> None:
    assert namespaces(**values) == expected


def test_policies_can_be_left_out() -> None:
    assert render(networkPolicy={"enabled": False}).of("NetworkPolicy") == []
    made = render(networkPolicy={"jobs": {"enabled": False}})
    assert made.one("NetworkPolicy")["metadata"]["name"] == "hansa-operator"


def test_the_operator_reaches_dns_and_the_api_server_and_answers_for_its_metrics(
    full: Objects,
) -> None:
    operator = full.one("NetworkPolicy", "hansa-operator")["spec"]
    assert operator["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]
    ports = {port["port"] for rule in operator["egress"] for port in rule["ports"]}
    assert ports == {53, 443, 6443}


@pytest.mark.parametrize("store, peers", [("minio", 3), ("seaweedfs", 2)])
def test_only_jobs_and_who_is_named_reach_the_store(store: str, peers: int) -> None:
    browser = {"podSelector": {"matchLabels": {"app": "browser"}}}
    made = render(store=store, networkPolicy={"storeFrom": [browser]})
    policy = made.one("NetworkPolicy", f"hansa-{store}")["spec"]
    (rule,) = policy["ingress"]
    assert len(rule["from"]) == peers
    assert rule["from"][-1] == browser
    assert policy["egress"] == []


def test_notes_name_the_namespaces_without_a_policy_and_recommend_watch_namespaces() -> None:
    said = notes()
    assert f"Jobs in {NAMESPACE} take nothing in" in said
    assert "set networkPolicy.apiServer.cidrs" in said, "nobody could be asked for them"
    assert "Federations of other namespaces run without such a policy" in said
    assert "--set 'watch.namespaces={team-a,team-b}'" in said
    known = notes(
        "--set", "watch.namespaces={a}", "--set", "networkPolicy.apiServer.cidrs={10.0.0.1/32}"
    )
    assert "Jobs in a take nothing in and reach neither a metadata service nor the API" in known
    assert "other namespaces" not in known
    assert "No NetworkPolicy is made" in notes("--set", "networkPolicy.enabled=false")


# -- the ValidatingAdmissionPolicy ----------------------------------------------------------------


def expressions(**values: Any) -> str:
    """All that the policy asks of a Job, on one line."""
    made = render(admissionPolicy={"enabled": True, **values.pop("admissionPolicy", {})}, **values)
    policy = made.one("ValidatingAdmissionPolicy")
    return " ".join(rule["expression"] for rule in policy["spec"]["validations"])


def test_an_admission_policy_is_made_by_option_and_binds_the_operator_alone(
    plain: Objects, full: Objects
) -> None:
    assert plain.of("ValidatingAdmissionPolicy") == []
    policy = full.one("ValidatingAdmissionPolicy")
    (who,) = policy["spec"]["matchConditions"]
    assert f"'system:serviceaccount:{NAMESPACE}:hansa-operator'" in who["expression"]
    assert policy["spec"]["failurePolicy"] == "Fail"
    binding = full.one("ValidatingAdmissionPolicyBinding")["spec"]
    assert binding == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_the_admission_policy_knows_the_operators_allow_lists_and_templates() -> None:
    csi = {"name": "keys", "csi": {"driver": "keys.example.com"}}
    said = expressions(
        settings={
            "allowedServiceAccounts": ["silo-*"],
            "clientPodTemplate": {"spec": {"serviceAccountName": "trainer", "volumes": [csi]}},
        }
    )
    assert ".matches('^(default|silo-.*|trainer)$')" in said
    assert ".matches('^(keys[.]example[.]com)$')" in said
    assert "image" not in expressions().replace("has(volume.image)", "")
    prefixes = {"imagePrefixes": ["registry.example.com/hansa/"]}
    assert "['registry.example.com/hansa/']" in expressions(admissionPolicy=prefixes)
