"""A step is one status write: plans that follow one another, until Jobs need it to be stored."""

from typing import Any

import pytest

from hansa.api import constants
from hansa.core.errors import InputError
from hansa_operator.kinds import KINDS
from hansa_operator.reconcile import plan_step
from tests.support.builders import NOW, make_job, with_status
from tests.unit.hansa_operator.objects import make_federation

TWO = ({"name": "maze", "world": "maze"}, {"name": "wordle", "world": "wordle"})


def test_the_first_step_opens_the_round_and_makes_no_job_before_that_is_stored() -> None:
    made = plan_step(make_federation(*TWO), [], NOW)
    assert made.status.current is not None
    assert made.goes_on
    assert made.create == []


def test_jobs_are_made_for_a_status_that_is_stored() -> None:
    opened = with_status(make_federation(*TWO), plan_step(make_federation(*TWO), [], NOW).status)
    made = plan_step(opened, [], NOW)
    assert [r.name for r in made.create] == ["fed-r1-maze-a1", "fed-r1-wordle-a1"]
    assert not made.goes_on


def test_closing_a_round_and_opening_the_next_is_one_write() -> None:
    federation, jobs = make_federation(*TWO), {}
    for _ in range(10):
        made = plan_step(federation, list(jobs.values()), NOW)
        if made.status.round == 2:
            break
        federation = with_status(federation, made.status)
        jobs |= {r.name: make_job(r, "succeeded") for r in made.create}
    reasons = [event.reason for _, link in made.links for event in link.events]
    assert reasons == ["RoundAggregated", "RoundOpened"]
    assert made.goes_on
    assert made.is_pressing


def test_a_status_that_only_tells_how_far_jobs_are_is_not_pressing() -> None:
    federation = with_status(
        make_federation(*TWO), plan_step(make_federation(*TWO), [], NOW).status
    )
    requests = plan_step(federation, [], NOW).create
    made = plan_step(federation, [make_job(r, "running") for r in requests], NOW)
    assert made.status != federation.status
    assert not made.is_pressing


def test_a_finished_federation_rests() -> None:
    federation, jobs = make_federation(*TWO), {}
    for _ in range(30):
        made = plan_step(federation, list(jobs.values()), NOW)
        federation = with_status(federation, made.status)
        jobs |= {r.name: make_job(r, "succeeded") for r in made.create}
    assert federation.status.phase == "Succeeded"
    assert (made.create, made.goes_on, made.links[-1][1].wake_at) == ([], False, None)


def body(**spec: Any) -> dict[str, Any]:
    thing = make_federation().to_json()
    return {**thing, "spec": {**thing["spec"], **spec}}


def test_an_object_of_the_api_is_read_with_whatever_else_its_metadata_has() -> None:
    thing = body()
    thing["metadata"] |= {"resourceVersion": "7", "managedFields": [], "creationTimestamp": "x"}
    assert KINDS[constants.KIND].read(thing).metadata.uid


@pytest.mark.parametrize(
    "thing, field",
    [
        pytest.param(body(rounds="many"), "spec.rounds", id="a value that does not fit"),
        pytest.param(body(color="red"), "spec.color", id="a field nobody knows"),
        pytest.param(
            {**body(), "status": {"round": "three"}}, "status.round", id="a status of nobody's"
        ),
        pytest.param(
            {
                **body(environments=[{"name": "gym", "world": "agentgym"}]),
                "status": {"round": "three"},
            },
            "status.round",
            id="such a status where there is no expert either",
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_told_by_its_field(
    thing: dict[str, Any], field: str
) -> None:
    with pytest.raises(InputError) as refused:
        KINDS[constants.KIND].read(thing)
    assert refused.value.message.startswith(field)
