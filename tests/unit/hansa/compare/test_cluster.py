"""A comparison's runs as Federations of a cluster: named, placed, and looked for again."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api.status import Federation
from hansa.compare import cluster, comparison
from hansa.compare.comparison import CheckedComparison
from hansa.core.errors import InputError
from tests.support.builders import NOW
from tests.support.commands import call
from tests.support.comparison_manifest import FEDERATION

METHODS = ["pre-trained", "fed-se", {"name": "fed-se+x"}, {"name": "fed-se.x"}, "centralized"]


def write(folder: Path, methods: list[Any] = METHODS, **spec: Any) -> Path:
    federation = {**FEDERATION, "spec": {**FEDERATION["spec"], **spec}}
    (folder / "federation.yaml").write_text(json.dumps(federation))
    path = folder / "compare.yaml"
    fields = {"federation": "federation.yaml", "seeds": [1, 2], "methods": methods}
    path.write_text(json.dumps(fields))
    return path


@pytest.fixture
def wanted(tmp_path: Path) -> CheckedComparison:
    place = {"s3": {"bucket": "bucket", "prefix": "lab", "credentialsSecret": {"name": "lab"}}}
    return comparison.read(write(tmp_path, storage=place), here=False)


def test_every_run_that_trains_is_a_federation_with_a_name_and_a_prefix_of_its_own(
    wanted: CheckedComparison,
) -> None:
    made = cluster.make_manifests(wanted, wanted.runs)
    names = [document["metadata"]["name"] for document in made]
    assert len(set(names)) == len(names) == 8
    assert "two-fed-se-1" in names
    for document in made:
        federation = Federation.model_validate(document)
        name = federation.metadata.name
        assert federation.spec.storage and federation.spec.storage.s3.prefix == f"lab/{name}"
        assert federation.metadata.labels == {"hansa.dev/comparison": "two"}
    one = next(run for run in wanted.runs if run.id == "fed-se-2")
    spec = Federation.model_validate(made[names.index("two-fed-se-2")]).spec
    own = {e.credentials_secret.name for e in spec.environments if e.credentials_secret}
    assert own == {"lab"}, "nobody gets the aggregator's unsaid"
    plain = [e.model_copy(update={"credentials_secret": None}) for e in spec.environments]
    update = {"storage": None, "environments": plain}
    assert spec.model_copy(update=update) == one.federation.spec


def test_without_a_store_there_is_nowhere_to_run(tmp_path: Path) -> None:
    wanted = comparison.read(write(tmp_path, storage=None), here=False)
    with pytest.raises(InputError, match=r"spec\.storage: got nothing, expected storage\.s3"):
        cluster.make_manifests(wanted, wanted.runs)


def test_worlds_that_take_no_part_are_not_for_a_cluster(tmp_path: Path) -> None:
    entry = {"name": "unseen", "without": ["maze"]}
    unseen = comparison.read(write(tmp_path, methods=[entry]), here=False)
    with pytest.raises(InputError, match="unseen: got `without`, and a cluster scores no world"):
        cluster.make_manifests(unseen, unseen.runs)


def test_what_is_not_over_says_how_far_it_is(wanted: CheckedComparison) -> None:
    made = cluster.make_manifests(wanted, wanted.runs)
    objects = {d["metadata"]["name"]: {**d, "status": {}} for d in made}
    objects["two-fed-se-1"]["status"] = {"phase": "Running", "completed": 2}
    del objects["two-fed-se-2"]
    found, missing = cluster.collect(wanted, wanted.runs, objects, pytest.fail)
    assert found == [] and len(missing) == len(wanted.runs)
    assert missing["fed-se-1"] == "it is Running, after 2 of 3 rounds"
    assert missing["fed-se-2"] == "it is not on the cluster"
    assert missing["centralized-1"] == "it is Pending, after 0 of 3 rounds"
    assert missing["pre-trained-1"] == "no other run of its seed is over"


def test_a_status_of_another_version_is_named(wanted: CheckedComparison) -> None:
    (document, *_) = cluster.make_manifests(wanted, wanted.runs)
    status = {"phase": "Succeeded", "round": "many"}
    dated = {**document["metadata"], "creationTimestamp": NOW.isoformat()}
    objects = {dated["name"]: {**document, "metadata": dated, "status": status}}
    with pytest.raises(InputError, match=r"two-fed-se-1: status\.round: ") as error:
        cluster.collect(wanted, wanted.runs, objects, pytest.fail)
    assert "another version" in error.value.hint


def test_a_federation_of_another_spec_is_named_by_its_field(wanted: CheckedComparison) -> None:
    (document, *_) = cluster.make_manifests(wanted, wanted.runs)
    dated = {**document["metadata"], "creationTimestamp": NOW.isoformat()}
    spec = {**document["spec"], "rounds": 9}
    ended = {**document, "metadata": dated, "spec": spec, "status": {"phase": "Succeeded"}}
    with pytest.raises(InputError, match=r"two-fed-se-1: was made with spec\.rounds 9, .* says 3"):
        cluster.collect(wanted, wanted.runs, {dated["name"]: ended}, pytest.fail)


def test_the_manifests_are_printed_for_kubectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path)
    code, out, _ = call(capsys, "compare", file, "--manifests", "--only", "fed-se")
    assert code == 0
    printed = [document for document in yaml.safe_load_all(out) if document]
    assert [document["metadata"]["name"] for document in printed] == [
        "two-fed-se-1",
        "two-fed-se-2",
    ]
    code, _, err = call(capsys, "compare", file, "--manifests", "--collect")
    assert code == 2
    assert "got --manifests and --collect, expected one of them" in err
