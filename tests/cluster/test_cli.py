"""The commands on a real apiserver; the tests write the statuses that an operator would write."""

import json
import os
import subprocess
from typing import Any

import pytest

from hansa.api import constants
from hansa.kubernetes import paths
from tests.cluster.cli import NAME, Typist, labels, make_job, manifest
from tests.cluster.kube import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


# -- apply ----------------------------------------------------------------------------------------


def test_apply_says_what_it_did_and_what_comes_next(typist: Typist) -> None:
    dry = typist.apply(manifest(), "--dry-run")
    assert (dry.code, dry.out) == (0, f"federation/{NAME} created (server dry run)\n")
    assert typist.hansa("status", NAME).code == 2, "a dry run keeps nothing"
    made = typist.apply(manifest())
    assert (made.code, made.out) == (0, f"federation/{NAME} created\n")
    assert f"`hansa watch {NAME} -n {typist.cluster.namespace}`" in made.err
    assert typist.apply(manifest()).out == f"federation/{NAME} unchanged\n"
    grown = typist.apply(manifest(rounds=5))
    assert grown.out == f"federation/{NAME} configured\n"
    assert "spec.rounds: 2 -> 5" in grown.err
    assert typist.get()["spec"]["rounds"] == 5


def test_apply_reads_standard_input_and_prints_the_object(typist: Typist) -> None:
    done = typist.hansa("apply", "-f", "-", "-o", "json", stdin=json.dumps(manifest()))
    assert done.code == 0, done.err
    assert json.loads(done.out)["metadata"]["namespace"] == typist.cluster.namespace


@pytest.mark.parametrize(
    "change, sentence",
    [
        pytest.param({"rounds": 0}, "spec.rounds: got 0", id="found here"),
        pytest.param({"seed": 8}, "spec.seed", id="found by the cluster: immutable"),
        pytest.param({"storage": None}, "spec.storage: got nothing", id="a cluster needs a store"),
    ],
)
def test_a_bad_manifest_is_refused_in_one_sentence(
    typist: Typist, change: dict[str, Any], sentence: str
) -> None:
    assert typist.apply(manifest()).code == 0
    document = manifest(**change)
    document["spec"] = {key: value for key, value in document["spec"].items() if value is not None}
    done = typist.apply(document)
    assert done.code == 2
    assert done.out == ""
    [error] = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert sentence in error


def test_fields_of_another_tool_are_named_and_can_be_taken_over(typist: Typist) -> None:
    typist.cluster.apply(manifest())
    done = typist.apply(manifest(rounds=5))
    assert done.code == 2
    assert "spec.rounds belongs to kubectl-client-side-apply" in done.err
    assert typist.apply(manifest(rounds=5), "--force-conflicts").out.endswith("configured\n")


def test_what_hansa_suspend_set_can_be_applied_away(typist: Typist) -> None:
    typist.apply(manifest())
    assert typist.hansa("suspend", NAME).code == 0
    assert "it is suspended" in typist.apply(manifest()).err, "the manifest does not speak of it"
    assert typist.apply(manifest(suspend=False)).out == f"federation/{NAME} configured\n"
    assert typist.get()["spec"]["suspend"] is False


# -- status ---------------------------------------------------------------------------------------


def test_status_tells_why_a_round_stands_still(typist: Typist) -> None:
    typist.apply(manifest())
    assert "no operator has looked at it yet" in typist.hansa("status", NAME).out
    typist.advance({"wordle": "starting"})
    shown = typist.hansa("status", NAME)
    assert shown.code == 0
    assert "Running, round 1 open since" in shown.out
    assert "waits for wordle (Starting); 1 of 2 have answered" in shown.out
    assert "then 2 of 2 answers are enough" in shown.out
    assert "two-worlds-r1-wordle-a1" in shown.out
    wide = typist.hansa("status", NAME, "-o", "wide").out
    assert "EXPERIENCE" in wide


