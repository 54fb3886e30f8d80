"""Loading a manifest: what passes, and how the sentences are made."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hansa.api.status import Federation, FederationStatus
from hansa.core.errors import InputError
from hansa.manifests.load import build, check_demonstrations, check_model, load, validate_model
from hansa.validation import messages, yaml_reader
from hansa.validation.json_schema import Schema, find_field, flatten_schema

GOOD = """
apiVersion: hansa.dev/v1alpha1
kind: Federation
metadata: {name: one, creationTimestamp: 2026-01-01T00:00:00Z, resourceVersion: "7"}
spec:
  training: {learningRate: 5e-5}
  environments: [{name: maze, world: maze}]
"""


def federation_of(**spec: Any) -> Federation:
    spec = {"environments": [{"name": "maze", "world": "maze"}], **spec}
    head = {"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation", "metadata": {"name": "one"}}
    return build({**head, "spec": spec})


def write(folder: Path, text: str) -> Path:
    file = folder / "federation.yaml"
    file.write_text(text)
    return file


def test_a_manifest_becomes_a_federation_with_its_defaults(tmp_path: Path) -> None:
    federation = load(write(tmp_path, GOOD))
    assert federation.metadata.name == "one"
    assert federation.spec.rounds == 20
    assert federation.spec.environment("maze").world == "maze"


def test_a_number_with_an_exponent_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    assert load(write(tmp_path, GOOD)).spec.training.learning_rate == 5e-5


@pytest.mark.parametrize("world", ["gymnasium", "mixed"])
def test_a_manifest_whose_option_would_run_a_program_is_refused(world: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    options = f"{{env: 'subprocess:Popen', kwargs: {{args: [touch, {made}]}}}}"
    if world == "mixed":
        options = f"{{worlds: [{{name: a, world: gymnasium, options: {options}}}]}}"
    text = GOOD.replace("world: maze", f"world: {world}, demonstrations: 0, options: {options}")
    with pytest.raises(InputError, match=r"options\.env: got 'subprocess:Popen', expected a class"):
        load(write(tmp_path, text))
    assert not made.exists()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{GOOD}\nstatus: {{round: -7, nonsense: true}}\n", id="a status"),
        pytest.param(f"---\n---\n{GOOD}\n---\n", id="empty documents around the federation"),
        pytest.param(f"\ufeff{GOOD}", id="a byte order mark"),
    ],
)
def test_what_is_ignored(tmp_path: Path, text: str) -> None:
    federation = load(write(tmp_path, text))
    assert (federation.metadata.name, federation.status.round) == ("one", 0)


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert load("-").metadata.name == "one"


def test_anchors_and_merges_work_as_in_any_manifest(tmp_path: Path) -> None:
    text = GOOD.replace(
        "[{name: maze, world: maze}]",
        "[&first {name: maze, world: maze}, {<<: *first, name: second}]",
    )
    assert load(write(tmp_path, text)).spec.environment("second").world == "maze"


def test_a_federation_that_was_printed_loads_again(tmp_path: Path) -> None:
    federation = load(write(tmp_path, GOOD))
    assert build(federation.to_json()).spec == federation.spec


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode()))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_data_or_one_sentence(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        for document in yaml_reader.parse(text, "file"):
            build(document)
    except InputError as error:
        assert error.message
        assert "\n" not in error.message


@pytest.mark.parametrize(
    "value", ['!!bool "x"', '!!int ""', '!!float "_"', "1:" + "00:" * 200 + "00.5"]
)
def test_a_tag_that_does_not_fit_its_text_is_one_sentence(value: str) -> None:
    with pytest.raises(InputError, match="file: got"):
        yaml_reader.parse(f"a: {value}", "file")


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"metadata": json_data},
        optional={
            "spec": json_data
            | st.dictionaries(
                st.sampled_from(
                    [
                        "rounds",
                        "seed",
                        "model",
                        "adapter",
                        "storage",
                        "environments",
                        "participation",
                    ]
                ),
                json_data,
            )
        },
    )
)
@settings(max_examples=200, deadline=None)
def test_any_object_gives_a_federation_or_one_sentence(fields: dict[str, Any]) -> None:
    try:
        build({"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation", **fields})
    except InputError as error:
        assert ": " in error.message
        assert "\n" not in error.message


def patterns(schema: Schema) -> set[str]:
    found = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    children = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    children += [schema["items"]] if "items" in schema else []
    return found.union(*(patterns(child) for child in children))


def test_every_pattern_of_the_contract_is_said_in_words() -> None:
    assert patterns(flatten_schema(Federation)) <= messages.PATTERNS.keys()


@pytest.mark.parametrize(
    "path, words",
    [
        (("spec", "rounds"), "a whole number from 1 to 10000"),
        (("spec", "adapter", "dropout"), "a number at least 0 and below 1"),
        (("spec", "suspend"), "true or false"),
        (("spec", "adapter", "targetModules"), "all-linear or a list of 1 to 50 entries"),
        (("spec", "adapter", "targetModules", 0), "text of 1 to 100 characters"),
        (("spec", "environments", 3, "name"), "lower-case letters, digits and inner dashes"),
        (("spec", "experience", "filter"), "success or none"),
        (("spec", "environments", 0, "options"), "a mapping"),
    ],
)
def test_what_fits_is_read_from_the_schema(path: tuple[str | int, ...], words: str) -> None:
    assert messages.describe_expected(find_field(flatten_schema(Federation), path)).startswith(
        words
    )


@pytest.mark.parametrize(
    "value, shown",
    [
        (None, "null"),
        (True, "true"),
        ({}, "an empty mapping"),
        ([1], "a list"),
        (7, "7"),
        ("a\nb", "'a\\nb'"),
        ("x" * 100, f"'{'x' * 59}…'"),
        ("https://me:hunter2@host", "'https://***@host'"),
    ],
)
def test_a_value_is_shown_in_a_few_words(value: Any, shown: str) -> None:
    assert messages.describe_value(value) == shown


def test_a_model_folder_needs_a_configuration_and_safetensors(tmp_path: Path) -> None:
    def problem() -> str:
        try:
            check_model(federation_of(model={"source": f"path:{tmp_path}"}))
        except InputError as error:
            return error.message
        return ""

    assert "it has no config.json" in problem()
    (tmp_path / "config.json").write_text("{")
    assert "its config.json cannot be read" in problem()
    (tmp_path / "config.json").write_text("[]")
    assert "its config.json is not a JSON object" in problem()
    (tmp_path / "config.json").write_text("{}")
    assert "it has no .safetensors file" in problem()
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert problem() == ""
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": "code.Own"}}')
    assert "tokenizer_config.json has auto_map, which asks for code of the model's" in problem()
    (tmp_path / "tokenizer_config.json").write_text("[" * 100_000)
    assert problem() == ""


@pytest.mark.parametrize("prefix", ["", "path:"])
@pytest.mark.parametrize(
    "field", ["spec.experience.demonstrationsFrom", "spec.environments[0].demonstrationsFrom"]
)
def test_a_file_of_demonstrations_must_be_there(tmp_path: Path, field: str, prefix: str) -> None:
    path = tmp_path / "shown.jsonl"
    named = {"demonstrationsFrom": f"{prefix}{path}"}
    is_own = "environments" in field
    environment = {"name": "maze", "world": "maze", **(named if is_own else {})}
    federation = federation_of(experience={} if is_own else named, environments=[environment])
    with pytest.raises(InputError) as caught:
        check_demonstrations(federation)
    assert caught.value.message.startswith(f"{field}: got '")
    path.write_text("")
    check_demonstrations(federation)


def test_a_run_with_a_store_of_its_own_has_no_file_in_it(tmp_path: Path) -> None:
    file = {"experience": {"demonstrationsFrom": "s3://bucket/shown.jsonl"}}
    with pytest.raises(InputError, match=r"spec.storage is absent, so the run's own store is empt"):
        check_demonstrations(federation_of(**file))
    check_demonstrations(federation_of(**file, storage={"s3": {"bucket": "bucket"}}))


@pytest.mark.parametrize(
    "text, sentence",
    [
        pytest.param('{"round": "x"}', "round: Input should be a valid integer", id="a field"),
        pytest.param(
            '{"history": [{"round": -1, "outcome": "base"}]}',
            "history[0].round: Input should be greater than or equal to 0",
            id="an entry of a list",
        ),
        pytest.param(
            '{"accepted": {"rounds": "many"}}',
            "accepted: got other fields, expected rounds, environments and what else is fixed",
            id="a model's own sentence",
        ),
        pytest.param("{", "the line: Invalid JSON: EOF while parsing", id="no document at all"),
        pytest.param(
            json.dumps({"x\n" * 300: 1}),
            f"{('x' + chr(92) + 'n') * 19}x{chr(92)}…: Extra inputs are not permitted",
            id="a field that nobody can read",
        ),
    ],
)
def test_an_error_of_pydantic_is_told_by_its_first_field(text: str, sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        FederationStatus.model_validate_json(text)
    shown = messages.describe_first_misfit(refused.value, "the line")
    assert shown.startswith(sentence)
    assert shown.isprintable()


def test_a_wrong_value_in_a_mapping_of_numbers_says_that_a_number_fits() -> None:
    from hansa.api.member_spec import Limits

    with pytest.raises(InputError, match=r"most.rounds: got 'many', expected a number"):
        validate_model(Limits, {"most": {"rounds": "many"}})
