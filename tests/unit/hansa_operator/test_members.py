"""A FederationMember is served by the passes that serve Federations, and by Jobs of its own."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from hansa.api import constants
from hansa.api.assignment import ClientReport
from hansa.api.bucket_documents import Counts
from hansa.api.endpoint import ENV_API_KEY
from hansa.api.member_status import FederationMember
from hansa.api.silo_assignment import SiloClientAssignment, SiloCourierAssignment
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.pod_policy.shapes import PodAllowlist
from hansa_operator import operate
from hansa_operator.index import Index, Key
from hansa_operator.kinds import KINDS
from hansa_operator.settings import Settings
from tests.support.members import AGREED
from tests.unit.hansa_operator.objects import container
from tests.unit.hansa_operator.silos import KEY, Clinic, Died, make_silo

GOLDEN = Path(__file__).parent / "golden"
REPORT = ClientReport(
    environment=0,
    round=1,
    trained=True,
    manifest="a" * 64,
    adapter="b" * 64,
    counts=Counts(explored=10, succeeded=4, experience=14),
)
COURIER, CLIENT = "five-silo-mail-a1", "five-silo-r1-s1-a1"


def at_work(**spec: Any) -> Clinic:
    """A silo that has taken on its first order."""
    return Clinic(make_silo(**spec)).turn().order(COURIER).turn()


def secrets(job: dict[str, Any]) -> set[str]:
    """Secrets that a Job's Pod names anywhere but in its consent."""
    pod = job["spec"]["template"]["spec"]
    volumes = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v]
    sources = [e["valueFrom"] for e in container(job)["env"] if "valueFrom" in e]
    return {*volumes, *(source["secretKeyRef"]["name"] for source in sources)}


def consents(job: dict[str, Any]) -> dict[str, str]:
    volumes = {v["name"]: v for v in job["spec"]["template"]["spec"]["volumes"]}
    sources = [source["secret"] for source in volumes["hansa-consent"]["projected"]["sources"]]
    return {secret["name"]: secret["items"][0]["key"] for secret in sources}


def test_a_new_member_gets_a_courier_once_its_status_is_stored() -> None:
    clinic = Clinic().turn()
    assert clinic.calls == ["status", f"make {COURIER}"]
    owner = clinic.jobs[COURIER]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == (
        constants.MEMBER_KIND,
        "five",
        True,
    )
    assert clinic.condition("Accepted")["status"] == "True"
    task = SiloCourierAssignment.model_validate_json(
        container(clinic.jobs[COURIER])["env"][0]["value"]
    )
    assert [letter.kind for letter in task.post] == ["hello"]


def test_an_order_is_stored_as_taken_before_its_job_is_made() -> None:
    clinic = at_work()
    first = clinic.calls.index(f"make {CLIENT}")
    assert clinic.calls[first - 1] == "status"
    assert clinic.member["status"]["current"]["state"] == "Working"
    assert clinic.member["status"]["usage"]["episodes"] == 164
    variable = container(clinic.jobs[CLIENT])["env"][0]
    assert variable["name"] == "HANSA_ORDER"
    assert SiloClientAssignment.model_validate_json(variable["value"]).order.serial == 1


def test_an_answer_is_posted_by_the_next_courier_and_told_in_the_metrics() -> None:
    clinic = at_work()
    clinic.report(CLIENT, REPORT).turn()
    newest = clinic.made[-1]
    task = SiloCourierAssignment.model_validate_json(
        container(clinic.jobs[newest])["env"][0]["value"]
    )
    assert [letter.kind for letter in task.post] == ["taken", "answer"]
    text = clinic.recorder.exposition().decode()
    named = 'member="five",namespace="clinic"'
    assert f'hansa_member_orders_total{{{named},outcome="answered"}} 1.0' in _sorted(text)
    assert f'hansa_member_phase{{{named},phase="Idle"}} 1.0' in _sorted(text)
    assert f'hansa_member_budget_used{{budget="episodes",{named}}} 164.0' in _sorted(text)
    assert f'hansa_member_budget_limit{{budget="rounds",{named}}} 3.0' in _sorted(text)
    assert f'budget_limit{{budget="episodes",{named}}} 592.0' in _sorted(text)


def _sorted(text: str) -> str:
    """Samples with their labels in the order of the alphabet."""
    lines = []
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        labels, _, value = rest.partition("}")
        lines.append(f"{name}{{{','.join(sorted(labels.split(',')))}}}{value}")
    return "\n".join(lines)


def test_a_deleted_member_leaves_no_series_and_a_federation_of_its_name_keeps_its_own() -> None:
    clinic = at_work()
    for kind in KINDS:
        clinic.recorder.record_pass("clinic", "five", kind, 0.02)
    clinic.recorder.forget(*KEY)
    text = clinic.recorder.exposition().decode()
    assert 'member="five"' not in text and f'kind="{constants.MEMBER_KIND}"' not in text
    assert f'kind="{constants.KIND}"' in text


