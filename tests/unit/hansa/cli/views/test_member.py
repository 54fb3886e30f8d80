"""The silo's page: its order, the verdict on it, what it has used, and what leaves it."""

from datetime import timedelta
from typing import Any

import pytest

from hansa.cli.views.member import list_members, screen
from hansa.core.errors import InputError
from hansa.kubernetes.federations import FederationView
from tests.support.clinic import NOW, REPORT, Clinic, working
from tests.support.members import AGREED

PATH = "settings.exploration.tasksPerRound"


def look(clinic: Any, **metadata: Any) -> FederationView:
    document = clinic.silo.to_json()
    document["metadata"] |= {"creationTimestamp": NOW.isoformat(), **metadata}
    return FederationView(federation=document)


def table(screen_: Any, title: str) -> Any:
    return next(t for t in screen_.tables if t.titles[0] == title)


def test_a_silo_at_work_shows_its_order_its_budget_and_what_leaves() -> None:
    limits = {"episodes": 1000, "jobSeconds": 60, "jobSecondsPerDay": 7200}
    own = {"s3": {"bucket": "own", "prefix": "mine"}}
    clinic = working(limits=limits, experienceStorage=own).post()
    clinic.set(clinic.job, "running").turn()
    page = screen(look(clinic), NOW + timedelta(minutes=4))
    assert page.headline == "five: Working, takes part in five as clinic, in world maze"
    assert page.lines == [
        "order 1, client of round 1: Working since 10:00:00 (4m)",
        "used 1 of 3 rounds, 164 of 1000 episodes at most, 60 of 7200 s on 2026-11-17",
    ]
    assert page.footer == [
        "leaves: s3://shared/five/updates/clinic/",
        "leaves: s3://shared/five/evaluations/clinic/",
        "leaves: s3://shared/five/answers/clinic/",
        "stays:  s3://own/mine/experience/clinic/",
    ]
    assert ("Connected", "True", "4m", "Listening") in [
        row[:4] for row in table(page, "CONDITION").rows
    ]


def test_a_silo_that_seals_its_experience_shows_where_that_is() -> None:
    own = {"experienceStorage": None, "experienceKeySecret": {"name": "own"}}
    page = screen(look(working(**own).post()), NOW)
    assert page.footer[-1] == "stays:  s3://shared/five/experience/clinic/, sealed"


def test_a_silo_that_masks_its_updates_shows_that_its_claims_leave_too() -> None:
    agreed = {**AGREED, "settings": {"aggregation": {"secure": {}}}}
    page = screen(look(working(agreed=agreed).post()), NOW)
    assert "leaves: s3://shared/five/claims/clinic/" in page.footer


def test_a_refusal_is_on_the_page_with_its_sentence() -> None:
    clinic = Clinic().turn().post()
    clinic.order(veto="most", path=PATH, message=f"{PATH}: got 512, allowed at most 128")
    page = screen(look(clinic), NOW)
    assert page.phase == "Refusing"
    assert page.lines[0] == (
        f"order 1, client of round 1: Refused: {PATH}: got 512, allowed at most 128"
    )
    assert [row[:3] for row in table(page, "ROUND").rows] == [("1", "client", "refused")]


def test_answered_rounds_are_listed_and_older_ones_are_counted() -> None:
    clinic = working(agreed={**Clinic().silo.spec.agreed.to_json(), "rounds": 20}).post()
    for round_ in range(2, 14):
        clinic.set(clinic.job, "succeeded", report=REPORT).turn().post()
        clinic.order(round=round_).post()
    rounds = table(screen(look(clinic), NOW), "ROUND")
    assert rounds.rows[-1] == ("12", "client", "answered", "", "4/10")
    assert (len(rounds.rows), rounds.rest) == (10, "and 2 older: -o wide")
    assert len(table(screen(look(clinic), NOW, wide=True), "ROUND").rows) == 12


def test_a_silo_that_nobody_has_looked_at_says_so() -> None:
    page = screen(look(Clinic()), NOW)
    assert page.headline.startswith("five: Pending, ")
    assert page.lines[0] == "not observed yet"
    assert page.footer[-1] == "stays:  in the store of this folder"
    assert screen(look(Clinic().turn()), NOW).lines[0] == "no order yet"
    resting = working().order(kind="rest", role="", round=0, episodes=0)
    assert screen(look(resting), NOW).lines[0] == "order 2: asks for nothing"


def test_a_silo_that_cannot_be_read_is_refused_by_field() -> None:
    document = look(Clinic()).federation
    document["spec"]["pollSeconds"] = 1
    with pytest.raises(InputError, match=r"spec\.pollSeconds: got 1, expected"):
        screen(FederationView(federation=document), NOW)


def test_members_are_listed_as_kubectl_lists_them() -> None:
    clinic = working()
    rows = list_members(
        [look(clinic, namespace="team").federation], NOW, wide=False, spaces=False
    ).rows
    assert rows == [("five", "five", "Working", "1", "1", "", "0s")]
    wide = list_members([look(clinic, namespace="team").federation], NOW, wide=True, spaces=True)
    assert wide.titles[0] == "NAMESPACE" and wide.titles[-1] == "MESSAGE"
    assert wide.rows[0][0] == "team"
    assert wide.rows[0][-2:] == ("Working", "order 1, client of round 1")
