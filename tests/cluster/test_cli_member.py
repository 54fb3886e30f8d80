"""Commands about a silo's part on a real apiserver: status, logs, suspend and resume."""

import json

import pytest

from hansa.api import constants
from hansa.kubernetes import paths
from tests.cluster import members
from tests.cluster.cli import Typist, make_job
from tests.support.clinic import working

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SILO = "clinic"


@pytest.fixture
def owner(typist: Typist) -> Typist:
    """Somebody who owns a silo that works on an order; the test is its operator."""
    typist.cluster.apply(members.manifest(SILO))
    clinic = working().post()
    clinic.set(clinic.job, "running").turn()
    path = paths.members(typist.cluster.namespace, SILO)
    found = typist.kube.get(path)
    typist.kube.replace(f"{path}/status", {**found, "status": clinic.status.to_json()})
    return typist


def labels(role: str, environment: str = "") -> dict[str, str]:
    return {
        constants.LABEL_MEMBER: SILO,
        constants.LABEL_ROLE: role,
        constants.LABEL_ROUND: "1",
        constants.LABEL_ATTEMPT: "1",
        **({constants.LABEL_ENVIRONMENT: environment} if environment else {}),
    }


def test_status_is_the_silos_page(owner: Typist) -> None:
    done = owner.hansa("status", "--member", SILO)
    assert done.code == 0, done.err
    assert f"{SILO}: Working, takes part in five as clinic, in world maze" in done.out
    for text in (
        "order 1, client of round 1: Working since",
        "used 1 of 3 rounds, 164 of 592 episodes at most",
        "Connected  True    ",
        "leaves: s3://shared/five/answers/clinic/",
        "stays:  s3://own/experience/clinic/",
    ):
        assert text in done.out, done.out
    whole = json.loads(owner.hansa("status", "--member", SILO, "-o", "json").out)
    assert (whole["kind"], whole["metadata"]["name"]) == (constants.MEMBER_KIND, SILO)


def test_status_lists_members_beside_federations(owner: Typist) -> None:
    titles, row = owner.hansa("status").out.splitlines()
    assert titles.split() == [
        *("MEMBER", "FEDERATION", "PHASE", "ROUND", "ORDER", "SUCCESS", "AGE")
    ]
    assert row.split()[:5] == [SILO, "five", "Working", "1", "1"]


def test_a_wrong_name_and_two_names_are_refused_in_a_sentence(owner: Typist) -> None:
    wrong = owner.hansa("status", "--member", "clinik")
    assert wrong.code == 2
    assert "federationmember clinik: there is none in namespace" in wrong.err
    assert f"there is: {SILO}" in wrong.err
    both = owner.hansa("suspend", "fed", "--member", SILO)
    assert (both.code, both.err.splitlines()[0]) == (
        2,
        f"error: got fed and --member {SILO}, expected one of them",
    )
    assert "got neither a name nor --member" in owner.hansa("suspend").err


def test_suspend_and_resume_change_one_field_of_a_member(owner: Typist) -> None:
    done = owner.hansa("suspend", "--member", SILO)
    assert done.out == f"federationmember/{SILO} suspended\n"
    assert f"`hansa resume --member {SILO} -n {owner.cluster.namespace}`" in done.err
    assert owner.cluster.get("hmem", SILO)["spec"]["suspend"] is True
    assert "unchanged (suspended before)" in owner.hansa("suspend", "--member", SILO).out
    assert owner.hansa("resume", "--member", SILO).out == f"federationmember/{SILO} resumed\n"
    assert owner.cluster.get("hmem", SILO)["spec"]["suspend"] is False


def test_logs_are_those_of_the_silos_own_jobs(owner: Typist) -> None:
    assert "no Pod fits" in owner.hansa("logs", "--member", SILO).err
    job = make_job("clinic-silo-r1-s1-a1", labels("client", "clinic"), "say", "hello from maze")
    owner.cluster.apply(job)
    owner.cluster.until(
        lambda: "hello from maze" in owner.hansa("logs", "--member", SILO).out, "its log is read"
    )
    assert "hello from maze" in owner.hansa("logs", "--member", SILO, "-e", "clinic").out
    assert "no Pod fits" in owner.hansa("logs", "--member", SILO, "-e", "courier").err
    wrong = owner.hansa("logs", "--member", SILO, "-e", "maze")
    assert "--environment: got 'maze', expected one of clinic" in wrong.err