def test_a_refused_order_makes_no_job_and_is_told_of_on_the_member() -> None:
    words = "settings.exploration.tasksPerRound: got 512, allowed at most 128"
    path = "settings.exploration.tasksPerRound"
    clinic = Clinic().turn().order(COURIER, veto="most", path=path, message=words).turn()
    assert all("-mail-" in name for name in clinic.made)
    (event,) = [e for e in clinic.events if e["reason"] == "OrderRefused"]
    assert event["involvedObject"]["kind"] == constants.MEMBER_KIND
    assert words in event["message"]
    assert words in clinic.condition("Allowed")["message"]


@pytest.mark.parametrize("code", [47, 48])
def test_a_client_that_refuses_or_does_not_trust_an_order_is_quoted_and_not_tried_again(
    code: int,
) -> None:
    words = "order 1: it is another letter than the one that was taken on"
    clinic = at_work().end(CLIENT, code, json.dumps({"event": "stopped", "message": words}))
    clinic.turn()
    assert clinic.member["status"]["current"]["message"] == words
    assert clinic.member["status"]["current"]["state"] == "Failed"
    assert [name for name in clinic.made if "-mail-" not in name] == [CLIENT]
    rule = clinic.jobs[CLIENT]["spec"]["podFailurePolicy"]["rules"][0]
    assert (rule["action"], code in rule["onExitCodes"]["values"]) == ("FailJob", True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"experienceStorage": None}, "spec.experienceStorage: got nothing, expected the silo's"),
        ({"signingSecret": None}, "spec.signingSecret: got nothing, expected a Secret"),
        (
            {"agreed": {**AGREED, "settings": {"aggregation": {"secure": {}}}}},
            "spec.maskingSecret: got nothing, expected a Secret with the silo's masking key",
        ),
        (
            {"podTemplate": {"spec": {"hostNetwork": True}}},
            "spec.podTemplate.spec.hostNetwork: got true",
        ),
        (
            {
                "experienceStorage": {
                    "s3": {"bucket": "private", "caSecret": {"name": "a", "key": "pw"}}
                }
            },
            "spec.experienceStorage.s3.caSecret.key: got 'pw'",
        ),
    ],
)
def test_a_member_that_could_carry_out_no_order_takes_none_and_says_why(
    changes: dict[str, Any], sentence: str
) -> None:
    clinic = Clinic(make_silo(**changes)).turn()
    assert clinic.made == []
    shown = clinic.condition("Accepted")
    assert (shown["status"], shown["reason"]) == ("False", "Invalid")
    assert shown["message"].startswith(sentence)
    assert clinic.member["status"]["phase"] == "Failed"
    FederationMember.model_validate(clinic.member)


def test_a_template_may_mount_no_signing_key() -> None:
    volume = {"name": "key", "secret": {"secretName": "hansa-signing"}}
    silo = make_silo(podTemplate={"spec": {"volumes": [volume]}})
    (refusal,) = KINDS[constants.MEMBER_KIND].refusals(silo, PodAllowlist())
    assert refusal.path == "spec.podTemplate.spec.volumes[0].secret.secretName"


def test_only_couriers_sign_and_only_clients_open_the_private_store() -> None:
    clinic = at_work()
    shared = {"exchange", "exchange-tls"}
    assert secrets(clinic.jobs[COURIER]) == {*shared, "hansa-signing"}
    assert secrets(clinic.jobs[CLIENT]) == {*shared, "private", "private-tls"}
    asked = consents(clinic.jobs[COURIER])
    assert asked == dict.fromkeys((*shared, "hansa-signing"), "hansa.five.member.courier")
    asked = consents(clinic.jobs[CLIENT])
    wanted = (*shared, "private", "private-tls")
    assert asked == dict.fromkeys(wanted, "hansa.five.member.client")


def test_only_clients_have_the_key_of_the_silos_endpoint() -> None:
    secret = {"name": "turns", "key": "key"}
    endpoint = {"url": "https://turns.example", "server": "vllm", "apiKeySecret": secret}
    clinic = at_work(endpoint=endpoint)
    assert "turns" not in {*secrets(clinic.jobs[COURIER]), *consents(clinic.jobs[COURIER])}
    assert "turns" in secrets(clinic.jobs[CLIENT])
    assert consents(clinic.jobs[CLIENT])["turns"] == "hansa.five.member.client"
    (variable,) = [e for e in container(clinic.jobs[CLIENT])["env"] if e["name"] == ENV_API_KEY]
    assert variable["valueFrom"] == {"secretKeyRef": secret}


def test_only_clients_have_the_silos_masking_key() -> None:
    clinic = at_work(maskingSecret={"name": "masks"})
    assert "masks" not in {*secrets(clinic.jobs[COURIER]), *consents(clinic.jobs[COURIER])}
    assert "masks" in secrets(clinic.jobs[CLIENT])
    assert consents(clinic.jobs[CLIENT])["masks"] == "hansa.five.member.client"
    given = {"name": "HANSA_MASKING_KEY", "value": "/etc/hansa/masking/masking.key"}
    assert given in container(clinic.jobs[CLIENT])["env"]


