"""Masks: they cancel to the bit in a sum over all silos, and hide everything in any other."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.adapter import lora, masking
from hansa.adapter.tensor_file import arrange
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts
from hansa.api.privacy import Privacy
from hansa.core.errors import InputError
from hansa.crypto import sealing
from hansa.crypto.keys import format_public_key

KEYS = {f"silo{number}": sealing.generate_opening_key() for number in range(7)}
CONTEXT: dict[str, Any] = {"round": 1, "epoch": 0}
SHAPES: lora.Shapes = {
    "base_model.model.up.lora_A.weight": (2, 6),
    "base_model.model.up.lora_B.weight": (5, 2),
}


def public(names: list[str]) -> dict[str, str]:
    return {name: KEYS[name].public for name in names}


def masked(name: str, names: list[str], values: Any, **context: Any) -> masking.Words:
    """What a silo would send of some whole numbers."""
    pairs = masking.pair_keys(KEYS[name], name, public(names), {**CONTEXT, **context})
    made = np.array(values, masking.WORD)
    masking.Masks(name, pairs).apply(made)
    return made


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 7), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_a_masked_sum_is_the_plain_sum_to_the_bit_in_any_order(
    silos: int, seed: int, order: Any
) -> None:
    random, names = np.random.default_rng(seed), sorted(KEYS)[:silos]
    count = int(random.integers(1, 200))
    plain = {name: random.integers(0, 2**32, count, dtype=np.uint32) for name in names}
    sent = {name: masked(name, names, plain[name]) for name in names}
    order.shuffle(names)
    total = sum((sent[name] for name in names), np.zeros(count, np.uint32))
    assert np.array_equal(total, sum(plain.values(), np.zeros(count, np.uint32)))


def test_a_sum_over_those_that_are_left_is_readable_once_they_mask_again_and_not_before() -> None:
    names, values = sorted(KEYS)[:5], np.arange(100)
    left = names[1:]
    before = sum((masked(n, names, values) for n in left), np.zeros(100, np.uint32))
    after = sum((masked(n, left, values, epoch=1) for n in left), np.zeros(100, np.uint32))
    assert not np.any(before == 4 * values)
    assert np.array_equal(after, 4 * values)


def test_pieces_of_any_length_get_the_same_masks() -> None:
    names, count = sorted(KEYS)[:3], masking.CHUNK + 1000
    pairs = masking.pair_keys(KEYS[names[0]], names[0], public(names), CONTEXT)
    whole, pieces = np.zeros(count, masking.WORD), np.zeros(count, masking.WORD)
    masking.Masks(names[0], pairs).apply(whole)
    masks, at = masking.Masks(names[0], pairs), 0
    for length in (1, 7, 64, 1000, count):
        masks.apply(pieces[at : at + length])
        at += length
    assert np.array_equal(whole, pieces)


def test_both_silos_of_a_pair_share_a_key_and_nobody_else_does() -> None:
    names = sorted(KEYS)[:4]
    keys = {n: masking.pair_keys(KEYS[n], n, public(names), CONTEXT) for n in names}
    assert all(keys[a][b] == keys[b][a] for a in names for b in names if a != b)
    assert len({key for shared in keys.values() for key in shared.values()}) == 6


@pytest.mark.parametrize(
    "change", [{"round": 2}, {"epoch": 1}, {"prefix": "other"}], ids=["round", "epoch", "run"]
)
def test_another_round_epoch_or_run_has_other_masks(change: dict[str, Any]) -> None:
    names = sorted(KEYS)[:3]
    zeros = np.zeros(50)
    assert not np.array_equal(
        masked("silo0", names, zeros), masked("silo0", names, zeros, **change)
    )


def test_other_silos_in_the_sum_mean_other_masks_for_every_pair() -> None:
    few, more = sorted(KEYS)[:3], sorted(KEYS)[:4]
    keys = [masking.pair_keys(KEYS["silo0"], "silo0", public(n), CONTEXT) for n in (few, more)]
    assert keys[0]["silo1"] != keys[1]["silo1"]


def test_what_one_silo_sends_looks_uniform() -> None:
    sent = masked("silo0", sorted(KEYS)[:3], np.zeros(2**16)).tobytes()
    seen = np.bincount(np.frombuffer(sent, np.uint8), minlength=256)
    expected = len(sent) / 256
    chi_square = float(np.sum((seen - expected) ** 2) / expected)
    assert abs(chi_square - 255) < 6 * math.sqrt(2 * 255)


def test_a_key_with_which_every_secret_is_the_same_is_refused() -> None:
    peers = {**public(["silo0", "silo1"]), "silo2": format_public_key("x25519", bytes(32))}
    with pytest.raises(InputError, match="masking key of silo2: got x25519:"):
        masking.pair_keys(KEYS["silo0"], "silo0", peers, CONTEXT)


@pytest.mark.parametrize(
    "silos, clip, bits",
    [(3, 1.0, 28), (4, 1.0, 28), (5, 1.0, 27), (100, 1.0, 23), (100, 0.01, 23), (3, 1.5, 27)],
)
def test_bits_behind_the_point(silos: int, clip: float, bits: int) -> None:
    assert masking.count_fraction_bits(silos, clip) == bits


@pytest.mark.parametrize("silos", [3, 7, 64, 100])
@pytest.mark.parametrize("clip", [0.5, 1.0, 3.0, 1000.0])
def test_no_sum_of_changes_within_the_clip_overflows(silos: int, clip: float) -> None:
    bits = masking.count_fraction_bits(silos, clip)
    for sign in (1.0, -1.0):
        one = masking.quantize(np.array([sign * clip]), 1.0, bits)
        total = np.array(silos * one.astype(np.uint64) % 2**32, masking.WORD)
        assert masking.dequantize(total, silos * masking.UNIT, bits)[0] == sign * clip


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 7), st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 3.0]))
def test_a_mean_is_exact_up_to_what_rounding_takes_and_its_norm_is_bounded(
    silos: int, seed: int, clip: float
) -> None:
    random, bits = np.random.default_rng(seed), masking.count_fraction_bits(silos, clip)
    units = random.integers(1, masking.UNIT + 1, silos)
    changes = random.standard_normal((silos, 300))
    changes *= clip / np.linalg.norm(changes, axis=1)[:, None]
    total = np.zeros(300, masking.WORD)
    for change, unit in zip(changes, units, strict=True):
        total += masking.quantize(change, float(unit) / masking.UNIT, bits)
    mean = masking.dequantize(total, int(units.sum()), bits)
    exact = (units[:, None] * changes).sum(axis=0) / units.sum()
    rounding = silos * 2.0**-bits / 2 / (units.sum() / masking.UNIT)
    assert np.max(np.abs(mean - exact)) <= rounding * (1 + 1e-9)
    bound = masking.max_mean_norm(clip, int(units.sum()), bits, silos, 300)
    assert np.linalg.norm(mean) <= bound
    alike = masking.quantize(changes[0], 1.0, bits) * np.uint32(silos)
    mean = masking.dequantize(alike, silos * masking.UNIT, bits)
    assert np.linalg.norm(mean) <= masking.max_mean_norm(
        clip, silos * masking.UNIT, bits, silos, 300
    )
    assert np.linalg.norm(1.01 * mean) > masking.max_mean_norm(clip, silos * 1024, bits, silos, 300)


@pytest.mark.parametrize(
    "norm, clip, factor", [(0.0, 1.0, 1.0), (0.5, 1.0, 1.0), (1.0, 1.0, 1.0), (4.0, 1.0, 0.25)]
)
def test_a_change_is_scaled_down_to_the_clip_and_never_up(
    norm: float, clip: float, factor: float
) -> None:
    assert masking.clip_factor(norm, clip) == factor


@pytest.mark.parametrize("half, numbers", [("both", 22), ("A", 12), ("B", 10)])
def test_a_body_has_the_adapters_head_and_numbers_of_the_trained_half(
    half: Any, numbers: int
) -> None:
    names, peers = masking.list_trained(SHAPES, half), sorted(KEYS)[:3]
    start = lora.init_adapter(SHAPES, 2, 7)
    own = {name: array + np.float32(0.25) for name, array in start.items()}
    head, _ = arrange(SHAPES)
    bits, total = masking.count_fraction_bits(3, 4.0), np.zeros(numbers, masking.WORD)
    for name in peers:
        pairs = masking.pair_keys(KEYS[name], name, public(peers), CONTEXT)
        pieces = masking.quantize_change(own, start, names, 0.5, bits)
        body = masking.write_masked(head, pieces, masking.Masks(name, pairs))
        assert body.startswith(head) and len(body) == len(head) + 4 * numbers
        total += np.frombuffer(body, masking.WORD, offset=len(head))
    assert masking.count_values(SHAPES, names) == numbers
    assert masking.dequantize(total, 3 * masking.UNIT, bits) == pytest.approx(0.125, abs=1e-7)


def assignment(**changes: Any) -> Assignment:
    document = {
        "role": "client",
        "federation": "fed",
        "seed": 7,
        "model": {},
        "adapter": {},
        "round": 1,
        "start": {},
        "settings": {"aggregation": {"secure": {}}},
        "storage": {"bucket": "bucket", "prefix": "run"},
        "environments": sorted(KEYS)[:3],
        "environment": "silo0",
        "world": "maze",
        "masking": {"peers": public(sorted(KEYS)[:3])},
        **changes,
    }
    return Assignment.model_validate_json(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        {"environment": "silo1"},
        {"world": "wordle"},
        {"options": {"size": 5}},
        {"demonstrations": 3},
        {"demonstrationsFrom": "/a/file"},
        {"experienceStorage": {"bucket": "own"}},
        {"evaluate": False},
    ],
    ids=lambda change: min(change),
)
def test_what_is_a_silos_own_does_not_change_its_masks(change: dict[str, Any]) -> None:
    assert masking.mask_context(assignment(**change)) == masking.mask_context(assignment())


@pytest.mark.parametrize(
    "change",
    [
        {"round": 2},
        {"seed": 8},
        {"start": {"round": 1, "sha256": "a" * 64}},
        {"storage": {"bucket": "bucket", "prefix": "other"}},
        {"masking": {"epoch": 1, "peers": public(sorted(KEYS)[:3])}},
        {"settings": {"aggregation": {"secure": {}}, "training": {"epochs": 3}}},
        {"settings": {"aggregation": {"secure": {"clipNorm": 0.9}}}},
    ],
    ids=["round", "seed", "start", "prefix", "epoch", "training", "clip"],
)
def test_another_run_or_round_means_other_masks(change: dict[str, Any]) -> None:
    assert masking.mask_context(assignment(**change)) != masking.mask_context(assignment())


PRIVACY = {
    "epsilon": 8,
    "delta": 1e-5,
    "clipNorm": 0.5,
    "noiseMultiplier": 1.0,
    "samplingRate": 0.1,
}


@pytest.mark.parametrize(
    "settings_, weight",
    [
        pytest.param({}, 1024, id="a mean counts all alike"),
        pytest.param({"strategy": "weighted-mean"}, 100, id="by examples"),
        pytest.param(
            {"strategy": "weighted-mean", "options": {"weightBy": "successes"}},
            7,
            id="by successes",
        ),
    ],
)
def test_a_weight_is_what_the_silo_has(settings_: dict[str, Any], weight: int) -> None:
    client_assignment = assignment(settings={"aggregation": {"secure": {}, **settings_}}).settings
    assert masking.choose_weight(client_assignment, Counts(kept=100, succeeded=7)) == weight
    least, most = Counts(kept=0, succeeded=0), Counts(kept=5000, succeeded=5000)
    assert masking.choose_weight(client_assignment, least) == (1 if weight < 1024 else 1024)
    assert masking.choose_weight(client_assignment, most) == 1024
    private = client_assignment.model_copy(update={"privacy": Privacy.model_validate(PRIVACY)})
    assert masking.choose_weight(private, Counts(explored=4)) == 1024
