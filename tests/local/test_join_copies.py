"""A silo or a coordinator that is there twice, again from an old copy, or with another key."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS
from hansa.local.objectstore import RUNNER
from tests.support import small
from tests.support.parties import REMOTE, Quick, equal, state, status
from tests.support.processes import until

pytestmark = pytest.mark.slow


def kinds(silos: Quick, log) -> list[str]:
    return [letter.kind for letter in silos.letters(log)]  # type: ignore[attr-defined]


def check_mail(silos: Quick, manifest: Path) -> None:
    """Both logs are sound, down to the bytes of what letters name."""
    owner = silos.store.environ(RUNNER)
    mail = small.hansa("mail", REMOTE, "-f", manifest, "--check", **owner)
    assert mail.returncode == 0, mail.stderr


def test_two_that_serve_one_silo_make_one_result_and_are_told(in_one_place, silos: Quick) -> None:
    manifest = silos.folder / "federation.yaml"
    member = silos.member(manifest)
    with silos.coordinate(manifest) as coordinator, silos.join(member) as silo:
        until(lambda: "taken" in kinds(silos, ANSWERS), "the first to take its order")
        with silos.join(member, out="twin") as twin:
            coordinator.finish()
            until(lambda: "Twin" in twin.events, "the second to see that it is one")
    equal(coordinator.out, in_one_place)
    check_mail(silos, manifest)
    assert "another silo uses its key" in twin.events
    assert "warning JobFailed" not in silo.events + twin.events


def test_old_copies_of_both_go_on_to_the_same_result(
    undisturbed: Path, silos: Quick, model_digests
) -> None:
    manifest = silos.manifest(model_digests)  # two rounds
    member = silos.member(manifest)
    folders = [silos.folder / name for name in ("coordinator", "silo")]
    with silos.coordinate(manifest) as coordinator, silos.join(member) as silo:
        until(lambda: _completed(coordinator) == 1, "the first round to be over")
        silo.kill()
        coordinator.kill()
    for folder in folders:
        shutil.copytree(folder, folder.with_name(f"{folder.name}-copy"))
    with silos.coordinate(manifest) as coordinator, silos.join(member) as silo:
        coordinator.finish()
        until(lambda: state(silo) == "Resting", "the silo to rest")
    orders = len(kinds(silos, ORDERS))
    for folder in folders:
        shutil.rmtree(folder)
        folder.with_name(f"{folder.name}-copy").rename(folder)
    with silos.coordinate(manifest) as coordinator, silos.join(member, "--stay") as silo:
        coordinator.finish()
    equal(coordinator.out, undisturbed.parent)
    assert len(kinds(silos, ORDERS)) > orders, "asked again, at new places"
    assert "Twin" in coordinator.events and "Twin" in silo.events
    assert status(silo)["usage"]["rounds"] == 2, "a round that is asked for again costs nothing"
    check_mail(silos, manifest)


def _completed(coordinator: small.Run) -> int:
    try:
        return int(small.status(coordinator.out).get("completed", 0))
    except (OSError, ValueError, KeyError):
        return 0


def test_a_key_that_changes_between_order_and_answer_costs_nothing(
    in_one_place, silos: Quick, model_digests
) -> None:
    """The coordinator names both first; then the silo's owner takes the new one."""
    old = silos.keys[REMOTE]
    new = silos.new_silo_key()
    both = {"name": REMOTE, "member": {"publicKeys": [new, old[1]]}}
    local = next(e for e in small.SPEC["environments"] if e["name"] != REMOTE)
    manifest = silos.manifest(model_digests, rounds=1, environments=[local, both])
    changed, silos.keys[REMOTE] = silos.keys[REMOTE], old
    with silos.coordinate(manifest) as coordinator:
        with silos.join(silos.member(manifest)) as silo:
            until(lambda: "taken" in kinds(silos, ANSWERS), "the silo to take its order")
            silo.kill()
        silos.keys[REMOTE] = changed
        with silos.join(silos.member(manifest, publicKeys=[new, old[1]])):
            coordinator.finish()
    equal(coordinator.out, in_one_place)
    assert "LetterRefused" not in coordinator.events
    check_mail(silos, manifest)
    signed = _signed_by(silos, new)
    assert "answer" in signed and "hello" not in signed


def _signed_by(silos: Quick, key: str) -> list[str]:
    log = dataclasses.replace(silos.log(ANSWERS), trusted=(key,))
    return [e.letter.kind for e in log.read(Cursor(), most=None).entries]  # type: ignore[attr-defined]


def test_a_key_that_the_coordinator_does_not_know_yet_is_skipped_until_it_does(
    silos: Quick,
) -> None:
    """The silo's owner was too fast: its letters lie there, and a later one brings it back."""
    manifest = silos.folder / "federation.yaml"
    new = silos.new_silo_key()
    with silos.join(silos.member(manifest, publicKeys=[new]), "--once") as silo:
        silo.finish()
    reading = silos.log(ANSWERS).read(Cursor())
    assert (reading.entries, dict(reading.faults)) == ([], {"unknown-key": 1})
    assert _signed_by(silos, new) == ["hello"]
