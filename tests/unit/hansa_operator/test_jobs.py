"""Jobs as the cluster gets them, each shown whole in a golden file.

HANSA_UPDATE_GOLDEN=1 writes the files anew; read their diff before you keep it.
"""

import os
from dataclasses import replace

import pytest
import yaml

from hansa.api.assignment import decode_assignment
from hansa.api.spec import Participation
from hansa.kubernetes.pod_policy.refusals import VARIABLE_LIMIT
from hansa_operator.jobs import JobRefused, build_manifest
from hansa_operator.settings import Settings
from tests.unit.hansa_operator.jobcases import (
    ADMIN,
    CASES,
    DEFAULTS,
    FULL,
    GOLDEN,
    MAZE,
    requests_of,
    unknown_fields,
)
from tests.unit.hansa_operator.objects import (
    advance,
    build_job,
    container,
    make_federation,
    make_request,
)


def test_modules_that_options_may_name_come_from_the_operator_and_reach_clients_only() -> None:
    settings = Settings(world_modules=("my_package.envs", "other:Env"))
    given = {"name": "HANSA_WORLD_MODULES", "value": "my_package.envs,other:Env"}
    assert given in container(build_job(make_federation(), settings, "client"))["env"]
    assert given not in container(build_job(make_federation(), settings, "aggregator"))["env"]


@pytest.mark.parametrize("name", CASES)
def test_a_job_is_exactly_its_golden_file(name: str) -> None:
    federation, settings, role = CASES[name]
    images = {"client_image": "hansa-client:golden", "server_image": "hansa-server:golden"}
    job = build_job(federation, replace(settings, **images), role)
    variable = container(job)["env"][0]
    assert decode_assignment(variable["value"]) == make_request(federation, role).assignment
    variable["value"] = "<the assignment>"
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("HANSA_UPDATE_GOLDEN") == "1":
        file.write_text(yaml.safe_dump(job, sort_keys=False, width=100))
    assert job == yaml.safe_load(file.read_text())


@pytest.mark.parametrize("name", CASES)
def test_kubernetes_knows_every_field_of_a_job(name: str) -> None:
    from kubernetes import client

    assert unknown_fields(build_job(*CASES[name]), client.V1Job, client) == []


def test_building_twice_gives_equal_jobs_and_changes_no_input() -> None:
    before = FULL.model_dump_json()
    assert build_job(FULL, ADMIN) == build_job(FULL, ADMIN)
    assert FULL.model_dump_json() == before


@pytest.mark.parametrize("text", ["$(HOME)", "cost $$5", "^a$", "$($x"])
def test_the_kubelet_hands_on_dollar_signs_as_they_were(text: str) -> None:
    environment = {**MAZE, "options": {"text": text}}
    job = build_job(make_federation(environment))
    text_ = _expanded(container(job)["env"][0]["value"], {"HOME": "/tmp"})
    assert decode_assignment(text_).options == {"text": text}


def _expanded(value: str, known: dict[str, str]) -> str:
    """Kubernetes' third_party/forked/golang/expansion, in short."""
    out, i = "", 0
    while i < len(value):
        if value[i] == "$" and i + 1 < len(value):
            if value[i + 1] == "$":
                out, i = out + "$", i + 2
                continue
            end = value.find(")", i)
            if value[i + 1] == "(" and end > 0:
                name = value[i + 2 : end]
                out, i = out + known.get(name, f"$({name})"), end + 1
                continue
        out, i = out + value[i], i + 1
    return out


def test_an_assignment_that_no_process_could_start_with_is_refused() -> None:
    environment = {**MAZE, "options": {"text": "x" * VARIABLE_LIMIT}}
    with pytest.raises(JobRefused, match=r"spec\.environments\[0\]\.options: got an assignment of"):
        build_job(make_federation(environment))


def test_the_largest_aggregator_fits_into_a_variable() -> None:
    environments = [{"name": f"{'e' * 27}{i:03d}", "world": "maze"} for i in range(100)]
    job = build_job(make_federation(*environments), role="aggregator")
    assert len(container(job)["env"][0]["value"]) < VARIABLE_LIMIT / 4


def test_the_deadline_is_that_of_the_open_round_not_of_a_later_edit() -> None:
    ready, request = advance(make_federation(), "client")
    longer = Participation(round_timeout_seconds=9999)
    edited = ready.model_copy(
        update={"spec": ready.spec.model_copy(update={"participation": longer})}
    )
    assert (
        build_manifest(request, edited, Settings())["spec"]["activeDeadlineSeconds"] == 3600 + 600
    )


def test_a_silo_that_evolves_on_alone_may_take_as_long_as_all_rounds() -> None:
    job = build_job(make_federation(rounds=2, personalization="best"), role="evaluate")
    assert job["spec"]["activeDeadlineSeconds"] == 3 * 3600 + 600


def test_a_silo_that_evolves_alone_anew_may_take_as_long_as_all_rounds() -> None:
    job = build_job(make_federation(rounds=2, evaluation={"alone": True}), role="evaluate")
    assert job["spec"]["activeDeadlineSeconds"] == 3 * 3600 + 600


def test_a_new_attempt_uses_the_newest_pod_template() -> None:
    ready, request = advance(make_federation(), "client")
    edited = ready.model_copy(
        update={"spec": ready.spec.model_copy(update={"pod_template": DEFAULTS})}
    )
    assert (
        container(build_manifest(request, edited, ADMIN))["resources"]["limits"]["memory"] == "4Gi"
    )


def test_a_model_cache_is_used_where_the_user_mounts_it() -> None:
    template = {
        "spec": {
            "volumes": [{"name": "model-cache", "emptyDir": {}}],
            "containers": [
                {
                    "name": "client",
                    "volumeMounts": [{"name": "model-cache", "mountPath": "/models"}],
                }
            ],
        }
    }
    made = container(build_job(make_federation({**MAZE, "podTemplate": template})))
    assert {"name": "HANSA_MODEL_CACHE", "value": "/models"} in made["env"]
    assert [m["mountPath"] for m in made["volumeMounts"]] == ["/tmp", "/models"]


def test_a_refused_template_stops_its_environment_and_no_other() -> None:
    bad = {"spec": {"hostNetwork": True}}
    wordle = {"name": "wordle", "world": "wordle"}
    federation = make_federation({**MAZE, "podTemplate": bad}, wordle)
    ready, _ = advance(federation, "client")
    maze, other = requests_of(federation)
    with pytest.raises(JobRefused) as refused:
        build_manifest(maze, ready, Settings())
    assert [r.environment for r in refused.value.refusals] == ["maze"]
    assert "hostNetwork: got true" in refused.value.message
    assert build_manifest(other, ready, Settings())
    assert build_job(federation, role="aggregator")
