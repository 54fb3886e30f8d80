"""The reference describes every field, and what it says of changes is what happens."""

import json
from typing import Any

import pytest

from hansa.api.immutable_fields import immutable_changes, immutable_fields
from hansa.api.jobs import Plan
from hansa.api.spec import FederationSpec
from hansa.api.status import Federation
from hansa.api.strategies import BUILTIN
from hansa.cli.explain import explain
from hansa.cli.main import COMMANDS
from hansa.core.errors import InputError
from hansa.manifests import reference
from hansa.manifests.crd import KINDS, MEMBER, RULES, CrdDefinition, build_schema
from hansa.manifests.reference import AT_ONCE, NEVER, NEXT_ROUND, ONLY_GROWS, ReferenceField
from hansa.plan.federation import plan
from tests.support.builders import NOW, make_federation, with_spec, with_status

S3 = {"bucket": "bucket", "prefix": "run", "endpoint": "http://store", "region": "one"}
SECRET = {"name": "secret", "key": "ca.crt"}
KEY = "ed25519:" + "A" * 43
WHOLE: dict[str, Any] = {
    "storage": {
        "s3": {**S3, "credentialsSecret": {"name": "secret"}, "caSecret": SECRET},
        "sealingSecret": {"name": "secret"},
    },
    "exploration": {"samplesPerTask": 2},
    "guard": {},
    "probes": [{"name": "wall", "world": "maze", "options": {"low_wall": True}}],
    "exchange": {"publicKeys": [KEY], "signingSecret": {"name": "secret"}},
    "participation": {"minimumUpdates": 1},
    "environments": [
        {
            "name": "maze",
            "world": "maze",
            "experienceStorage": {"s3": {**S3, "caSecret": SECRET}},
            "experienceKeySecret": {"name": "secret"},
            "maskingKey": "x25519:" + "A" * 43,
            "maskingSecret": {"name": "secret"},
            "credentialsSecret": {"name": "secret"},
            "endpoint": {"url": "http://turns", "server": "vllm", "apiKeySecret": SECRET},
        }
    ],
}
"""A spec in which every object is there, so that each field of it can change."""
WORDS = {"name": "words", "prompts": ["Hello."], "forbidden": ["rude"]}
MEMORY = {"name": "memory", "texts": ["Once."]}
PROBES = {
    "spec.probes[].prompts": [WORDS],
    "spec.probes[].forbidden": [WORDS],
    "spec.probes[].texts": [MEMORY],
    "spec.guard.maxForgetting": [MEMORY],
}
"""Other probes, for fields that those of WHOLE cannot have."""
PRIVATE: dict[str, Any] = {
    **WHOLE,
    "probes": None,
    "training": {"maxSteps": 1},
    "privacy": {"epsilon": 8.0, "delta": 1e-5},
    "environments": [
        {**WHOLE["environments"][0], "experienceStorage": {"s3": {**S3, "bucket": "private"}}}
    ],
}
"""The same with privacy, which most other fields have to fit."""
SECURE: dict[str, Any] = {
    **WHOLE,
    "aggregation": {"secure": {}},
    "participation": {"minimumUpdates": 3},
    "environments": [
        {
            **PRIVATE["environments"][0],
            "name": name,
            "maskingKey": f"x25519:{name * 43}",
        }
        for name in "abc"
    ],
}
"""The same with masks, which need three silos."""
OTHER = {
    "spec.privacy.noiseMultiplier": 2.0,
    "spec.model.source": "path:/model",
    "spec.experience.demonstrationsFrom": "/shown.jsonl",
    "spec.environments[].demonstrationsFrom": "/shown.jsonl",
    "spec.storage.s3.endpoint": "http://elsewhere",
    "spec.aggregation.strategy": "median",
    "spec.aggregation.serverStep": "auto",
    "spec.aggregation.sealTo": "x25519:" + "B" * 43,
    "spec.environments[].maskingKey": "x25519:" + "B" * 43,
    "spec.training.options": {},
    "spec.experience.filter": "none",
    "spec.participation.minimumUpdates": None,
    "spec.aggregation.maxNormRatio": 2.0,
    "spec.aggregation.options.maxWeightRatio": 2.0,
    "spec.aggregation.options.trim": 0.3,
    "spec.aggregation.options.faulty": 0,
    "spec.model.sha256": "a" * 64,
    "spec.exchange.publicKeys": ["ed25519:" + "B" * 43],
    "spec.adapter.shapes": "a" * 64,
    "spec.environments[].experienceStorage.s3.endpoint": "http://elsewhere",
    "spec.environments[].endpoint.url": "http://elsewhere",
    "spec.environments[].endpoint.adapterFolder": "/offered",
}
"""Another value, where none follows from the schema or the first that does would not fit."""


