"""A builtin strategy and a builtin learner are one file and one line of a table each."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hansa_client.learners
import hansa_server.strategies
from hansa.api import learners, strategies
from hansa.api.learners import LearnerEntry
from hansa.api.spec import Experience
from hansa.api.strategies import StrategyEntry
from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.manifests import load
from hansa_client.learners import get_chooser
from hansa_server import contract
from tests.support import dense
from tests.support.merging import run

STRATEGY = """
from hansa_server.elementwise import choose_stack_block, make_stack_rule, merge_by_element
from hansa_server.plugin import StrategyPlugin

class Between(StrategyPlugin):
    def merge(self, task):
        p = self.options.place
        rule = make_stack_rule(task, lambda rows: rows.min(axis=0) * (1 - p) + rows.max(axis=0) * p)
        return merge_by_element(task, rule, block=choose_stack_block(task))
"""
LEARNER = """
from hansa_client.learners.base import Choice
from hansa_client.learners.plugin import LearnerPlugin

class Idle(LearnerPlugin):
    def choose(self, shards, rules, round_):
        return Choice(episodes=[])

    def train(self, base, lesson, progress):
        raise NotImplementedError
"""


class BetweenOptions(Model):
    """Where between the smallest and the largest value."""

    place: float = 0.5


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files, and their lines of the tables."""
    for package, name, code in (
        (hansa_server.strategies, "between", STRATEGY),
        (hansa_client.learners, "idle", LEARNER),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    between = StrategyEntry("between:Between", "between the extremes", BetweenOptions)
    monkeypatch.setitem(strategies.BUILTIN, "between", between)
    monkeypatch.setitem(learners.BUILTIN, "idle", LearnerEntry("idle:Idle", "nothing"))
    yield
    for module in ("hansa_server.strategies.between", "hansa_client.learners.idle"):
        sys.modules.pop(module, None)


def built(**aggregation: Any) -> None:
    environments = [{"name": "maze", "world": "maze"}]
    spec = {"environments": environments, "aggregation": {"strategy": "between", **aggregation}}
    spec["training"] = {"learner": "idle"}
    kind = {"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation"}
    load.check_on_machine(load.build({**kind, "metadata": {"name": "added"}, "spec": spec}))


def test_it_is_validated_by_its_own_model() -> None:
    built()
    built(options={"place": 0.25})
    for wrong, sentence in (
        ({"options": {"plaec": 1}}, "spec.aggregation.options.plaec: unknown field, did you mean"),
        ({"options": {"place": "x"}}, "spec.aggregation.options.place: got 'x', expected a number"),
        ({"options": {"trim": 0.1}}, "spec.aggregation.options.trim: unknown field, expected one"),
        ({"serverStep": "auto"}, "spec.aggregation.serverStep: got auto with between"),
    ):
        with pytest.raises(InputError) as refused:
            built(**wrong)
        assert refused.value.message.startswith(sentence)


def test_it_merges_with_its_options() -> None:
    start, updates = contract.make_case(contract.SHAPES["one layer, rank 1"], 3)
    least = run(start, updates, strategy="between", options={"place": 0.0})
    expected = np.min([dense.vector(update) for update in updates], axis=0)
    np.testing.assert_allclose(dense.vector(least.tensors), expected, rtol=1e-5)


def test_a_learner_is_found_in_the_same_way() -> None:
    assert get_chooser("idle")([], Experience(), 1).episodes == []
