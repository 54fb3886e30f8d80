"""Plug-ins: found by entry point, checked by their own model, never in a builtin's place."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hansa.api.aggregation import Aggregation
from hansa.api.plugin_fields import MOST_BYTES
from hansa.api.spec import FederationSpec
from hansa.api.strategies import BUILTIN
from hansa.api.training import Training
from hansa.api.worlds import WORLDS
from hansa.core.errors import InputError, PermanentError, PluginMissing
from hansa.core.exits import Exit
from hansa.core.model import Model
from hansa.manifests import plugins
from hansa.manifests.plugins import LEARNER, STRATEGY, check, make
from tests.support import packages
from tests.support.simulated_cluster import Cluster

CODE = """
from typing import Annotated
from pydantic import Field, field_validator
from hansa.manifests import plugins

class Mine(plugins.StrategyFacts):
    class Options(plugins.Options):
        pull_by: Annotated[float, Field(ge=0, le=1)] = 0.5
        names: list[str] = []

        @field_validator("names")
        @classmethod
        def known(cls, names):
            if "bad" in names:
                raise ValueError("names: got bad, expected good")
            return names[99] if "odd" in names else names

class Mean(plugins.StrategyFacts):
    is_mean = True

class Comparing(plugins.LearnerFacts):
    compares = True

class Plain(plugins.LearnerFacts):
    pass

class Open(plugins.StrategyFacts):
    Options = dict

def function(task):
    return None
"""
POINTS = {
    "hansa.strategies": {
        "mine": "Mine",
        "own-mean": "Mean",
        "open": "Open",
        "function": "function",
        "lost": "NoSuchName",
        "a-learner": "Plain",
    },
    "hansa.learners": {"comparing": "Comparing", "plain": "Plain"},
}
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package for this test alone."""

    def installed(name: str, code: str, points: dict[str, dict[str, str]]) -> None:
        packages.install(tmp_path / name, name, code, points, monkeypatch)

    return installed


@pytest.fixture(autouse=True)
def package(install: Install) -> None:
    """The package that most tests are about."""
    install("strangers", CODE, POINTS)


def spec(**fields: Any) -> FederationSpec:
    environments = [{"name": "maze", "world": "maze"}]
    return FederationSpec.model_validate({"environments": environments, **fields})


def merging(**fields: Any) -> FederationSpec:
    return spec(aggregation={"strategy": "mine", **fields})