ELSEWHERE = "spec.environments[].member"
"""What no silo of this cluster has; tests/unit/hansa/plan/test_plan_courier.py changes it."""


def leaves() -> list[ReferenceField]:
    every = [each for each in reference.walk_fields(reference.describe_spec()) if not each.fields]
    return [each for each in every if not each.path.startswith(ELSEWHERE)]


def get(document: Any, path: str) -> Any:
    for part in path.removeprefix("spec.").replace("[]", ".0").split("."):
        document = document[int(part)] if isinstance(document, list) else document.get(part, {})
    return document


def put(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The spec with another value at the path; a list has its first entry changed."""
    changed = json.loads(json.dumps(spec))
    *parents, last = path.removeprefix("spec.").replace("[]", ".0").split(".")
    at = changed
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
    at[last] = value
    return dict(changed)


def other(entry: ReferenceField, value: Any) -> Any:
    """A value that differs and fits."""
    if entry.path in OTHER:
        return OTHER[entry.path]
    if isinstance(value, bool):
        return not value
    if entry.type == "map":
        return {"spec": {"nodeName": "n"}} if entry.name == "podTemplate" else {"size": 5}
    if entry.type == "list of string":
        return ["stop"]
    choices = entry.allowed.split(" or ")
    if len(choices) > 1 and not any(" " in choice for choice in choices):
        return next(choice for choice in choices if choice != value)
    if entry.type in ("integer", "number"):
        return (value or 0) + 1 if entry.type == "integer" else value / 2 if value else 0.5
    return ["q_proj"] if entry.name == "targetModules" else "other"


def reading(path: str) -> dict[str, Any]:
    """A strategy that reads an option, and as many environments as any of them needs."""
    option = path.rpartition(".")[2]
    aliases = {
        name: {field.alias for field in entry.options.model_fields.values()}
        for name, entry in BUILTIN.items()
    }
    strategy = next((name for name, known in aliases.items() if option in known), "mean")
    environments = [{**WHOLE["environments"][0], "name": name} for name in "abcde"]
    return {"aggregation": {"strategy": strategy}, "environments": environments}


def opened(path: str = "") -> Federation:
    of = {
        "spec.privacy": PRIVATE,
        "spec.aggregation.secure": SECURE,
        "spec.aggregation.options": {**WHOLE, **reading(path)},
    }
    probed = {**WHOLE, "probes": PROBES.get(path, WHOLE["probes"])}
    whole = next((given for start, given in of.items() if path.startswith(start)), probed)
    federation = make_federation("maze", **whole)
    return with_status(federation, plan(federation, [], NOW).status)


def rounds_of(next_: Plan) -> list[Any]:
    """Assignments of the round."""
    return [each.assignment for each in next_.create]


@pytest.mark.parametrize("entry", leaves(), ids=lambda entry: entry.path)
def test_a_change_counts_when_the_reference_says(entry: ReferenceField) -> None:
    federation = opened(entry.path)
    spec = federation.spec.to_json()
    changed = put(spec, entry.path, other(entry, get(spec, entry.path)))
    if entry.path == "spec.environments[].name":  # another name is another environment
        assert entry.change == NEVER
        return
    accepted = immutable_fields(federation.spec, {})
    refused = bool(immutable_changes(accepted, FederationSpec.model_validate(changed)))
    assert refused == (entry.change == NEVER)
    if refused:
        return
    before = rounds_of(plan(federation, [], NOW))
    after = with_spec(federation, **changed)
    open_round = plan(after, [], NOW)
    if entry.path == "spec.suspend":
        assert (entry.change, open_round.create) == (AT_ONCE, [])
        return
    same = rounds_of(open_round) == before
    current = federation.status.current
    fresh = plan(after.model_copy(update={"status": make_federation("maze").status}), [], NOW)
    assert current is not None and fresh.status.current is not None
    left_out = {"opened_at", "environments"}
    next_differs = fresh.status.current.model_dump(exclude=left_out) != current.model_dump(
        exclude=left_out
    ) or any(
        a.model_dump() != b.model_dump()
        for a, b in zip(fresh.status.current.environments, current.environments, strict=True)
    )
    if entry.change == NEXT_ROUND:
        assert same and next_differs
    else:
        assert entry.change in (AT_ONCE, ONLY_GROWS) and not next_differs


def test_what_the_cluster_refuses_to_change_is_never_changed_in_the_reference() -> None:
    entries = {each.path: each for each in reference.walk_fields(reference.describe_spec())}
    rules = build_schema()["properties"]["spec"][RULES]
    fixed = [rule["fieldPath"] for rule in rules if "cannot change" in rule["message"]]
    for path in fixed:
        entry = entries[f"spec{path}"]
        changes = {each.change for each in reference.walk_fields(entry) if not each.fields}
        assert NEVER in changes, path
    assert len(fixed) == 5
    assert entries["spec.rounds"].change == ONLY_GROWS


def test_what_the_cluster_refuses_to_change_of_a_member_is_said_so() -> None:
    never = {
        e.path for e in reference.walk_fields(reference.describe_spec(MEMBER)) if e.change == NEVER
    }
    rules = build_schema(MEMBER)["properties"]["spec"][RULES]
    fixed = {f"spec{rule['fieldPath']}" for rule in rules if "cannot change" in rule["message"]}
    assert never == fixed
    assert len(fixed) == 5


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.singular)
def test_every_field_has_a_meaning_and_what_fits(kind: CrdDefinition) -> None:
    for top in (reference.describe_spec(kind), reference.describe_status(kind)):
        for entry in reference.walk_fields(top):
            assert entry.description, entry.path
            known = entry.allowed or entry.fields or "map" in entry.type or "object" in entry.type
            assert known, entry.path


def test_it_is_on_the_command_line() -> None:
    assert COMMANDS["explain"].target == "hansa.cli.explain:explain"


@pytest.mark.parametrize("path", ["spec.exploration.temperature", " spec.Exploration.temperature."])
def test_explain_says_all_there_is_about_one_field(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(path)
    assert capsys.readouterr().out == (
        "GROUP:      hansa.dev\n"
        "KIND:       Federation\n"
        "VERSION:    v1alpha1\n\n"
        "FIELD:      spec.exploration.temperature <number>\n"
        "ALLOWED:    a number above 0 and at most 5\n"
        "DEFAULT:    1.0\n"
        "CHANGES:    from the next round: an open round keeps the settings that it opened with\n\n"
        "DESCRIPTION:\n"
        "    Sampling temperature while exploring.\n"
    )


@pytest.mark.parametrize(
    "path, field",
    [
        pytest.param("rounds", "spec.rounds", id="of the spec"),
        pytest.param("aggregation.strategy", "spec.aggregation.strategy", id="below the spec"),
        pytest.param("credentialsSecret.name", "", id="of several"),
    ],
)
def test_what_stands_before_a_field_may_be_left_out_where_one_is_meant(
    path: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not field:
        with pytest.raises(InputError, match=r"for example .* or "):
            explain(path)
        return
    explain(path)
    assert f"FIELD:      {field} <" in capsys.readouterr().out


@pytest.mark.parametrize(
    "path", ["spec.environments.name", "spec.environments[].name", "spec.environments[2].name"]
)
def test_a_field_of_a_list_is_found_with_and_without_an_index(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(path)
    assert "FIELD:      spec.environments[].name <string> -required-" in capsys.readouterr().out


def test_a_field_of_a_member_is_explained_by_its_own_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explain("spec.limits.jobSeconds", member=True)
    shown = capsys.readouterr().out
    assert "KIND:       FederationMember\n" in shown
    assert "ALLOWED:    a whole number from 1 to 2592000\n" in shown
    with pytest.raises(InputError, match="expected a field of a FederationMember"):
        explain("spec.guard", member=True)


def test_explain_alone_shows_the_top_level_of_spec(capsys: pytest.CaptureFixture[str]) -> None:
    explain()
    shown = capsys.readouterr().out
    for name in FederationSpec.model_json_schema()["properties"]:
        assert f"\n  {name} <" in shown
    assert "tasksPerRound" not in shown


def test_explain_gives_data_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    from hansa.cli.common import Format

    explain("spec.guard", Format.JSON)
    data = json.loads(capsys.readouterr().out)
    assert (data["type"], data["change"]) == ("object", NEXT_ROUND)
    assert data["fields"][0] == {
        "path": "spec.guard.maxDrop",
        "type": "number",
        "required": False,
        "default": 0.1,
        "allowed": "a number from 0 to 1",
        "change": NEXT_ROUND,
        "description": "Success on validation tasks that may be lost; 0.1 is ten points.",
    }


@pytest.mark.parametrize(
    "path, meant",
    [
        ("spec.exploration.temprature", "spec.exploration.temperature or"),
        ("temperature", "spec.exploration.temperature or spec.evaluation.temperature"),
        ("spec.enviroments.wrld", "spec.environments[].world or"),
        ("qqqq", "spec or status"),
    ],
)
def test_a_wrong_path_gets_one_sentence_with_the_nearest_names(path: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        explain(path)
    message = caught.value.message
    assert message.startswith(
        f"FIELD: got '{path}', expected a field of a Federation, for example {meant}"
    )
