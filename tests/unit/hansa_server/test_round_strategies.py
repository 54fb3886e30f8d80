"""A round by each strategy: any order of members, the frozen part, the state, and what is said."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.aggregation import Aggregation
from hansa.api.bucket_documents import Counts, StartAdapter
from hansa_server.stream import _compute_weights
from tests.support import dense
from tests.support.merging import STRATEGIES, options_of
from tests.unit.hansa_server.rounds import (
    ENVIRONMENTS,
    PREFIX,
    RANK,
    SHAPES,
    Round,
    full_round,
    kill_before_write,
    read_manifest,
    tensors,
)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
FIVE = ("a", "b", "c", "d", "e")


def next_round(before: Round, **changes: Any) -> Round:
    """The round that starts from what another one made."""
    made = read_manifest(before)
    start = StartAdapter(round=before.number, sha256=made.files[bucket_keys.ADAPTER].sha256)
    return Round(
        number=before.number + 1,
        start=start,
        store=before.store,
        environments=before.environments,
        **{"aggregation": before.aggregation, **changes},
    )


@every_strategy
def test_members_in_any_order_give_equal_bytes(strategy):
    settings = {"strategy": strategy, "options": options_of(strategy, max_rank=5)}
    ordered = full_round(environments=FIVE, aggregation=settings, server_step=2.0)
    shuffled = full_round(environments=FIVE, aggregation=settings, server_step=2.0)
    shuffled.members = {name: shuffled.members[name] for name in ("c", "e", "a", "d", "b")}
    assert ordered.aggregate() == shuffled.aggregate()
    assert ordered.store.objects == shuffled.store.objects


@every_strategy
def test_three_rounds_run_on_and_are_described(strategy):
    round_ = full_round(
        environments=FIVE,
        aggregation={"strategy": strategy, "options": options_of(strategy, max_rank=12)},
    )
    for number in range(3):
        report = round_.aggregate()
        said = read_manifest(round_)
        config = json.loads(round_.store.objects[round_.global_key(bucket_keys.CONFIG)])
        for name, array in round_.result().items():
            rank = array.shape[0] if "lora_A" in name else array.shape[1]
            assert rank == RANK + said.frozen_rank == config["r"]
        assert config["lora_alpha"] / config["r"] == 16 / RANK
        assert (bucket_keys.STATE in said.files) is strategy.startswith("fed") & (
            strategy != "fedex"
        )
        assert len(report.cosine) == len(report.share) == 5
        assert sum(said.diagnostics.share.values()) == pytest.approx(1.0)
        round_ = next_round(round_)
        for position, environment in enumerate(FIVE):
            round_.send(environment, round_.trained(10 * number + position))


@pytest.mark.parametrize("strategy", ["flora", "fedex"])
def test_a_frozen_part_grows_until_the_bound_and_the_loss_is_told(strategy):
    exact = full_round(aggregation={"strategy": strategy, "options": {"maxRank": 3 * RANK}})
    exact.aggregate()
    assert (read_manifest(exact).frozen_rank, read_manifest(exact).compression) == (3 * RANK, 0.0)
    assert read_manifest(exact).diagnostics.error < 1e-6
    bounded = full_round(aggregation={"strategy": strategy, "options": {"maxRank": RANK}})
    bounded.aggregate()
    assert read_manifest(bounded).frozen_rank == RANK
    assert read_manifest(bounded).compression > 0.01
    assert read_manifest(bounded).diagnostics.error > 0.01


def test_a_state_is_used_by_the_same_strategy_only():
    first = full_round(aggregation={"strategy": "fedavgm"})
    first.aggregate()

    def after(strategy: str) -> lora.Tensors:
        later = next_round(first, aggregation={"strategy": strategy})
        later.store = type(first.store)()
        later.store.objects.update(first.store.objects)
        for position, environment in enumerate(ENVIRONMENTS):
            later.send(environment, tensors(50 + position))
        later.aggregate()
        return later.result()

    updates = [tensors(50 + position) for position in range(3)]
    mean = dense.mean(first.result(), updates, [1, 1, 1])
    np.testing.assert_allclose(dense.vector(after("mean")), mean, rtol=1e-5, atol=1e-6)
    origin = dense.vector(lora.init_adapter(SHAPES, RANK, 7))
    momentum = 0.9 * (dense.vector(first.result()) - origin)
    expected = dense.vector(first.result()) + momentum + (mean - dense.vector(first.result()))
    np.testing.assert_allclose(dense.vector(after("fedavgm")), expected, rtol=1e-5, atol=1e-6)


def test_weights_come_from_the_counts_and_none_counts_nothing_alone():
    round_ = full_round(
        aggregation={"strategy": "weighted-mean", "options": {"weightBy": "successes"}}
    )
    for position, environment in enumerate(ENVIRONMENTS):
        counts = Counts(explored=9, succeeded=position).to_json()
        round_.send(environment, tensors(position), counts=counts)
    round_.aggregate()
    updates = [tensors(position) for position in range(3)]
    expected = dense.mean(updates[0], updates, [0, 1, 2])
    np.testing.assert_allclose(dense.vector(round_.result()), expected, rtol=1e-5, atol=1e-6)
    unsuccessful = full_round(
        aggregation={"strategy": "weighted-mean", "options": {"weightBy": "successes"}}
    )
    for position, environment in enumerate(ENVIRONMENTS):
        unsuccessful.send(environment, tensors(position), counts=Counts().to_json())
    assert len(unsuccessful.aggregate().members) == 3


@pytest.mark.attack(
    by="a silo",
    does="sends an update far longer than the others'",
    result="refused (`norm`), from three members on",
)
@pytest.mark.parametrize(
    "settings, refused",
    [
        pytest.param({}, [(1, "norm")], id="ten times the median, as nobody said otherwise"),
        pytest.param(
            {"max_update_norm": 30.0, "max_norm_ratio": 1e9}, [(1, "norm")], id="a bound alone"
        ),
        pytest.param({"max_norm_ratio": 10.0}, [(1, "norm")], id="ten times the median"),
        pytest.param({"max_norm_ratio": 1e9}, [], id="a wide ratio"),
        pytest.param(
            {"max_update_norm": 1e6, "max_norm_ratio": 1.0},
            [(1, "norm")],
            id="the narrower",
        ),
    ],
)
def test_an_update_that_moved_too_far_is_refused_and_the_others_count(settings, refused):
    round_ = full_round(aggregation=settings)
    round_.send("babyai", tensors(0, scale=0.1))
    round_.send("maze", tensors(1, scale=1000.0))
    report = round_.aggregate()
    assert report.refused == refused
    assert len(report.members) == 3 - len(refused)


def test_each_bound_refuses_its_own_and_the_others_count():
    names = ("a", "b", "c", "d", "e")
    bounds = {"max_update_norm": 1000.0, "max_norm_ratio": 5.0}
    round_ = Round(environments=names, aggregation=bounds)
    for position, name in enumerate(names):
        round_.send(name, tensors(position, scale={"b": 5000.0, "d": 50.0}.get(name, 1.0)))
    report = round_.aggregate()
    assert (report.members, report.refused) == ([0, 2, 4], [(1, "norm"), (3, "norm")])


@pytest.mark.attack(
    by="a silo",
    does="evicts the other of two by hardly moving itself",
    result="of two updates, neither is compared with the other",
)
def test_of_two_updates_neither_is_the_measure_of_the_other():
    """A hostile one that hardly moves would evict an honest one in every round."""
    round_ = Round(environments=ENVIRONMENTS[:2], aggregation={"max_norm_ratio": 3.0})
    round_.send("babyai", tensors(0, scale=1e-6))
    round_.send("maze", tensors(1))
    assert round_.aggregate().refused == []


def shares_by_claim(*claims: int, **settings: Any) -> list[float]:
    """What members count who say that they trained on so many episodes."""
    offers = [SimpleNamespace(manifest=SimpleNamespace(counts=Counts(kept=n))) for n in claims]
    chosen = Aggregation(strategy="weighted-mean", **settings)
    weights = [counted for _, counted in _compute_weights(chosen, offers)]  # type: ignore[arg-type]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.attack(
    by="a silo",
    does="claims 2⁵³ episodes under `weighted-mean`",
    result="counts at most 3 times the median",
)
@pytest.mark.parametrize("others", [1, 2, 4, 9])
def test_no_claim_of_one_member_takes_the_mean(others):
    *honest, hostile = shares_by_claim(*[40] * others, 2**53)
    assert hostile == pytest.approx(3 / (others + 3))
    assert honest == [pytest.approx(1 / (others + 3))] * others


@pytest.mark.parametrize("claims", [[40, 50, 7], [10, 30], [0, 5, 0], [120, 40, 41]])
def test_claims_of_usual_sizes_count_as_they_are(claims):
    assert shares_by_claim(*claims) == [claim / sum(claims) for claim in claims]


@pytest.mark.parametrize("claims", [[3, 30], [400, 40, 41], [5, 4000, 8]])
def test_who_trusts_what_members_say_of_their_sizes_can_let_them_count(claims):
    trusting = {"options": {"maxWeightRatio": 1e9}}
    assert shares_by_claim(*claims, **trusting) == [claim / sum(claims) for claim in claims]


def test_who_counts_less_than_it_says_is_named_in_the_log(capsys, monkeypatch):
    """So that an honest silo with far more experience than the others is no riddle."""
    monkeypatch.setenv("HANSA_LOG", "json")
    round_ = Round(aggregation={"strategy": "weighted-mean"})
    for position, name in enumerate(ENVIRONMENTS):
        counts = {"kept": 4000 if name == "maze" else 40}
        round_.send(name, round_.trained(position), counts=counts)
    assert round_.aggregate().refused == []
    [line] = [line for line in capsys.readouterr().err.splitlines() if "weight_capped" in line]
    document = json.loads(line)
    assert (document["environment"], document["claimed"], document["counted"]) == (
        "maze",
        4000,
        120,
    )
    assert "aggregation.options.maxWeightRatio" in document["message"]


def test_who_did_not_move_makes_nobodys_step_too_long():
    round_ = full_round(aggregation={"max_norm_ratio": 3.0})
    for environment in ENVIRONMENTS[1:]:
        round_.send(environment, lora.init_adapter(SHAPES, RANK, 7))
    assert round_.aggregate().refused == []


def test_diagnostics_are_the_dense_figures_and_can_be_turned_off():
    round_ = full_round()
    round_.aggregate()
    said = read_manifest(round_).diagnostics
    start, new = lora.init_adapter(SHAPES, RANK, 7), round_.result()
    updates = {name: tensors(index) for index, name in enumerate(ENVIRONMENTS)}
    scale = 16 / RANK

    def change(of: lora.Tensors) -> Any:
        parts = [dense.product(of, m) - dense.product(start, m) for m in dense.modules(start)]
        return scale * np.concatenate([part.ravel() for part in parts])

    moved = change(new)
    exact = np.mean([change(update) for update in updates.values()], axis=0)
    assert said.norm == pytest.approx(np.linalg.norm(moved), rel=1e-6)
    error = np.linalg.norm(moved - exact) / np.linalg.norm(exact)
    assert said.error == pytest.approx(error, rel=1e-6)
    for name, update in updates.items():
        norm = np.linalg.norm(change(update))
        assert said.norms[name] == pytest.approx(norm, rel=1e-6)
        cosine = change(update) @ moved / norm / np.linalg.norm(moved)
        assert said.cosine[name] == pytest.approx(cosine, rel=1e-6)
        moved_by = lora.distance(update, start)
        assert said.factor_norms[name] == pytest.approx(moved_by, rel=1e-6)
    assert 1.0 <= said.effective_rank <= RANK
    silent = full_round(aggregation={"diagnostics": False})
    assert silent.aggregate().cosine == []
    assert read_manifest(silent).diagnostics is None


@pytest.mark.parametrize(
    "strategy, server_step",
    [("mean", 1.0), ("mean", "auto"), ("svd", 1.0), ("flora", 1.0), ("fedadam", 1.0)],
)
@pytest.mark.parametrize("write", range(5))
def test_killed_before_any_write_the_next_run_ends_with_the_same_bytes(
    strategy, server_step, write
):
    given = {"aggregation": {"strategy": strategy}, "server_step": server_step}
    undisturbed, round_ = full_round(**given), full_round(**given)
    undisturbed.aggregate()
    if write < len(undisturbed.store.written):
        kill_before_write(round_, write)
    round_.aggregate()
    assert round_.store.objects == undisturbed.store.objects


def test_thirty_six_members_are_merged():
    many = [f"environment-{index:02d}" for index in range(36)]
    round_ = full_round(environments=many, aggregation={"strategy": "fedex"})
    for _ in range(3):
        assert len(round_.aggregate().members) == 36
        round_ = next_round(round_)
        for position, environment in enumerate(many):
            round_.send(environment, tensors(position + round_.number))


def test_a_damaged_state_is_no_state():
    first = full_round(aggregation={"strategy": "fedadam"})
    first.aggregate()
    first.store.objects[first.global_key(bucket_keys.STATE)] = b"x" * 10
    later = next_round(first)
    for position, environment in enumerate(ENVIRONMENTS):
        later.send(environment, tensors(50 + position))
    with pytest.raises(Exception, match=bucket_keys.STATE):
        later.aggregate()


def test_a_bit_that_flipped_on_the_way_does_not_refuse_an_honest_member(monkeypatch):
    round_ = full_round()
    key = round_.key("maze", bucket_keys.ADAPTER)
    download, flipped = round_.store.download, []

    def once(name: str, path: Any, size: int, watch: Any = None) -> str:
        digest = download(name, path, size, watch)
        if name == key and not flipped:
            flipped.append(name)
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")
            return bucket_documents.sha256(path.read_bytes())
        return digest

    monkeypatch.setattr(round_.store, "download", once)
    assert round_.aggregate().refused == []
    assert flipped
    assert PREFIX in key