def test_status_shows_the_events_of_the_federation_and_of_its_pods(typist: Typist) -> None:
    typist.apply(manifest())
    uid, space = typist.get()["metadata"]["uid"], typist.cluster.namespace
    about = {"kind": constants.KIND, "name": NAME, "namespace": space, "uid": uid}
    event = {
        "metadata": {"name": "one"},
        "involvedObject": about,
        "reason": "RoundOpened",
        "message": "round 1 opened for 2 environments",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    typist.kube.create(paths.events(space), event)
    assert "round 1 opened for 2 environments" in typist.hansa("status", NAME).out

    stuck = make_job(f"{NAME}-r1-maze-a1", labels("maze"), "say")
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
    typist.cluster.apply(stuck)
    typist.cluster.until(
        lambda: "FailedScheduling" in typist.hansa("status", NAME).out, "the Pod's event is shown"
    )


def test_status_lists_the_federations_of_a_namespace_or_of_all(typist: Typist) -> None:
    empty = typist.hansa("status")
    assert (empty.code, empty.out) == (0, "")
    assert f"no federation in namespace {typist.cluster.namespace}" in empty.err
    typist.apply(manifest())
    typist.advance({})
    titles, row = typist.hansa("status").out.splitlines()
    assert titles.split() == ["NAME", "PHASE", "ROUND", "UPDATES", "SUCCESS", "AGE"]
    assert row.split()[:3] == [NAME, "Running", "2/2"]
    everywhere = subprocess.run(
        typist.words("status", "-A"), env=typist.environment(), capture_output=True, text=True
    )
    assert typist.cluster.namespace in everywhere.stdout


def test_status_prints_the_object_for_programs(typist: Typist) -> None:
    typist.apply(manifest())
    assert json.loads(typist.hansa("status", NAME, "-o", "json").out) == typist.get()
    assert "kind: Federation" in typist.hansa("status", NAME, "-o", "yaml").out
    assert json.loads(typist.hansa("status", "-o", "json").out)["items"] == [typist.get()]


def test_a_wrong_name_is_answered_with_near_ones(typist: Typist) -> None:
    typist.apply(manifest())
    done = typist.hansa("status", "two-world")
    assert done.code == 2
    assert (
        f"federation two-world: there is none in namespace {typist.cluster.namespace}" in done.err
    )
    assert f"there is: {NAME}" in done.err


# -- suspend, resume, retry, delete ---------------------------------------------------------------


def test_suspend_and_resume_change_one_field(typist: Typist) -> None:
    typist.apply(manifest())
    assert typist.hansa("suspend", NAME).out == f"federation/{NAME} suspended\n"
    assert typist.get()["spec"]["suspend"] is True
    assert "unchanged (suspended before)" in typist.hansa("suspend", NAME).out
    assert "it is suspended: `hansa resume`" in typist.hansa("status", NAME).out
    assert typist.hansa("resume", NAME).out == f"federation/{NAME} resumed\n"
    assert typist.get()["spec"]["suspend"] is False


def test_retry_asks_once_more_only_after_a_failure(typist: Typist) -> None:
    typist.apply(manifest())
    typist.advance({"wordle": "starting"})
    assert "nothing has failed: it is Running" in typist.hansa("retry", NAME).out
    assert "annotations" not in typist.get()["metadata"]
    typist.hansa("delete", NAME)
    typist.apply(manifest())
    assert typist.advance({"maze": "failed"})["phase"] == "Failed"
    assert typist.hansa("retry", NAME).out == f"federation/{NAME} retried after round 1\n"
    assert typist.advance({})["round"] == 3, "the next number, and then one more"


def test_rollback_plays_the_rounds_behind_it_again(typist: Typist) -> None:
    typist.apply(manifest())
    typist.finish()
    refused = typist.hansa("rollback", NAME, "--to", "9")
    assert refused.code == 2
    assert "--to: got '9', expected a round whose adapter counts (0, 1, 2;" in refused.err
    done = typist.hansa("rollback", NAME, "--to", "1")
    assert done.out == f"federation/{NAME} goes back to round 1 (undoes 1 of 2 rounds)\n"
    status = typist.advance({"maze": "starting"})
    assert (status["round"], status["completed"]) == (3, 1)
    assert status["history"][2]["outcome"] == "undone"
    assert status["current"]["start"]["round"] == 1
    assert (
        "unchanged (it continues from round 1 already)"
        in typist.hansa("rollback", NAME, "--to", "1").out
    )
    typist.finish()
    assert typist.get()["status"]["adapter"]["round"] == 3


def test_delete_leaves_the_bucket_and_can_wait_for_the_pods(typist: Typist) -> None:
    typist.apply(manifest())
    job = typist.own(make_job(f"{NAME}-r1-maze-a1", labels("maze"), "sleep"))
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    typist.cluster.apply(job)
    done = typist.hansa("delete", NAME, "--wait", "--timeout", "100s")
    assert (done.code, done.out) == (0, f"federation/{NAME} deleted\n")
    assert f"s3://hansa/{NAME} is untouched" in done.err
    selector = f"{constants.LABEL_FEDERATION}={NAME}"
    assert typist.cluster.kubectl("get", "jobs,pods", "-l", selector, "-o", "name").stdout == ""
    assert typist.hansa("delete", NAME).code == 2


# -- who may, and kubectl -------------------------------------------------------------------------


def test_who_may_not_is_told_the_verb_and_the_resource(typist: Typist) -> None:
    space = typist.cluster.namespace
    token = typist.cluster.kubectl("create", "token", "default").stdout.strip()
    config = json.loads(
        typist.cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json").stdout
    )
    config["users"][0]["user"] = {"token": token}
    file = typist.folder / "restricted"
    file.write_text(json.dumps(config))
    done = typist.hansa("status", KUBECONFIG=str(file))
    assert done.code == 1
    who = f"system:serviceaccount:{space}:default"
    assert f"error: {who} may not list federations.hansa.dev in namespace {space}" in done.err
    rule = ("--verb=get,list", "--resource=federations.hansa.dev")
    assert typist.cluster.kubectl("create", "role", "reader", *rule).returncode == 0
    bound = ("--role=reader", f"--serviceaccount={space}:default")
    assert typist.cluster.kubectl("create", "rolebinding", "reader", *bound).returncode == 0
    typist.apply(manifest())
    shown = typist.hansa("status", NAME, KUBECONFIG=str(file))
    assert shown.code == 0, shown.err
    assert f"not shown: {who} may not list pods in namespace {space}" in shown.out
    refused = typist.hansa("suspend", NAME, KUBECONFIG=str(file))
    assert f"{who} may not patch federations.hansa.dev" in refused.err


def test_kubectl_finds_the_same_commands(typist: Typist) -> None:
    typist.apply(manifest())
    plugin = typist.folder / "kubectl-hansa"
    call = "from hansa.cli.main import kubectl_main; kubectl_main()"
    [python, *_] = typist.words()
    plugin.write_text(f"#!/bin/sh\nexec {python} -c '{call}' \"$@\"\n")
    plugin.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "tools/cluster"), "kubectl", "hansa", "status", "-n", typist.cluster.namespace],
        env=typist.environment(PATH=f"{typist.folder}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
    )
    assert NAME in done.stdout, done.stderr
    helped = subprocess.run([str(plugin), "--help"], capture_output=True, text=True)
    assert "kubectl hansa" in helped.stdout
