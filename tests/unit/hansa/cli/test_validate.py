"""`hansa validate`: what is allowed, and yet worth knowing before a run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.cli.common import Format
from hansa.cli.validate import list_notes, validate
from hansa.core.errors import InputError
from tests.support.builders import make_federation
from tests.support.members import member

OWN = {"bucket": "own", "credentialsSecret": {"name": "own"}}
ON_A_CLUSTER: dict[str, Any] = {
    "signingSecret": {"name": "signing"},
    "experienceStorage": {"s3": {**OWN, "endpoint": "http://store.clinic"}},
}
"""What a cluster needs of a silo beside what `hansa join` does."""


def silo(folder: Path, **changes: Any) -> Path:
    """A file with the manifest of a silo."""
    metadata = {"name": "clinic", "namespace": "wards"}
    kind = {"apiVersion": "hansa.dev/v1alpha1", "kind": "FederationMember", "metadata": metadata}
    file = folder / "member.yaml"
    file.write_text(yaml.safe_dump({**kind, "spec": member(**changes).to_json()}))
    return file


@pytest.mark.parametrize(
    "step, warned",
    [
        pytest.param(1.0, False, id="the mean itself"),
        pytest.param(3.0, False, id="the sum of all changes"),
        pytest.param("auto", False, id="one that fits itself"),
        pytest.param(3.5, True, id="more than the sum"),
        pytest.param(100, True, id="the largest there is"),
    ],
)
def test_a_server_step_beyond_the_sum_of_all_changes_is_noted(step: Any, warned: bool) -> None:
    federation = make_federation("a", "b", "c", aggregation={"serverStep": step})
    said = [note for note in list_notes(federation) if "serverStep" in note]
    assert bool(said) is warned
    if warned:
        assert said[0].startswith(
            f"spec.aggregation.serverStep: {float(step):g} is more than the sum of what 3 "
            "environments change"
        )


def test_where_nothing_is_merged_no_step_is_too_long() -> None:
    alone = {"strategy": "none", "serverStep": 100}
    assert not [n for n in list_notes(make_federation("a", aggregation=alone)) if "serverStep" in n]


def test_a_silos_manifest_is_valid_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = silo(tmp_path)
    validate(file)
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out == (
        f"{file}: valid, clinic takes part in five as clinic, in world maze, for 3 rounds on "
        "builtin:tiny\n"
    )


def test_a_silo_without_what_a_cluster_needs_is_refused_there_by_its_own_fields(
    tmp_path: Path,
) -> None:
    container = {"name": "client", "securityContext": {"privileged": True}}
    template = {"spec": {"hostNetwork": True, "containers": [container]}}
    with pytest.raises(InputError) as refused:
        validate(silo(tmp_path, podTemplate=template), cluster=True)
    sentences = refused.value.message.splitlines()
    assert [line.partition(":")[0] for line in sentences[:2]] == [
        "spec.experienceStorage",
        "spec.signingSecret",
    ]
    assert any(line.startswith("spec.podTemplate.spec.hostNetwork") for line in sentences)
    assert "environments" not in refused.value.message


def test_a_silos_secrets_consent_to_its_clients_or_its_couriers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = {"s3": {"bucket": "shared", "credentialsSecret": {"name": "exchange"}}}
    validate(silo(tmp_path, storage=shared, **ON_A_CLUSTER), cluster=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.strip() for line in lines if "kubectl" in line] == [
        "kubectl -n wards patch secret exchange --type=merge -p "
        """'{"stringData":{"hansa.clinic.member.client":"yes","""
        """"hansa.clinic.member.courier":"yes"}}'""",
        "kubectl -n wards patch secret own --type=merge -p "
        """'{"stringData":{"hansa.clinic.member.client":"yes"}}'""",
        "kubectl -n wards patch secret signing --type=merge -p "
        """'{"stringData":{"hansa.clinic.member.courier":"yes"}}'""",
    ]
    [note] = [line for line in lines if "encrypted" in line]
    assert note.startswith("note: spec.experienceStorage.s3.endpoint: http://store.clinic is not")


def test_a_silos_manifest_is_printed_with_all_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    validate(silo(tmp_path), output=Format.YAML)
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["spec"]["limits"]["jobSeconds"] == 7200
    assert printed["metadata"] == {"name": "clinic", "namespace": "wards"}
    assert "status" not in printed
