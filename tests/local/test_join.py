"""A silo on a machine of its own takes part by letters alone, and the result is the same."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api import bucket_keys
from hansa.crypto import sealing
from hansa.local.objectstore import RUNNER
from tests.support import small
from tests.support.parties import REMOTE, Parties, equal, state
from tests.support.processes import until
from tests.support.small import NAME, SPEC

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """The same federation by `hansa run` in one place."""
    folder = tmp_path_factory.mktemp("reference")
    manifest = small.write_manifest(folder)
    small.finish(manifest, folder / "run")
    return folder


@pytest.fixture(scope="module")
def digests(reference: Path) -> dict[str, Any]:
    printed = small.hansa("model", "-f", reference / "federation.yaml", "-o", "json")
    assert printed.returncode == 0, printed.stderr
    spec = json.loads(printed.stdout)
    return {
        "model": {**SPEC["model"], **spec["model"]},
        "adapter": {**SPEC.get("adapter", {}), **spec["adapter"]},
    }


@pytest.fixture
def parties(tmp_path: Path, digests: dict[str, Any]):
    made = Parties(tmp_path)
    with made.store:
        made.manifest(digests)
        made.store.restart_with_grants()
        yield made


@pytest.mark.attack(
    by="a reader of the bucket",
    does="looks for trajectories of a silo elsewhere",
    result="finds none",
)
def test_both_may_be_killed_and_the_result_is_that_of_one_place(reference, parties) -> None:
    """The silo while it works and before it answers, and the coordinator while it waits."""
    manifest = parties.folder / "federation.yaml"
    member = parties.member(manifest)
    for word in ("Working", "Done"):
        with parties.coordinate(manifest) as coordinator, parties.join(member) as silo:
            until(lambda silo=silo, word=word: word in state(silo), f"the silo to be {word}")
            silo.kill()
            coordinator.kill()
    with parties.coordinate(manifest) as coordinator, parties.join(member) as silo:
        coordinator.finish()
    equal(coordinator.out, reference)
    objects = parties.store.store()
    everything = b"".join(objects.get(key) for key in objects.list(""))
    assert b"webshop" in everything and b"Thought" not in everything
    assert not any(
        key.startswith(bucket_keys.experience_root(NAME, REMOTE)) for key in objects.list("")
    )
    owner = parties.store.environ(RUNNER)
    mail = small.hansa("mail", REMOTE, "-f", manifest, "--check", "-o", "json", **owner)
    assert mail.returncode == 0, mail.stderr
    assert "every object that a letter names is there as it says" in mail.stderr
    audit = small.hansa("audit", coordinator.out, "-o", "json", **owner)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    found = json.loads(audit.stdout)
    assert [(each["verdict"], each["signed"]) for each in found["rounds"]] == [
        ("equal", True) for _ in range(SPEC["rounds"])
    ]
    [counted] = found["letters"]
    assert counted["orders"] and counted["answers"] and not counted["refused"]
    letters = json.loads(mail.stdout)
    assert all(each["follows"] for each in letters)
    assert [each["letter"]["kind"] for each in letters if each["log"] == "orders"][-1] == "rest"
    page = small.hansa("status", silo.out)
    assert page.returncode == 0, page.stderr
    for text in (
        *("takes part in small as webshop", "used 2 of 2 rounds", "Listening"),
        *("updates/webshop/", "answers/webshop/"),
    ):
        assert text in page.stdout, text


def test_a_silo_without_a_store_of_its_own_keeps_its_experience_sealed_in_the_bucket(
    parties, digests
) -> None:
    manifest = parties.manifest(digests, rounds=1)
    member = parties.member(manifest, experienceKeySecret={"name": "own"})
    with parties.join(member) as silo:
        assert silo.wait() == 2
        assert "got no HANSA_EXPERIENCE_KEY for webshop, expected the file" in silo.said
    key, given = parties.folder / "own.key", parties.folder / "own.json"
    key.write_bytes(sealing.generate_opening_key().pem())
    own = {**parties.store.environ(REMOTE), "HANSA_EXPERIENCE_KEY": str(key)}
    given.write_text(json.dumps({REMOTE: own}))
    joined = parties.join(member, "--credentials", str(given))
    with parties.coordinate(manifest) as coordinator, joined as silo:
        coordinator.finish()
        silo.finish()
        assert "Idle: the federation is over" in silo.said
        assert not (silo.out / "store").exists()
    objects = parties.store.store()
    private = [objects.get(key) for key in objects.list(bucket_keys.experience_root(NAME, REMOTE))]
    assert len(private) > 2 and all(map(sealing.is_sealed, private))


@pytest.mark.full
def test_undisturbed_it_is_that_of_one_place_and_the_silo_ends_by_itself(
    reference, parties
) -> None:
    manifest = parties.folder / "federation.yaml"
    with parties.coordinate(manifest) as coordinator, parties.join(parties.member(manifest)):
        coordinator.finish()
    equal(coordinator.out, reference)


@pytest.mark.parametrize(
    "changes, arguments, sentence",
    [
        pytest.param({}, (), "--signing-key: got none", id="no key"),
        pytest.param({}, ("--embedded-store",), "cannot reach the embedded store", id="embedded"),
        pytest.param({"exchange": None}, (), "exchange: got nothing", id="no exchange"),
    ],
)
def test_a_coordinator_that_could_not_write_letters_is_told_so_at_once(
    changes, arguments, sentence, parties, digests
) -> None:
    manifest = parties.manifest(digests) if not changes else _without(parties, *changes)
    done = small.hansa("run", manifest, "--out", parties.folder / "run", *arguments)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def _without(parties: Parties, field: str) -> Path:
    path = parties.folder / "federation.yaml"
    document = yaml.safe_load(path.read_text())
    del document["spec"][field]
    path.write_text(yaml.safe_dump(document))
    return path


def test_what_a_silo_cannot_use_is_told_before_anything_starts(parties) -> None:
    manifest = parties.folder / "federation.yaml"
    member = parties.member(manifest)
    key, other = (parties.keys[who][0] for who in (REMOTE, "coordinator"))
    changed = yaml.safe_load(member.read_text())
    changed["spec"]["world"] = "mase"
    wrong = parties.folder / "wrong.yaml"
    wrong.write_text(yaml.safe_dump(changed))
    cases: dict[str, tuple[str | Path, ...]] = {
        "did you mean maze?": ("join", wrong, "--key", key),
        "kind: got 'Federation', expected FederationMember": ("join", manifest, "--key", key),
        "cannot read": ("join", member, "--key", parties.folder / "none"),
        "--key: got the key": ("join", member, "--key", other),
        "expected an invitation": ("member", member, "--key", key, "--world", "maze"),
        "environment: got 'maze', expected webshop": (
            *("invite", "maze", "-f", manifest),
            *("--key", other),
        ),
        "--allow: got 'most=rounds', expected most=PATH:NUMBER": (
            *("invite", REMOTE, "-f", manifest, "--key", other),
            *("--allow", "most=rounds"),
        ),
        "expected one of spec.exchange.publicKeys": (
            *("invite", REMOTE, "-f", manifest),
            *("--key", key),
        ),
    }
    for sentence, command in cases.items():
        done = small.hansa(*command)
        assert done.returncode in (2, 42) and sentence in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr


def test_keys_that_the_store_does_not_know_end_it_with_the_stores_own_sentence(parties) -> None:
    member = parties.member(parties.folder / "federation.yaml")
    unknown = parties.folder / "unknown.json"
    pair = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
    unknown.write_text(json.dumps({REMOTE: pair}))
    key = parties.keys[REMOTE][0]
    out = parties.folder / "silo"
    done = small.hansa("join", member, "--key", key, "--credentials", unknown, "--out", out)
    assert done.returncode == 42, done.stderr
    assert "the access key is not known there" in done.stderr
    assert "Traceback" not in done.stderr
    with parties.join(member, "--once") as fixed:  # the same command, with other keys
        fixed.finish()


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes an invitation on its way",
    result="refused",
)
def test_an_invitation_that_was_changed_on_its_way_is_refused(parties) -> None:
    parties.member(parties.folder / "federation.yaml")
    invitation = parties.folder / "invitation.json"
    document = json.loads(invitation.read_text())
    payload = json.loads(base64.b64decode(document["payload"]))
    payload["agreed"]["rounds"] = 9999
    document["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    invitation.write_text(json.dumps(document))
    key = parties.keys[REMOTE][0]
    done = small.hansa("member", invitation, "--key", key, "--world", REMOTE)
    assert done.returncode == 2 and "somebody changed it" in done.stderr


def test_a_silo_that_asks_once_says_hello_and_ends(parties) -> None:
    """As a cron job does: there is no order yet."""
    member = parties.member(parties.folder / "federation.yaml")
    with parties.join(member, "--once") as silo:
        silo.finish()
    assert (silo.out / "member.json").exists()
    letters = [key for key in parties.store.store().list("") if "/answers/" in key]
    assert len(letters) == 1
