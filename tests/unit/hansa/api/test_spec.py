"""The spec as users know it: defaults, what cannot change, what must fit together."""

from typing import Any

import pytest

from hansa.api.immutable_fields import immutable_changes, immutable_fields
from hansa.api.spec import S3, FederationSpec, differences
from hansa.plan.federation import plan
from tests.support.builders import NOW, make_federation, with_status
from tests.support.members import member


def make(**fields: Any) -> FederationSpec:
    environments = [{"name": "maze", "world": "maze"}, {"name": "wordle", "world": "wordle"}]
    return FederationSpec.model_validate({"environments": environments, **fields})


def changes(old: FederationSpec, new: FederationSpec) -> list[str]:
    return immutable_changes(immutable_fields(old, {}), new)


def test_the_defaults_are_those_of_the_paper_where_it_states_them() -> None:
    spec = make()
    assert (spec.rounds, spec.adapter.rank, spec.adapter.alpha) == (20, 8, 16)
    assert (spec.training.epochs, spec.training.learning_rate) == (2, 5e-5)
    assert (spec.exploration.temperature, spec.aggregation.server_step) == (1.0, 1.0)
    assert spec.experience.max_trajectories == 0


def test_users_write_camel_case() -> None:
    assert (
        make(participation={"minimumUpdates": 2}).to_json()["participation"]["minimumUpdates"] == 2
    )


def test_absent_fields_stay_absent_in_json() -> None:
    assert "storage" not in make().to_json()


def test_a_spec_survives_json() -> None:
    spec = make(adapter={"targetModules": ["q_proj"]})
    assert FederationSpec.model_validate(spec.to_json()) == spec


def opened_by(name: str = "my-keys.v2", key: str = "ca_1.crt") -> dict[str, Any]:
    """A place whose Secret is named so."""
    return {"s3": {"bucket": "shared", "caSecret": {"name": name, "key": key}}}


def test_a_secret_is_named_as_kubernetes_allows_it() -> None:
    assert make(storage=opened_by()).storage


@pytest.mark.parametrize(
    "fields, path",
    [
        ({"seed": 8}, "spec.seed"),
        ({"model": {"source": "hf:a/b"}}, "spec.model.source"),
        ({"adapter": {"rank": 4}}, "spec.adapter.rank"),
        ({"adapter": {"targetModules": ["q_proj"]}}, "spec.adapter.targetModules"),
        ({"adapter": {"shapes": "a" * 64}}, "spec.adapter.shapes"),
        ({"rounds": 3}, "spec.rounds"),
    ],
)
def test_a_change_of_what_cannot_change_is_named(fields: dict[str, Any], path: str) -> None:
    [sentence] = changes(make(), make(**fields))
    assert sentence.startswith(f"{path}: got ")


def test_a_digest_of_the_shapes_that_comes_late_is_refused_in_a_sentence() -> None:
    fixed = "(it cannot change after the first round)"
    named = make(adapter={"shapes": "b" * 64})
    [late] = changes(make(), named)
    assert late == f"spec.adapter.shapes: got {'b' * 64}, expected nothing {fixed}"
    [gone] = changes(named, make())
    assert gone == f"spec.adapter.shapes: got nothing, expected {'b' * 64} {fixed}"


def test_digests_leave_no_trace_in_what_identifies_a_run() -> None:
    free, named = make(), make(model={"sha256": "a" * 64}, adapter={"shapes": "b" * 64})
    assert "shapes" not in free.adapter.to_json()
    assert named.adapter.to_json() == {**free.adapter.to_json(), "shapes": "b" * 64}
    assert named.adapter.identity() == free.adapter.identity() == free.adapter.to_json()


def test_the_bucket_cannot_change_but_its_address_can() -> None:
    def at(**s3: str) -> FederationSpec:
        return make(storage={"s3": {"bucket": "hansa", **s3}})

    [sentence] = changes(at(), at(bucket="other"))
    assert sentence.startswith("spec.storage")
    assert changes(at(), at(endpoint="http://localhost:9000")) == []


