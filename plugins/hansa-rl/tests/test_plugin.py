"""The two as plug-ins: the contract, what a spec is refused for, and what README.md says."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api.spec import Exploration, FederationSpec, Training
from hansa.core.errors import InputError
from hansa.manifests import plugins
from hansa_client import contract
from hansa_rl.dpo import Dpo
from hansa_rl.grpo import Grpo

PAGE = (Path(__file__).parents[1] / "README.md").read_text()
PLUGINS = {"dpo": Dpo, "grpo": Grpo}


def make_spec(learner: str, **sections: Any) -> FederationSpec:
    environments = [{"name": "maze", "world": "maze"}]
    training = {"learner": learner, **sections.pop("training", {})}
    return FederationSpec.model_validate(
        {"environments": environments, "training": training, **sections}
    )


@pytest.mark.parametrize("check", contract.CHECKS.values(), ids=contract.CHECKS.keys())
@pytest.mark.parametrize("learner", PLUGINS)
def test_a_learner_keeps_the_contract(learner: str, check: Any) -> None:
    check(contract.prepare(learner, None))


@pytest.mark.parametrize("learner", PLUGINS)
def test_an_exploration_with_nothing_to_compare_is_refused(learner: str) -> None:
    with pytest.raises(InputError, match=rf"samplesPerTask: got 1, expected 2 .*{learner} compar"):
        plugins.check(make_spec(learner))
    with pytest.raises(InputError, match=r"tasksPerRound: got 0, expected 1 or more"):
        plugins.check(make_spec(learner, exploration={"tasksPerRound": 0, "samplesPerTask": 4}))
    plugins.check(make_spec(learner, exploration={"samplesPerTask": 2}))


@pytest.mark.parametrize(
    "learner, options, sentence",
    [
        ("dpo", {"beta": 0}, r"spec\.training\.options\.beta: got 0, expected a number above 0"),
        ("dpo", {"clip": 0.2}, r"spec\.training\.options\.clip: unknown field"),
        ("grpo", {"clip": 1}, r"spec\.training\.options\.clip: got 1, expected a number above 0"),
        ("grpo", {"klWeight": -1}, r"spec\.training\.options\.klWeight: got -1, expected"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    learner: str, options: dict[str, Any], sentence: str
) -> None:
    spec = make_spec(learner, training={"options": options}, exploration={"samplesPerTask": 2})
    with pytest.raises(InputError, match=sentence):
        plugins.check(spec)


def test_validating_imports_no_torch() -> None:
    code = "import sys, hansa_rl.dpo, hansa_rl.grpo; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"


def test_the_page_has_every_option_with_its_default() -> None:
    shown = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)
    options = [
        (name, field.alias, str(field.default))
        for name, plugin in PLUGINS.items()
        for field in plugin.Options.model_fields.values()
    ]
    assert sorted(shown) == sorted(options)


def test_the_manifest_on_the_page_fits() -> None:
    spec = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0])["spec"]
    Exploration.model_validate(spec["exploration"])
    training = Training.model_validate(spec["training"])
    plugins.make(plugins.LEARNER, training.learner, training.options)


@pytest.mark.parametrize("learner", PLUGINS)
def test_a_module_says_what_it_needs_of_exploration(learner: str) -> None:
    assert "Of exploration it needs" in (import_module(f"hansa_rl.{learner}").__doc__ or "")
