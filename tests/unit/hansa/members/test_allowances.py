"""A coordinator asks for limits in its invitation; the owner sees them, and decides."""

from pathlib import Path

import pytest
import yaml

from hansa.api.member_spec import Agreement, AllowedChanges, Limits, MemberSpec
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.members import allowances
from hansa.members.invitation import build_member_manifest, invite, open_invitation
from tests.support.builders import make_federation
from tests.support.commands import call
from tests.support.mail import COORDINATOR, SILO
from tests.support.members import AGREED

ASKED = (
    "most=settings.exploration.tasksPerRound:128",
    "most=rounds:40",
    "only=settings.training.learner:success-sft,reward-weighted",
    "only=adapter.rank:8,16",
    "free=settings.evaluation",
)
SHOWN = [
    "rounds: at most 40 (agreed: 2)",
    "settings.exploration.tasksPerRound: at most 128 (agreed: 64)",
    "adapter.rank: 8 or 16 (agreed: 8)",
    "settings.training.learner: 'success-sft' or 'reward-weighted' (agreed: 'success-sft')",
    "settings.evaluation: anything",
]


@pytest.fixture
def federation() -> Federation:
    return make_federation(
        environments=[
            {"name": "maze", "world": "maze"},
            {"name": "clinic", "member": {"publicKeys": [SILO.public]}},
        ],
        exchange={"publicKeys": [COORDINATOR.public]},
        model={"sha256": "b" * 64},
        adapter={"shapes": "d" * 64},
    )


def test_what_is_asked_for_stands_in_the_members_limits_beside_what_these_allow(federation):
    invitation, _ = open_invitation(invite(federation, "clinic", COORDINATOR, ASKED), "it")
    made = MemberSpec.model_validate(build_member_manifest(invitation, SILO.public, "maze")["spec"])
    assert made.limits.most == {"settings.exploration.tasksPerRound": 128, "rounds": 40}
    assert made.limits.only == {
        "settings.training.learner": ["success-sft", "reward-weighted"],
        "adapter.rank": [8, 16],
    }
    assert made.limits.free == [*Limits().free, "settings.evaluation"]
    assert invitation.allow is not None
    assert list(allowances.describe_allowances(invitation.allow, invitation.agreed)) == SHOWN


def test_an_invitation_that_asks_for_nothing_says_nothing_of_limits(federation):
    data = invite(federation, "clinic", COORDINATOR)
    invitation, _ = open_invitation(data, "it")
    assert invitation.allow is None
    assert "limits" not in build_member_manifest(invitation, SILO.public, "maze")["spec"]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("rounds:40", "--allow: got 'rounds:40', expected most=PATH:NUMBER, only="),
        ("least=rounds:40", "--allow: got 'least=rounds:40', expected most=PATH:NUMBER"),
        ("most=rounds", "--allow: got 'most=rounds', expected most=PATH:NUMBER"),
        ("most=rounds:many", "got 'most=rounds:many', expected a number after the colon"),
        ("most=rounds:nan", "got 'most=rounds:nan', expected a number after the colon"),
        ("most=settings.training.learner:4", "expected a field that is a number"),
        ("most=settings.training:4", "got 'settings.training', expected a field that has one"),
        ("most=tasks:4", "--allow most: got 'tasks', expected a path of spec.agreed, such as"),
        ("only=settings.training.learner:", "expected values between commas"),
        ("only=settings.training.learner:a,,b", "expected values between commas"),
        ("only=settings.training.learner:[a", "expected values between commas"),
        ("free=settings.evaluation:1", "--allow: got 'free=settings.evaluation:1', expected most"),
        ("free=", "--allow free: got '', expected a path of spec.agreed"),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(text, sentence):
    with pytest.raises(InputError) as stop:
        allowances.parse_allowances([text], Agreement.model_validate(AGREED))
    assert sentence in stop.value.message


def test_a_path_twice_is_told():
    with pytest.raises(InputError, match="'rounds' twice, expected each path once"):
        allowances.parse_allowances(
            ["most=rounds:4", "free=rounds"], Agreement.model_validate(AGREED)
        )


def test_an_invitation_whose_paths_are_none_is_refused(federation, monkeypatch):
    wrong = AllowedChanges(most={"tasks": 3})
    monkeypatch.setattr("hansa.members.invitation.parse_allowances", lambda *_: None)
    made = open_invitation(invite(federation, "clinic", COORDINATOR), "it")[0]
    with pytest.raises(ValueError, match=r"limits\.most: got 'tasks'"):
        type(made).model_validate({**made.to_json(), "allow": wrong.to_json()})


def test_the_owner_is_shown_what_is_asked_for(federation, tmp_path, capsys):
    """Both commands, from the coordinator's manifest to the silo's."""
    manifest = tmp_path / "federation.yaml"
    document = {"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation"}
    spec = {"metadata": {"name": "fed"}, "spec": federation.spec.to_json()}
    manifest.write_text(yaml.safe_dump({**document, **spec}))
    keys = [_file(tmp_path, "C", COORDINATOR.pem()), _file(tmp_path, "S", SILO.pem())]
    asked = [part for each in ASKED for part in ("--allow", each)]
    code, out, _ = call(capsys, "invite", "clinic", "-f", manifest, "--key", keys[0], *asked)
    assert code == 0
    invitation = _file(tmp_path, "invitation.json", out.encode())
    code, out, said = call(capsys, "member", invitation, "--key", keys[1], "--world", "maze")
    assert code == 0
    assert "take out of spec.limits what you do not:" in said
    assert [line.strip() for line in said.splitlines()[-len(SHOWN) :]] == SHOWN
    assert yaml.safe_load(out)["spec"]["limits"]["most"]["rounds"] == 40


def _file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path