def test_only_clients_have_the_key_that_a_silos_experience_is_sealed_to() -> None:
    """And with it no store of the silo's own is needed."""
    clinic = at_work(experienceStorage=None, experienceKeySecret={"name": "own"})
    assert "own" not in {*secrets(clinic.jobs[COURIER]), *consents(clinic.jobs[COURIER])}
    assert "own" in secrets(clinic.jobs[CLIENT])
    assert consents(clinic.jobs[CLIENT])["own"] == "hansa.five.member.client"
    given = {"name": "HANSA_EXPERIENCE_KEY", "value": "/etc/hansa/experience/sealing.key"}
    assert given in container(clinic.jobs[CLIENT])["env"]


def test_a_consent_to_a_member_is_none_to_any_federation() -> None:
    """Names of federations and environments have no dots."""
    for signs in (True, False):
        assert consent.build_member_key("five", signs=signs).count(".") == 3
    assert consent.build_key("five", "member").count(".") == 2


def test_a_job_ends_with_the_owners_limit_and_waits_in_the_owners_queue() -> None:
    clinic = at_work(limits={"jobSeconds": 900}, queueName="gpu", startTimeoutSeconds=60)
    spec = clinic.jobs[CLIENT]["spec"]
    assert (spec["activeDeadlineSeconds"], spec["suspend"]) == (960, True)
    assert clinic.jobs[CLIENT]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    assert "suspend" not in clinic.jobs[COURIER]["spec"]


@pytest.mark.parametrize("name", [COURIER, CLIENT])
def test_a_silos_job_is_exactly_its_golden_file(name: str) -> None:
    job = at_work().jobs[name]
    images = {"server": "hansa-server:golden", "client": "hansa-client:golden"}
    program = container(job)
    program["image"] = images[program["name"]]
    program["env"] = [
        {**each, "value": program["image"]} if each["name"] == "HANSA_IMAGE" else each
        for each in program["env"]
    ]
    program["env"][0]["value"] = "<what it is told>"
    kept = ("name", "namespace", "labels", "ownerReferences")
    shown = {**job, "metadata": {each: job["metadata"][each] for each in kept}}
    shown.pop("status")
    file = GOLDEN / f"silo-{program['name']}.yaml"
    if os.environ.get("HANSA_UPDATE_GOLDEN") == "1":
        file.write_text(yaml.safe_dump(shown, sort_keys=False, width=100))
    assert shown == yaml.safe_load(file.read_text())


def test_a_federation_and_a_member_of_one_name_do_not_see_each_others_jobs() -> None:
    index, clinic = Index(), Clinic().turn()
    index.see("jobs", clinic.jobs[COURIER])
    assert list(index.get(KEY).jobs) == [COURIER]
    assert index.get(Key("clinic", "five", constants.KIND)).jobs == {}


def test_killed_at_any_moment_the_next_operator_makes_the_same_jobs_each_once() -> None:
    whole = at_work().report(CLIENT, REPORT).turn()
    moments = 0
    for moment in range(100):
        clinic = Clinic()
        clinic.dies_after = moment
        for stage in ("new", "ordered", "worked"):
            if stage == "ordered":
                clinic.order(COURIER)
            elif stage == "worked":
                clinic.report(CLIENT, REPORT)
            try:
                clinic.turn()
            except Died:
                clinic.dies_after = None
                moments += 1
                clinic.turn()
        assert (clinic.made, clinic.member["status"]) == (whole.made, whole.member["status"])
        if clinic.dies_after is not None:
            break
    assert moments > 10


def test_a_suspended_member_has_no_job_that_runs() -> None:
    clinic = at_work()
    clinic.member["spec"]["suspend"] = True
    clinic.turn()
    assert clinic.jobs.keys() == {COURIER}, "which has ended; its log may be read"
    assert clinic.condition("Working")["reason"] == "Suspended"


@pytest.mark.parametrize(
    ("defined", "missing"),
    [
        ([constants.PLURAL, constants.MEMBER_PLURAL, f"{constants.PLURAL}/status"], ""),
        ([constants.PLURAL], "got no federationmembers, expected what `hansa crd` prints"),
        ([], "got no federations and no federationmembers, expected"),
    ],
)
def test_the_operator_waits_until_both_kinds_are_defined(
    monkeypatch: pytest.MonkeyPatch, defined: list[str], missing: str
) -> None:
    resources = {"resources": [{"name": name} for name in defined]}
    kube = SimpleNamespace(namespace="clinic", get=lambda path: resources)
    monkeypatch.setattr(operate, "connect", lambda **how: kube)
    shown = operate.Operator(Settings(metrics_port=0))._find_missing_crds()
    assert missing in shown and bool(missing) == bool(shown)
