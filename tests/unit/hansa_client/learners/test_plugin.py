"""A learner of a package: the builtin ones' interface, and a sentence for what it makes."""

from pathlib import Path
from typing import Any

import pytest

from hansa.api.spec import Experience
from hansa.core.errors import InputError, PermanentError, PluginMissing
from hansa.core.exits import Exit
from hansa.runtime import program as programs
from hansa_client import __main__ as program
from hansa_client import contract, learners
from hansa_client.contract import LearnerContractError
from hansa_client.rollout import tasks
from tests.support import packages
from tests.unit.hansa_client.rounds import Assign

CODE = """
import itertools, random
from dataclasses import replace
from hansa.manifests import plugins
from hansa_client.learners.success_sft import SuccessSft
from hansa_client.learners.base import Choice

class Good(SuccessSft):
    pass

class Comparing(Good):
    compares = True

class NoChoice(Good):
    def choose(self, shards, rules, round_):
        return []

class Uneven(Good):
    def choose(self, shards, rules, round_):
        chosen = super().choose(shards, rules, round_).episodes
        return Choice(episodes=chosen[:1], together=2)

class Weightless(Good):
    def choose(self, shards, rules, round_):
        chosen = super().choose(shards, rules, round_).episodes
        return Choice(episodes=chosen[:2], weights=[1.0])

class Untrained(Good):
    def train(self, base, lesson, progress):
        return None

class Dice(Good):
    def choose(self, shards, rules, round_):
        chosen = list(super().choose(shards, rules, round_).episodes)
        random.shuffle(chosen)
        return Choice(episodes=chosen)

class Inventing(Good):
    def choose(self, shards, rules, round_):
        chosen = super().choose(shards, rules, round_).episodes
        return Choice(episodes=[e.model_copy(update={"task": "mine"}) for e in chosen])

class Assuming(Good):
    def choose(self, shards, rules, round_):
        return Choice(episodes=[shards[0].episodes[0]])

class Noisy(Good):
    calls = itertools.count()

    def train(self, base, lesson, progress):
        made = super().train(base, lesson, progress)
        more = 1e-3 * next(self.calls)
        return replace(made, tensors={n: a + more for n, a in made.tensors.items()})

class Lazy(Good):
    def train(self, base, lesson, progress):
        made = super().train(base, lesson, progress)
        return replace(made, tensors=dict(lesson.start))

class Spoiling(Good):
    def train(self, base, lesson, progress):
        import torch

        made = super().train(base, lesson, progress)
        with torch.no_grad():
            next(base.model.parameters()).add_(1e-3)
        return made

class Whole(Good):
    def train(self, base, lesson, progress):
        return super().train(base, replace(lesson, half="both"), progress)
"""
KINDS = {
    "good": "Good",
    "comparing": "Comparing",
    "no-choice": "NoChoice",
    "uneven": "Uneven",
    "weightless": "Weightless",
    "untrained": "Untrained",
    "dice": "Dice",
    "lazy": "Lazy",
    "inventing": "Inventing",
    "assuming": "Assuming",
    "noisy": "Noisy",
    "whole": "Whole",
    "spoiling": "Spoiling",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of good and bad learners."""
    packages.install(tmp_path, "lessons", CODE, {"hansa.learners": KINDS}, monkeypatch)


def test_a_missing_learner_ends_a_client_before_it_plays(assign: Assign) -> None:
    with pytest.raises(PluginMissing, match=r"spec.training.learner: got 'elsewhere', which no"):
        program.work(assign(training={"learner": "elsewhere"}))


def test_the_program_ends_with_a_code_of_its_own_and_the_sentence_in_its_log(
    assign: Assign,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assignment = assign(training={"learner": "elsewhere"})
    monkeypatch.setenv(
        "HANSA_ASSIGNMENT", assignment.model_dump_json(by_alias=True, exclude_none=True)
    )
    assert programs.run_assignment("client", program.work) == Exit.PLUGIN_MISSING
    assert "spec.training.learner: got 'elsewhere', which no package here offers" in "".join(
        capfd.readouterr()
    )


def test_options_and_an_exploration_that_do_not_fit_end_a_client_before_it_plays(
    assign: Assign,
) -> None:
    with pytest.raises(InputError, match=r"spec.training.options.size: unknown field"):
        program.work(assign(training={"learner": "good", "options": {"size": 5}}))
    with pytest.raises(InputError, match=r"spec.exploration.samplesPerTask: got 1, expected 2"):
        program.work(assign(training={"learner": "comparing"}))


def test_a_missing_world_ends_a_client_with_the_same_code(assign: Assign) -> None:
    with pytest.raises(PluginMissing, match=r"spec.environments\[maze\].world: got 'cargo'"):
        tasks.make_world(assign(world="cargo", options={}))


@pytest.mark.parametrize(
    "learner, sentence",
    [
        ("no-choice", "spec.training.learner: no-choice chose list, expected Choice"),
        ("uneven", "uneven chose 1 episodes of which 2 are one example"),
        ("weightless", "weightless chose 2 episodes and 1 weights"),
    ],
)
def test_a_choice_that_cannot_be_trained_on_is_said_with_the_learners_name(
    learner: str, sentence: str
) -> None:
    with pytest.raises(PermanentError, match=sentence):
        learners.get_chooser(learner)(contract._play_fixture().shards, Experience(), 1)


def test_a_learner_that_makes_nothing_is_said_with_its_name() -> None:
    with pytest.raises(PermanentError, match="untrained trained NoneType, expected Trained"):
        contract._train(contract._make_training_set(contract.prepare("untrained", None)))


@pytest.mark.slow
@pytest.mark.parametrize("check", contract.CHECKS.values(), ids=contract.CHECKS.keys())
@pytest.mark.parametrize("learner", ["reward-weighted", "good"])
def test_a_good_learner_keeps_the_contract(learner: str, check: Any) -> None:
    check(contract.prepare(learner, None))


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner, check",
    [
        ("dice", "a choice repeats itself"),
        ("inventing", "a choice is of what is there"),
        ("assuming", "nothing to learn from is no error"),
        ("noisy", "training repeats itself bit for bit"),
        ("lazy", "what it trains is an adapter of the same shapes"),
        ("whole", "the half that is not trained stays"),
        ("spoiling", "the base model and the start stay as they were"),  # last: it spoils it
    ],
)
def test_the_contract_finds_a_broken_learner(learner: str, check: str) -> None:
    try:
        with pytest.raises((LearnerContractError, IndexError)):
            contract.CHECKS[check](contract.prepare(learner, None))
    finally:
        if learner == "spoiling":
            contract._play_fixture.cache_clear()
