"""`hansa validate --cluster` refuses what the operator makes no Job from, in the same words."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.api.status import Federation
from hansa.core.errors import InputError, PermanentError
from hansa.kubernetes.pod_policy.shapes import PodAllowlist
from hansa_operator.jobs import JobRefused
from hansa_operator.kinds import KINDS
from tests.support.bad_manifests import BAD, Bad
from tests.support.commands import call
from tests.support.pod_templates import cases, two_silos
from tests.unit.hansa_operator.objects import build_job, make_federation

DEFAULTS = "settings.allowedSecrets, settings.allowedTolerations and the other settings.allowed..."
FEDERATIONS = {
    "options that no variable holds": make_federation(
        {"name": "maze", "world": "maze", "options": {"text": "x" * 200_000}}
    ),
    "a default for all with a silo's Secret": two_silos(
        {}, {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "hansa-maze"}}]}}
    ),
    "a default for all that reaches the node": make_federation(
        podTemplate={"spec": {"hostNetwork": True, "hostPID": True}}
    ),
}


def validate(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    given: Federation | dict[str, Any],
    *options: str,
) -> tuple[int, str, str]:
    file = folder / "manifest.json"
    document = given if isinstance(given, dict) else given.to_json()
    document.pop("status", None)
    file.write_text(json.dumps(document))
    return call(capsys, "validate", *options, file)


def list_refusals(federation: Federation) -> list[str]:
    """What the operator says when it is to make a Job."""
    with pytest.raises(JobRefused) as refused:
        build_job(federation)
    return [refusal.sentence for refusal in refused.value.refusals]


def check(capsys: pytest.CaptureFixture[str], folder: Path, federation: Federation) -> str:
    code, out, err = validate(capsys, folder, federation, "--cluster")
    error, _, hint = err.partition("\n\nhint: ")
    sentences = error.rpartition("error: ")[2]
    assert (code, out) == (2, "")
    assert sentences.rstrip("\n").split("\n") == list_refusals(federation)
    return hint


@pytest.mark.parametrize("row", cases("refusals.yaml"))
def test_a_pod_template_is_refused_as_the_operator_refuses_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, row: dict[str, Any]
) -> None:
    check(capsys, tmp_path, two_silos(row["spec"]))


@pytest.mark.parametrize("case", FEDERATIONS)
def test_a_federation_is_refused_as_the_operator_refuses_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str
) -> None:
    check(capsys, tmp_path, FEDERATIONS[case])


@pytest.mark.parametrize("bad", [bad for bad in BAD if bad.only_on_a_cluster], ids=str)
def test_what_only_a_cluster_refuses_is_valid_without_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, bad: Bad
) -> None:
    code, out, err = validate(capsys, tmp_path, bad.manifest(), "--cluster")
    assert (code, out) == (2, "")
    assert f"error: {bad.said[0]}" in err
    assert validate(capsys, tmp_path, bad.manifest())[0] == 0


@pytest.mark.parametrize(
    "bad", [bad for bad in BAD if bad.only_on_a_cluster or bad.operator], ids=str
)
def test_the_operator_refuses_it_in_the_same_words(bad: Bad) -> None:
    document = bad.manifest()
    kind = KINDS[bad.kind]
    with pytest.raises((InputError, PermanentError)) as refused:
        thing = kind.read(document)
        if refusals := kind.refusals(thing, PodAllowlist()):
            raise JobRefused(refusals)
        build_job(thing)
    assert refused.value.message.startswith(bad.said[0])


@pytest.mark.parametrize(
    "spec, is_named",
    [
        pytest.param({"imagePullSecrets": [{"name": "regcred"}]}, True, id="a Secret"),
        pytest.param({"serviceAccountName": "irsa"}, True, id="a ServiceAccount"),
        pytest.param({"tolerations": [{"key": "gpu"}]}, True, id="a taint"),
        pytest.param({"hostNetwork": True}, False, id="what no setting allows"),
    ],
)
def test_the_settings_that_were_assumed_are_named_where_they_matter(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, spec: dict[str, Any], is_named: bool
) -> None:
    assert (DEFAULTS in check(capsys, tmp_path, two_silos(spec))) is is_named


def test_the_lines_by_which_secrets_consent_are_said_for_a_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, _, err = validate(capsys, tmp_path, two_silos({}), "--cluster")
    assert "note: a Secret consents to its use by a key in it" in err
    for secret, party in (("s3", "aggregator"), ("maze", "maze"), ("wordle", "wordle")):
        patch = f"""'{{"stringData":{{"hansa.fed.{party}":"yes"}}}}'"""
        line = f"kubectl -n silos patch secret hansa-{secret} --type=merge -p {patch}"
        assert f"  {line}\n" in err
    assert "kubectl" not in validate(capsys, tmp_path, two_silos({}))[2]


def test_what_the_operator_takes_is_valid(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    harmless = {"nodeSelector": {"gpu": "a100"}, "securityContext": {"fsGroup": 1000}}
    federation = two_silos(harmless)
    assert build_job(federation)
    code, out, _ = validate(capsys, tmp_path, federation, "--cluster")
    assert (code, "valid, fed has 2 environments" in out) == (0, True)
