"""A strategy of a package: the same Task and the same gate, and a sentence for what it makes."""

from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.aggregation import Aggregation
from hansa.api.plugin_fields import NoOptions
from hansa.core.errors import HansaError, InputError, PermanentError, PluginMissing
from hansa_server import contract
from hansa_server.contract import StrategyContractError
from hansa_server.strategies.mean import Mean
from tests.support import packages
from tests.support.merging import run
from tests.unit.hansa_server.rounds import Round, full_round

CODE = """
import itertools, random
import numpy as np
from dataclasses import replace
from hansa.manifests import plugins
from hansa_server.elementwise import make_mean_rule, merge_by_element
from hansa_server.plugin import StrategyPlugin
from hansa.api.strategies import MomentumOptions
from hansa_server.strategies.optimizers import FedAvgM
from hansa_server.merge_input import Merged, Pair

class Mean(StrategyPlugin):
    is_mean = True

    def merge(self, task):
        return merge_by_element(task, make_mean_rule(task, [1.0] * len(task.updates)))

class NoMerge(StrategyPlugin):
    def merge(self, task):
        return {}

class NoLayer(Mean):
    def merge(self, task):
        return replace(super().merge(task), layer=lambda module: None)

class Small(Mean):
    def merge(self, task):
        pair = Pair(np.zeros((1, 1)), np.zeros((1, 1)))
        return replace(super().merge(task), layer=lambda module: Merged(trained=pair))

class Forgetful(Mean):
    def merge(self, task):
        return replace(super().merge(task), moments=("m",))

class Remembering(StrategyPlugin):
    def merge(self, task):
        return FedAvgM(MomentumOptions()).merge(task)

class Dice(Mean):
    def merge(self, task):
        made = super().merge(task)
        def layer(module):
            pair = made.layer(module).trained
            return Merged(trained=Pair(pair.a + random.random(), pair.b))
        return replace(made, layer=layer)

class Drifting(Mean):
    def merge(self, task):
        made = super().merge(task)
        def layer(module):
            pair = made.layer(module).trained
            return Merged(trained=Pair(pair.a, pair.b * 1.01))
        return replace(made, layer=layer)

class Counting(Mean):
    def merge(self, task):
        made, count = super().merge(task), itertools.count()
        def layer(module):
            pair = made.layer(module).trained
            return Merged(trained=Pair(pair.a, pair.b + 1e-3 * next(count)))
        return replace(made, layer=layer)

class FirstOnly(Mean):
    def merge(self, task):
        if len(task.updates) == 1:
            raise IndexError("one alone")
        return super().merge(task)

class Laying(Mean):
    def merge(self, task):
        first = task.updates[0].file
        sign = 1.0 if first.order == sorted(first.order) else 0.5
        weights = [sign] + [1.0] * (len(task.updates) - 1)
        return merge_by_element(task, make_mean_rule(task, weights))

class Half(Mean):
    def merge(self, task):
        start = merge_by_element(task, lambda name, begin, end: (
            task.start.values(name, begin, end).astype(np.float64)
            + 0.5 * (make_mean_rule(task, [1.0] * len(task.updates))(name, begin, end)
            - task.start.values(name, begin, end))))
        return start
"""
KINDS = {
    "my-mean": "Mean",
    "no-merge": "NoMerge",
    "no-layer": "NoLayer",
    "small": "Small",
    "forgetful": "Forgetful",
    "remembering": "Remembering",
    "dice": "Dice",
    "drifting": "Drifting",
    "counting": "Counting",
    "first-only": "FirstOnly",
    "laying": "Laying",
    "half-way": "Half",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of good and bad strategies."""
    packages.install(tmp_path, "merges", CODE, {"hansa.strategies": KINDS}, monkeypatch)


def mine(**settings: object) -> dict[str, object]:
    return {"strategy": "my-mean", **settings}


def test_a_plug_in_that_is_the_mean_makes_the_bytes_of_mean_in_a_whole_round() -> None:
    """Gate, step that fits, diagnostics and audit entry are those of any strategy."""
    results = []
    for strategy in ("mean", "my-mean"):
        round_ = full_round(aggregation={"strategy": strategy}, server_step="auto")
        report = round_.aggregate()
        adapter = round_.store.objects[round_.global_key(bucket_keys.ADAPTER)]
        results.append((adapter, report.server_step, report.cosine, report.share))
    assert results[0] == results[1]


def test_a_hostile_update_is_refused_before_a_plug_in_sees_it() -> None:
    round_ = full_round(aggregation=mine(max_update_norm=1e-9))
    with pytest.raises(HansaError, match="updates"):
        round_.aggregate()


def test_a_round_whose_strategy_is_missing_stops_before_the_store_is_read() -> None:
    """Nobody has sent anything: a look at the store would say that first."""
    with pytest.raises(PluginMissing, match=r"spec.aggregation.strategy: got 'elsewhere'"):
        Round(aggregation={"strategy": "elsewhere"}).aggregate()


def test_a_step_that_fits_is_refused_where_a_plug_in_is_no_mean() -> None:
    with pytest.raises(InputError, match="serverStep: got auto with remembering, expected a num"):
        full_round(aggregation={"strategy": "remembering"}, server_step="auto").aggregate()


def test_what_a_plug_in_remembers_is_kept_beside_the_adapter() -> None:
    theirs = full_round(aggregation={"strategy": "fedavgm"})
    ours = full_round(aggregation={"strategy": "remembering"})
    theirs.aggregate()
    ours.aggregate()
    for name in (bucket_keys.ADAPTER, bucket_keys.STATE):
        key = ours.global_key(name)
        assert ours.store.objects[key] == theirs.store.objects[key]


@pytest.mark.parametrize(
    "strategy, sentence",
    [
        ("no-merge", "no-merge made dict of a task, expected hansa_server.merge_input.Merge"),
        ("no-layer", "no-layer made NoneType of layer"),
        ("small", r"got \(1, 1\), expected"),
        ("forgetful", r"forgetful remembers \[\] of layer .*, expected \['m'\]"),
    ],
)
def test_what_a_plug_in_makes_wrongly_is_said_with_its_name(strategy: str, sentence: str) -> None:
    start, updates = contract.make_case(contract.SHAPES["one layer, rank 1"], 2)
    with pytest.raises(PermanentError, match=sentence):
        run(start, updates, strategy=strategy)


@pytest.mark.parametrize("check", contract.CHECKS.values(), ids=contract.CHECKS.keys())
@pytest.mark.parametrize("strategy", ["my-mean", "remembering"])
def test_good_plug_ins_keep_the_contract(strategy: str, check) -> None:
    check(contract.prepare(strategy, None))


@pytest.mark.parametrize(
    "strategy, check",
    [
        ("dice", "equal members give equal bytes"),
        ("small", "the trained part has the starts shapes"),
        ("first-only", "the trained part has the starts shapes"),
        ("drifting", "members that did not move change nothing"),
        ("counting", "layers can be made in any order"),
        ("laying", "files may lie in any order"),
        ("half-way", "a step that fits is for means"),
    ],
)
def test_the_contract_finds_a_broken_plug_in(strategy: str, check: str) -> None:
    with pytest.raises((StrategyContractError, PermanentError, IndexError)):
        contract.CHECKS[check](contract.prepare(strategy, None))


def test_the_contract_finds_memories_and_options_that_are_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the guards of Hansa keep from happening, were they gone."""
    monkeypatch.setattr("hansa_server.plugin.get", lambda settings: Mean(NoOptions()).merge)
    with pytest.raises(StrategyContractError, match="noSuchOption was taken"):
        contract.unknown_options_are_refused(Aggregation(strategy="my-mean"))
