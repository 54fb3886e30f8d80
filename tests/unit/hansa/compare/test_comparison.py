"""A comparison's file becomes runs that differ in what makes the method, or one clear sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api.spec import differences
from hansa.compare import comparison
from hansa.compare.comparison import CheckedComparison, Run
from hansa.compare.methods import METHODS, merge_documents
from hansa.core.errors import InputError
from tests.support.comparison_manifest import FEDERATION
from tests.support.sources import ROOT

Read = Callable[..., CheckedComparison]
BAD = yaml.safe_load((ROOT / "tests/support/bad_comparisons.yaml").read_text())


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def make(**fields: Any) -> CheckedComparison:
        (tmp_path / "federation.yaml").write_text(json.dumps(FEDERATION))
        document = {"federation": "federation.yaml", "seeds": [1], "methods": ["fed-se"], **fields}
        path = tmp_path / "compare.yaml"
        path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))
        return comparison.read(path)

    return make


def one(read: Read, method: Any) -> Run:
    return read(methods=[method]).runs[0]


CHANGES = {
    "local": {"exploration.tasksPerRound": 0, "aggregation.strategy": "none"},
    "local-evolution": {"aggregation.strategy": "none"},
    "centralized": {"exploration.tasksPerRound": 0},
    "centralized-evolution": {},
    "fedit": {
        "exploration.tasksPerRound": 0,
        "aggregation.strategy": "weighted-mean",
        "aggregation.options": {"weightBy": "examples"},
    },
    "fed-se": {},
    "fed-se+personal": {"personalization": "best"},
    "no-history": {"experience.history": False},
    "no-filter": {"experience.filter": "none"},
    "success-weighted": {
        "aggregation.strategy": "weighted-mean",
        "aggregation.options": {"weightBy": "successes"},
    },
    "pre-trained": {},
}


@pytest.mark.parametrize("method", METHODS)
def test_no_method_asks_what_another_one_answers_for_all(
    read: Read, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FEDERATION["spec"], "evaluation", {"alone": True})
    assert not one(read, method).silos.spec.evaluation.alone  # local-evolution has it


@pytest.mark.parametrize("method", METHODS)
def test_a_method_differs_from_fed_se_in_what_makes_it(read: Read, method: str) -> None:
    usual, changed = one(read, "fed-se"), one(read, method)
    found = differences(usual.silos.spec.to_json(), changed.silos.spec.to_json())
    assert {path: new for path, _, new in found} == CHANGES[method]


def test_fed_se_is_the_papers_whatever_the_manifest_says(read: Read) -> None:
    spec = one(read, "fed-se").federation.spec
    assert (spec.aggregation.strategy, spec.aggregation.server_step) == ("mean", 1.0)
    assert spec.experience.filter == "success" and spec.experience.history
    assert (spec.exploration.tasks_per_round, spec.rounds) == (5, 3)  # those stay the manifest's


def test_what_is_set_for_all_methods_is_set_but_for_what_makes_one(read: Read) -> None:
    patch = {
        "aggregation": {"strategy": "svd", "serverStep": 3.0},
        "training": {"learner": "reward-weighted"},
        "experience": {"history": False},
        "storage": {"s3": {"bucket": "another"}},
    }
    wanted = read(methods=["fed-se", "fedit"], spec=patch)
    usual, fedit = (run.federation.spec for run in wanted.runs[:2])
    assert (usual.aggregation.strategy, usual.aggregation.server_step) == ("svd", 3.0)
    assert usual.training.learner == "reward-weighted" and not usual.experience.history
    assert (fedit.aggregation.strategy, fedit.aggregation.server_step) == ("weighted-mean", 3.0)
    assert usual.storage is None and fedit.storage is None


def test_an_entry_changes_any_field_of_a_known_method(read: Read) -> None:
    patch = {"aggregation": {"serverStep": 2.5}, "training": {"learningRate": 0.1}}
    run = one(read, {"name": "fed-se+step", "spec": patch})
    spec = run.federation.spec
    assert (run.method, run.base, run.id) == ("fed-se+step", "fed-se", "fed-se+step-1")
    assert (spec.aggregation.strategy, spec.aggregation.server_step) == ("mean", 2.5)
    assert spec.training.learning_rate == 0.1


def test_a_centre_has_all_worlds_under_their_own_names(read: Read) -> None:
    run = one(read, "centralized")
    (centre,) = run.federation.spec.environments
    assert (centre.name, centre.world) == ("centre", "mixed")
    assert centre.options["worlds"] == [
        {"name": "maze", "world": "maze", "options": {"max_turns": 4}},
        {"name": "words", "world": "wordle"},
    ]
    assert run.federation.spec.participation.minimum_updates is None
    assert [e.name for e in run.silos.spec.environments] == ["maze", "words"]


@pytest.mark.parametrize("base", ["fed-se", "centralized"])
def test_an_environment_may_be_left_out_and_is_scored_all_the_same(read: Read, base: str) -> None:
    run = one(read, {"name": "unseen", "base": base, "without": ["words"]})
    whole = one(read, base)
    assert run.unseen == ("words",)
    assert run.silos == whole.silos
    played = run.federation.spec.environments
    if base == "centralized":
        played = played[0].options["worlds"]
    assert [getattr(e, "name", None) or e["name"] for e in played] == ["maze"]
    assert run.federation.spec.participation.minimum_updates in (1, None)


def test_runs_come_seed_by_seed_and_never_use_the_manifests_store(read: Read) -> None:
    wanted = read(seeds=[1, 2], methods=["fed-se", "fedit"], spec={"rounds": 9})
    ids = [run.id for run in wanted.runs]
    assert ids == ["fed-se-1", "fedit-1", "fed-se-2", "fedit-2"]
    assert {run.federation.spec.seed for run in wanted.runs} == {1, 2}
    assert {run.federation.spec.rounds for run in wanted.runs} == {9}
    assert all(run.federation.spec.storage is None for run in wanted.runs)


def test_a_patch_changes_mappings_field_by_field_and_lists_as_a_whole() -> None:
    document = {"a": {"b": 1, "c": [1, 2]}, "d": 3}
    assert merge_documents(document, {"a": {"c": [9]}, "e": {"f": 1}}) == {
        "a": {"b": 1, "c": [9]},
        "d": 3,
        "e": {"f": 1},
    }
    assert document == {"a": {"b": 1, "c": [1, 2]}, "d": 3}


def test_another_strategy_begins_without_the_options_of_the_one_before_it() -> None:
    document = {"strategy": "flora", "options": {"maxRank": 8}}
    assert merge_documents(document, {"strategy": "none"}) == {"strategy": "none"}
    assert merge_documents(document, {"strategy": "flora"}) == document


@pytest.mark.parametrize("common", [None, {"aggregation": {"options": {"trim": 0.3}}}])
def test_options_of_the_manifests_strategy_are_those_of_the_methods_that_use_it(
    read: Read, monkeypatch: pytest.MonkeyPatch, common: dict[str, Any] | None
) -> None:
    own = {"strategy": "trimmed-mean", "options": {"trim": 0.2}}
    monkeypatch.setitem(FEDERATION["spec"], "aggregation", own)
    mine = {"name": "mine", "spec": {"aggregation": {"strategy": "trimmed-mean"}}}
    wider = {"name": "wider", "spec": {"aggregation": {**own, "options": {"trim": 0.4}}}}
    runs = read(methods=["fed-se", "fedit", mine, wider], spec=common).runs
    chosen = [run.federation.spec.aggregation.options for run in runs]
    inherited = 0.3 if common else 0.2
    assert chosen == [None, {"weightBy": "examples"}, {"trim": inherited}, {"trim": 0.4}]


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["case"])
def test_bad_input_is_one_sentence_that_names_the_field(read: Read, row: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        read(**row["fields"])
    assert row["sentence"] in refused.value.message and "\n" not in refused.value.message


def test_a_federation_is_no_comparison_and_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(json.dumps(FEDERATION))
    with pytest.raises(InputError, match="got a Federation, expected a comparison"):
        comparison.read(path)


PRIVACY = {"epsilon": 8, "delta": 1e-4}
NO_PRIVACY = (
    "privacy: got one, expected none in a comparison: all silos of its runs share a store, in "
    "which the keys of their noise would lie open"
)


def private_manifest() -> dict[str, Any]:
    """A federation that runs with privacy, but in no comparison."""
    spec = merge_documents(FEDERATION["spec"], {"privacy": PRIVACY, "training": {"maxSteps": 4}})
    for each in spec["environments"]:
        each["experienceStorage"] = {"s3": {"bucket": each["name"]}}
    return {**FEDERATION, "spec": spec}


@pytest.mark.parametrize("place", ["manifest", "spec", "method"])
def test_privacy_is_refused_wherever_it_is_asked_for(
    read: Read, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    asked = {"spec": {"privacy": PRIVACY}}
    fields: dict[str, Any] = {
        "manifest": {},
        "spec": asked,
        "method": {"methods": [{"name": "own", **asked}]},
    }[place]
    if place == "manifest":
        monkeypatch.setitem(FEDERATION, "spec", private_manifest()["spec"])
    with pytest.raises(InputError) as raised:
        read(**fields)
    where = "methods[0].spec" if place == "method" else "spec"
    assert raised.value.message == f"{where}.{NO_PRIVACY}"
    assert "spec: {privacy: null}" in raised.value.hint


def test_a_private_manifest_is_compared_without_its_privacy(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FEDERATION, "spec", private_manifest()["spec"])
    (run,) = read(spec={"privacy": None}).runs
    assert run.federation.spec.privacy is None
    assert all(each.experience_storage is None for each in run.federation.spec.environments)
