"""A silo whose clock, store, credentials or bucket are not as they should be."""

import os
from pathlib import Path

import pytest

from hansa.api.exchange import Cursor
from hansa.api.letters import ORDERS, Rest
from hansa.crypto.dsse import read_key
from hansa.local.objectstore import RUNNER
from hansa.store.retry import ENV_PATIENCE
from tests.support import small
from tests.support.faults import FaultyProxy
from tests.support.parties import REMOTE, Join, Quick, equal, state, status
from tests.support.processes import until

pytestmark = pytest.mark.slow
WRONG_CLOCK = Path(__file__).parents[1] / "clock"


def clock(seconds: int) -> dict[str, str]:
    """Variables of a process, and of its children, whose clock is wrong."""
    path = os.pathsep.join(filter(None, [str(WRONG_CLOCK), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path, "HANSA_TEST_CLOCK_SECONDS": str(seconds)}


def test_a_clock_that_is_wrong_by_14_minutes_changes_nothing(in_one_place, silos: Quick) -> None:
    manifest = silos.folder / "federation.yaml"
    member = silos.member(manifest)
    with silos.coordinate(manifest) as coordinator, silos.join(member, **clock(840)):
        coordinator.finish()
    equal(coordinator.out, in_one_place)


def test_a_clock_that_is_wrong_by_an_hour_is_named(silos: Quick) -> None:
    # A private store of its own would have the machine's clock, too; this one is never reached.
    private = small.storage(silos.store, silos.store.s3.endpoint or "", "private")
    member = silos.member(silos.folder / "federation.yaml", experienceStorage=private)
    with silos.join(member, **clock(3600)) as silo:
        assert silo.wait() == 42
    assert "the clocks of this machine and the store differ too much" in silo.said
    assert status(silo)["trouble"] == "ClockSkewed"
    with silos.join(member, "--once") as fixed:  # somebody has set it
        fixed.finish()
    assert status(fixed)["trouble"] == ""


def test_a_store_that_is_down_at_each_step_costs_only_time(in_one_place, silos: Quick) -> None:
    manifest = silos.folder / "federation.yaml"
    with FaultyProxy(silos.store.s3.endpoint or "") as proxy:
        place = small.storage(silos.store, proxy.endpoint, small.NAME)
        member = silos.member(manifest, storage=place)
        with (
            silos.coordinate(manifest) as coordinator,
            silos.join(member, **{ENV_PATIENCE: "0.5"}) as silo,
        ):
            for step in ("", "Working", "Done"):
                until(lambda step=step: state(silo) == step or not step, f"the silo to be {step}")
                proxy.down()
                until(lambda: status(silo).get("trouble") == "Unreachable", "it to notice")
                proxy.up()
                until(lambda: status(silo).get("trouble") == "", "it to continue")
            coordinator.finish()
    equal(coordinator.out, in_one_place)


def test_another_silos_credentials_end_it_with_what_is_not_granted(silos: Quick) -> None:
    member = silos.member(silos.folder / "federation.yaml")
    silos.store.credentials[REMOTE] = silos.store.credentials["maze"]
    with silos.join(member) as silo:
        assert silo.wait() == 42
    assert f"answers/{REMOTE}/000001.json: the credentials may not write it" in silo.said
    assert status(silo)["trouble"] == "Denied"


def rest(silos: Quick, why: str) -> None:
    """The coordinator posts a letter behind its last one."""
    log = silos.log(ORDERS)
    letter = Rest(run=log.run, environment=REMOTE, why=why)  # type: ignore[arg-type]
    key = read_key(silos.keys["coordinator"][0].read_bytes(), "coordinator")
    log.post(letter, log.read(Cursor()).cursor, key)


def once(silos: Quick, member: Path) -> Join:
    """`hansa join --once` to its end."""
    with silos.join(member, "--once") as silo:
        silo.wait()
    return silo


def test_an_accepted_order_that_is_gone_or_another_one_ends_everything(silos: Quick) -> None:
    member = silos.member(silos.folder / "federation.yaml")
    rest(silos, "suspended")
    silo = once(silos, member)
    assert (silo.process.returncode, state(silo)) == (0, "Resting")
    silos.store.store(RUNNER).remove(silos.log(ORDERS).log.key(small.NAME, REMOTE, 1))
    for why in ("", "finished"):  # gone, and another one of the very same coordinator
        if why:
            rest(silos, why)
        silo = once(silos, member)
        assert silo.process.returncode == 48
        assert "order 1: it is gone from the bucket or is another one now" in silo.said
        assert status(silo)["trouble"] == "LogReplaced"
    anew = silos.folder / "silo"
    anew.rename(anew.with_name("before"))  # what the sentence says: made anew, it continues
    assert once(silos, member).process.returncode == 0