def private(**s3: str) -> FederationSpec:
    own = {"s3": {"bucket": "mine", **s3}}
    maze = {"name": "maze", "world": "maze", "experienceStorage": own}
    return make(environments=[maze, {"name": "wordle", "world": "wordle"}])


@pytest.mark.attack(
    by="the author of a Federation",
    does="redirects `experienceStorage` during a run",
    result="refused",
)
@pytest.mark.parametrize("before", [{}, {"endpoint": "https://mine:9000"}])
def test_a_private_stores_address_cannot_be_redirected(before: dict[str, str]) -> None:
    [sentence] = changes(private(**before), private(endpoint="https://other:9000"))
    assert sentence == (
        "spec.environments.maze.experienceStorage.s3.endpoint: got https://other:9000, expected "
        f"{before.get('endpoint', '')} (it cannot change after the first round)"
    )
    assert changes(private(**before), private(**before, region="eu-1")) == []
    if before:
        assert len(changes(private(**before), private())) == 1


def test_a_world_cannot_change_under_its_name_but_environments_may_come_and_go() -> None:
    other = [{"name": "maze", "world": "wordle"}, {"name": "new", "world": "babyai"}]
    [sentence] = changes(make(), make(environments=other))
    assert sentence.startswith("spec.environments.maze.world: got wordle")


def test_what_may_change_passes() -> None:
    assert changes(make(), make(rounds=30, training={"epochs": 3}, suspend=True)) == []


def test_differences_are_named_by_path() -> None:
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}) == [("a.c", 2, 3)]


@pytest.mark.parametrize("strategy", ["krum", "multi-krum"])
def test_krum_needs_enough_environments_for_its_hostile_ones(strategy: str) -> None:
    def of(count: int, faulty: int) -> FederationSpec:
        options = {"faulty": faulty}
        names = [{"name": f"e{index}", "world": "maze"} for index in range(count)]
        return make(environments=names, aggregation={"strategy": strategy, "options": options})

    assert of(5, 1).aggregation.options == {"faulty": 1}
    with pytest.raises(ValueError, match=r"options\.faulty: got 2, .* needs 7 environments"):
        of(6, 2)


def test_experience_goes_to_the_silos_own_store_and_else_to_the_federations() -> None:
    private = {"s3": {"bucket": "secret", "prefix": "mine"}}
    environments = [
        {"name": "maze", "world": "maze", "experienceStorage": private},
        {"name": "wordle", "world": "wordle"},
    ]
    spec = make(environments=environments, storage={"s3": {"bucket": "bucket"}})
    maze = spec.environment("maze").experience_storage
    assert (spec.private_storage("maze"), spec.private_storage("wordle")) == (maze, spec.storage)
    without = make(environments=environments)
    assert (without.private_storage("maze"), without.private_storage("wordle")) == (maze, None)


@pytest.mark.parametrize(
    "given, bucket",
    [
        pytest.param({"experience_storage": S3(bucket="secret")}, "secret", id="its own"),
        pytest.param({}, "bucket", id="the federation's"),
    ],
)
def test_an_assignment_says_where_experience_goes(given: dict[str, Any], bucket: str) -> None:
    federation = make_federation("maze")
    opened = with_status(federation, plan(federation, [], NOW).status)
    (request,) = plan(opened, [], NOW).create
    assert request.assignment.model_copy(update=given).private_storage.bucket == bucket


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"experienceKeySecret": {"name": "own"}}, id="sealed experience"),
        pytest.param({"experienceStorage": {"s3": {"bucket": "private"}}}, id="a private store"),
    ],
)
def test_updates_may_be_sealed_where_experience_is_the_silos_own(own: dict[str, Any]) -> None:
    key = "x25519:" + "A" * 43
    environments = [{"name": "maze", "world": "maze", **own}]
    assert make(aggregation={"sealTo": key}, environments=environments).aggregation.seal_to == key


def test_most_of_a_member_has_defaults() -> None:
    made = member()
    assert (made.retries, made.poll_seconds, made.limits.job_seconds) == (2, 15, 7200)
    assert not made.leave and not made.suspend
