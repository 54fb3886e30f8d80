"""The CustomResourceDefinitions: up to date, structural, and as strict as the models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansa.api.spec import FederationSpec
from hansa.api.strategies import BUILTIN
from hansa.cli.common import to_yaml
from hansa.manifests.crd import (
    FEDERATION,
    FREE,
    KINDS,
    MEMBER,
    RULES,
    CrdDefinition,
    build_crd,
    build_schema,
)
from hansa.validation.json_schema import flatten_schema

FOLDER = Path(__file__).parents[4] / "crds"
of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.singular)


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, field in node.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}[]")


def field(path: str, kind: CrdDefinition = FEDERATION) -> dict[str, Any]:
    return dict(nodes(build_schema(kind)))[path]


@of_each_kind
def test_the_file_in_crds_is_up_to_date(kind: CrdDefinition) -> None:
    file = FOLDER / f"{kind.singular}.yaml"
    assert file.read_text() == to_yaml(build_crd(kind)), "run: make generate"


FORBIDDEN = {
    *("anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "const", "title", "prefixItems"),
    *("patternProperties", "propertyNames", "discriminator"),
}


@of_each_kind
def test_the_schema_is_structural(kind: CrdDefinition) -> None:
    """Every node has one type or is free, and fields or further fields, and nothing forbidden."""
    for path, node in nodes(build_schema(kind)):
        assert isinstance(node.get("type"), str) or FREE in node, path
        assert not FORBIDDEN & node.keys(), path
        assert not {"properties", "additionalProperties"} <= node.keys(), path


def test_exclusive_bounds_are_marks_as_openapi_wants_them() -> None:
    rate = field(".spec.training.learningRate")
    assert (rate["minimum"], rate["exclusiveMinimum"], rate["maximum"]) == (0, True, 1)


@pytest.mark.parametrize(
    "path",
    [
        *(".spec.podTemplate", ".spec.environments[].options", ".status.accepted"),
        *(".spec.aggregation.options", ".spec.training.options"),
    ],
)
def test_free_fields_keep_what_they_hold(path: str) -> None:
    assert field(path)[FREE] is True
    assert field(path)["type"] == "object"


def test_options_of_builtin_strategies_are_typed_and_have_no_defaults() -> None:
    """A default would be there for a strategy that does not read it, which refuses it."""
    options = field(".spec.aggregation.options")
    assert options["properties"]["trim"]["maximum"] == 0.5
    assert not [name for name, node in options["properties"].items() if "default" in node]
    assert "default" not in options


def test_strategies_that_share_an_option_agree_on_it() -> None:
    """The schema has each name once, whoever reads it."""
    known: dict[str, Any] = {}
    for entry in BUILTIN.values():
        for name, node in flatten_schema(entry.options)["properties"].items():
            assert known.setdefault(name, node) == node


@pytest.mark.parametrize(
    "path, key", [(".spec.environments", "name"), (".status.conditions", "type")]
)
def test_lists_are_known_by_their_keys(path: str, key: str) -> None:
    assert field(path)["x-kubernetes-list-type"] == "map"
    assert field(path)["x-kubernetes-list-map-keys"] == [key]


def test_absent_sections_get_the_defaults_of_the_models() -> None:
    defaults = FederationSpec.model_validate({"environments": [{"name": "a", "world": "b"}]})
    for section in ("model", "adapter", "training", "participation"):
        node = field(f".spec.{section}")
        made = {n: f["default"] for n, f in node["properties"].items() if "default" in f}
        assert node["default"] == {}
        assert made == getattr(defaults, section).to_json()


def test_what_may_be_absent_for_good_is_not_brought_into_being() -> None:
    assert "default" not in field(".spec.guard")
    assert "default" not in field(".spec.storage")


@of_each_kind
def test_a_status_gets_no_defaults(kind: CrdDefinition) -> None:
    assert [p for p, n in nodes(field(".status", kind)) if "default" in n] == []


@of_each_kind
def test_every_field_is_described(kind: CrdDefinition) -> None:
    silent = [
        path
        for path, node in nodes(build_schema(kind))
        if path.startswith((".spec", ".status")) and path[-2:] != "[]" and "description" not in node
    ]
    assert silent == []


@pytest.mark.parametrize(
    "part",
    [
        *("seed", "model", "adapter", "storage", "rounds", "participation.minimumUpdates"),
        *("aggregation.secure", "guard", "exploration.engine", "experience.filter", "exchange"),
    ],
)
def test_rules_between_fields_come_with_a_sentence(part: str) -> None:
    assert has_rule(part, FEDERATION)


@pytest.mark.parametrize(
    "part",
    [
        *("federation.run", "federation.environment", "world", "storage.s3.bucket"),
        *("storage.s3.prefix", "signingSecret", "experienceStorage"),
        *("agreed.model.sha256", "agreed.adapter.shapes"),
    ],
)
def test_rules_of_a_silo_come_with_a_sentence(part: str) -> None:
    assert has_rule(part, MEMBER)


def has_rule(part: str, kind: CrdDefinition) -> bool:
    rules = field(".spec", kind)[RULES]
    return any(part in r["rule"] and r["message"].startswith(f"spec.{part}: ") for r in rules)


def test_the_world_of_an_environment_cannot_change() -> None:
    rules = [rule["rule"] for rule in field(".spec.environments[]")[RULES]]
    assert "self.world == oldSelf.world" in rules


@pytest.mark.parametrize(
    "kind, narrow, wide",
    [
        (FEDERATION, ["Phase", "Round", "Updates", "Success", "Age"], ["Suspend"]),
        (
            MEMBER,
            ["Federation", "Phase", "Round", "Order", "Success", "Age"],
            ["Connected", "Allowed"],
        ),
    ],
    ids=["federation", "member"],
)
def test_kubectl_get_shows_how_far_it_is(
    kind: CrdDefinition, narrow: list[str], wide: list[str]
) -> None:
    [version] = build_crd(kind)["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    assert [c["name"] for c in columns if not c.get("priority")] == narrow
    assert [c["name"] for c in columns if c.get("priority")] == wide
    assert version["subresources"] == {"status": {}}


# -- a silo's part -------------------------------------------------------------------------------


def test_limits_by_path_are_maps_of_numbers_and_of_lists() -> None:
    assert field(".spec.limits.most", MEMBER)["additionalProperties"] == {"type": "number"}
    lists = field(".spec.limits.only", MEMBER)["additionalProperties"]
    assert (lists["type"], lists["items"]) == ("array", {FREE: True})


def test_a_silo_gets_default_limits_and_nothing_that_its_owner_must_say() -> None:
    assert field(".spec.limits", MEMBER)["default"] == {}
    needed = field(".spec", MEMBER)["required"]
    assert needed == ["federation", "storage", "publicKeys", "world", "agreed"]
    assert not [name for name in needed if "default" in field(f".spec.{name}", MEMBER)]
