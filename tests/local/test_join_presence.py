"""Silos that come late, leave, or will not: the others' rounds continue."""

import pytest

from hansa.api.letters import ORDERS, Work
from tests.support import small
from tests.support.parties import REMOTE, Quick, state, status
from tests.support.processes import until

pytestmark = pytest.mark.slow
ALONE = {"retries": 100, "minimumUpdates": 1}


def history(run: small.Run) -> list[str]:
    return [entry["updates"] for entry in small.status(run.out)["history"] if entry["updates"]]


def test_one_that_joins_late_is_in_from_the_next_round_and_leaves_at_once(
    silos: Quick, model_digests
) -> None:
    manifest = silos.manifest(model_digests, rounds=2, participation=ALONE)
    member = silos.member(manifest)
    with silos.join(member, "--once") as silo:  # heard of in round 1, which does not wait for it
        silo.finish()
    with silos.coordinate(manifest) as coordinator:
        with silos.join(member) as silo:
            until(lambda: state(silo) == "Working", "the silo to work")
            silo.kill()
        orders = [letter for letter in silos.letters(ORDERS) if isinstance(letter, Work)]
        assert [(o.assignment.round, o.assignment.start.round) for o in orders] == [(2, 1)]
        with silos.join(silos.member(manifest, leave=True)) as silo:
            silo.finish()
        assert status(silo)["phase"] == "Left"
        coordinator.finish()
    assert history(coordinator) == ["1/1", "1/2"]
    for reason in ("MemberJoined", "MemberLeft"):
        assert reason in coordinator.events


def test_an_order_beyond_what_was_agreed_is_refused_and_loads_nothing(
    silos: Quick, model_digests
) -> None:
    member = silos.member(silos.folder / "federation.yaml")
    more = {**small.SPEC["training"], "maxSteps": 60}
    manifest = silos.manifest(model_digests, rounds=1, training=more)
    with silos.coordinate(manifest) as coordinator, silos.join(member) as silo:
        assert coordinator.wait() not in (0, None)
        until(lambda: state(silo) == "Refused", "the silo to refuse")
    assert f"{REMOTE} refuses: settings.training.maxSteps" in coordinator.events
    assert "allowed 6" not in coordinator.events, "the limit stays in the silo"
    assert "settings.training.maxSteps: got 60, allowed 6" in silo.events
    conditions = {each["type"]: each for each in status(silo)["conditions"]}
    assert conditions["Allowed"]["reason"] == "Refused"
    jobs = [path.name for path in (silo.out / "jobs").iterdir()]
    assert jobs and all("-mail-" in name for name in jobs)