def nested(levels: int) -> dict[str, Any]:
    """Options with so many mappings and lists within one another."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"size": value}


def refusal(given: FederationSpec) -> str:
    with pytest.raises(InputError) as refused:
        check(given)
    return refused.value.message


def test_a_plug_in_gets_its_options_and_their_defaults() -> None:
    assert make(STRATEGY, "mine", {"pullBy": 0.25}).options.pull_by == 0.25
    assert make(STRATEGY, "mine", None).options.pull_by == 0.5
    check(merging(options={"pullBy": 1, "names": ["a"]}))


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"pullby": 1}, "spec.aggregation.options.pullby: unknown field, did you mean pullBy?"),
        (
            {"size": 1},
            "spec.aggregation.options.size: unknown field, expected one of names, pullBy",
        ),
        ({"pullBy": 2}, "spec.aggregation.options.pullBy: got 2, expected a number from 0 to 1"),
        (
            {"pullBy": "x"},
            "spec.aggregation.options.pullBy: got 'x', expected a number from 0 to 1",
        ),
        ({"names": [1]}, "spec.aggregation.options.names[0]: got 1, expected text"),
        ({"names": ["bad"]}, "spec.aggregation.options.names: got bad, expected good"),
        ({"names": ["odd"]}, "spec.aggregation.options: IndexError: list index out of range"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_the_plug_ins_own_model(options, sentence) -> None:
    assert refusal(merging(options=options)) == sentence


def test_a_plug_in_without_options_takes_none() -> None:
    assert "training.options.size: unknown field" in refusal(
        spec(training={"learner": "plain", "options": {"size": 5}})
    )


@pytest.mark.parametrize(
    "kind, name, sentence",
    [
        (STRATEGY, "sparse", "spec.aggregation.strategy: got 'sparse', which no package here"),
        (LEARNER, "ppo", "spec.training.learner: got 'ppo', which no package here offers (entry"),
        (STRATEGY, "lost", "got 'lost' of package strangers, which cannot be loaded here (Attrib"),
    ],
)
def test_a_plug_in_that_is_missing_in_an_image_has_an_exit_and_a_sentence(
    kind: plugins.PluginField, name: str, sentence: str
) -> None:
    with pytest.raises(PluginMissing) as missing:
        make(kind, name, None)
    assert sentence in missing.value.message
    assert missing.value.exit is Exit.PLUGIN_MISSING


def test_a_missing_plug_in_is_named_on_this_machine_with_what_there_is() -> None:
    said = refusal(spec(aggregation={"strategy": "minne"}))
    assert said.startswith("spec.aggregation.strategy: got 'minne', which no package here offers")
    assert "expected mean or weighted-mean or " in said
    assert said.endswith(" or own-mean")
    with pytest.raises(InputError) as refused:
        check(spec(training={"learner": "plan"}))
    assert refused.value.hint == "did you mean plain?"


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("function", "strangers:function is no hansa_server.plugin.StrategyPlugin"),
        ("a-learner", "strangers:Plain is no hansa_server.plugin.StrategyPlugin"),
        ("open", "the Options of strangers:Open are no hansa.manifests.plugins.Options"),
    ],
)
def test_what_is_no_plug_in_is_refused(name: str, sentence: str) -> None:
    assert sentence in refusal(spec(aggregation={"strategy": name}))
    with pytest.raises(PermanentError):
        make(STRATEGY, name, None)


def test_two_packages_that_offer_one_name_are_refused(install: Install) -> None:
    install("others", CODE, {"hansa.strategies": {"mine": "Mine"}})
    assert "which others and strangers offer, expected one of these packages" in refusal(merging())


@pytest.mark.parametrize("code", ["import no_such_module", "raise OSError('disk')", "1 +"])
def test_a_package_that_cannot_be_imported_is_said_where_it_would_run(
    install: Install, code: str
) -> None:
    install("broken", code, {"hansa.strategies": {"broken": "Broken"}})
    with pytest.raises(PluginMissing, match="of package broken, which cannot be loaded here"):
        make(STRATEGY, "broken", None)
    given = spec(aggregation={"strategy": "broken"})
    if "no_such_module" in code:
        check(given)  # this machine may lack what the image has: torch, for one
    else:
        assert "which cannot be loaded here" in refusal(given)


@pytest.mark.parametrize("place", ["first", "last"])
def test_a_builtin_is_never_taken_from_a_package(
    install: Install, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising = {"hansa.strategies": dict.fromkeys(BUILTIN, "Evil")}
    raising |= {"hansa.learners": {"success-sft": "Evil"}, "hansa.worlds": {"maze": "Evil"}}
    install("evil", "raise AssertionError('a builtin was replaced')", raising)
    if place == "last":
        paths = [path for path in sys.path if path != str(tmp_path / "evil")]
        monkeypatch.setattr(sys, "path", [*paths, str(tmp_path / "evil")])
    check(spec())
    assert STRATEGY.names() == sorted(POINTS["hansa.strategies"])
    for name in set(BUILTIN) - {"none"}:
        assert type(make(STRATEGY, name, None)).__module__.startswith("hansa_server.strategies.")
    learner = make(LEARNER, "success-sft", None)
    assert type(learner).__module__ == "hansa_client.learners.success_sft"
    assert WORLDS.list_points()["maze"].value == "hansa_worlds.maze.world:Maze"


def test_a_step_that_fits_is_for_plug_ins_that_say_they_are_means() -> None:
    auto = {"serverStep": "auto"}
    check(spec(aggregation={"strategy": "own-mean", **auto}))
    assert "aggregation.serverStep: got auto with mine, expected a number" in refusal(
        merging(**auto)
    )


def test_a_learner_that_compares_needs_several_episodes_of_a_task() -> None:
    training = {"learner": "comparing"}
    assert "spec.exploration.samplesPerTask: got 1, expected 2 or more" in refusal(
        spec(training=training)
    )
    check(spec(training=training, exploration={"samplesPerTask": 2}))
    check(spec(training={"learner": "plain"}))


@pytest.mark.parametrize(
    "section, sentence",
    [
        (
            {"aggregation": {"options": {"size": 5}}},
            "options.size: unknown field, expected none",
        ),
        (
            {"training": {"options": {"size": 5}}},
            "options.size: unknown field, expected none",
        ),
        (
            {"aggregation": {"strategy": "mine", "options": {"text": "x" * MOST_BYTES}}},
            f"options: got {MOST_BYTES + 12} bytes, expected at most {MOST_BYTES}",
        ),
        (
            {"training": {"learner": "plain", "options": {"size": float("nan")}}},
            "options: got a value that is no JSON",
        ),
        (
            {"training": {"learner": "plain", "options": {"size": object()}}},
            "options: got a value that is no JSON",
        ),
        (
            {"training": {"learner": "plain", "options": nested(17)}},
            "options: got more than 16 lists and mappings within one another",
        ),
        (
            {"training": {"learner": "plain", "options": nested(2000)}},
            "options: got a value that is no JSON",
        ),
    ],
)
def test_options_are_checked_without_the_package_as_far_as_they_can_be(section, sentence) -> None:
    with pytest.raises(ValueError, match="options") as refused:
        spec(**section)
    assert sentence in str(refused.value)


def test_options_may_be_as_deep_as_a_person_writes_them() -> None:
    assert spec(training={"learner": "plain", "options": nested(16)}).to_json()


def test_a_condition_has_the_sentence_of_an_image_without_the_plug_in() -> None:
    """Nothing is tried again: the same image would end in the same way."""
    lacks = "spec.training.learner: got 'mine', which no package here offers"
    cluster = Cluster("maze", training={"learner": "mine"}).turn()
    [client] = cluster.active()
    cluster.set(client, "failed", exit_code=int(Exit.PLUGIN_MISSING), message=lacks).turn()
    assert cluster.active() == []
    assert any(lacks in condition.message for condition in cluster.status.conditions)


def test_inputs_have_no_options_where_none_are_set() -> None:
    settings: list[Model] = [Aggregation(), Training()]
    assert all("options" not in json.dumps(each.to_json()) for each in settings)
