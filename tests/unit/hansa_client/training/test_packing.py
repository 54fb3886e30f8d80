"""What a GPU trains by: packed rows, sliced logits and fused layers compute what plain ones do."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.learners import TrainingSet, loop
from hansa_client.models import fused_layers, lora
from hansa_client.models.base_model import Base
from hansa_client.training import packing, scoring, sliced_logits
from hansa_client.training.scoring import PackedScorer, Scorer
from tests.unit.hansa_client.learners.gradients import sequences

SHAPE = Adapter(rank=4)


@pytest.fixture(scope="module")
def tensors(library: Base) -> Tensors:
    """An adapter that has left its start: B is no longer zero."""
    made = adapter.init_adapter(lora.shapes(library.model, SHAPE), SHAPE.rank, 7)
    drawn = np.random.default_rng(1)
    return {n: a + 0.1 * drawn.standard_normal(a.shape, np.float32) for n, a in made.items()}


@pytest.fixture
def wrapped(library: Base, tensors: Tensors) -> Iterator[Any]:
    attached = lora.attach(library.model, SHAPE, tensors)
    yield attached
    lora.detach(attached)


GIVEN = sequences(7, 30, 2, 19)


def gradients(wrapped: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    loss.backward()  # type: ignore[no-untyped-call]
    found = {n: w.grad for n, w in wrapped.named_parameters() if w.grad is not None}
    wrapped.zero_grad()
    return found


def assert_same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-4, atol=1e-5)


def test_packed_trajectories_score_as_padded_ones_do(wrapped: Any, library: Base) -> None:
    packed, padded = (kind(wrapped, library.device) for kind in (PackedScorer, Scorer))
    ours, our_rows = packed.logprobs(GIVEN)
    theirs, their_rows = padded.logprobs(GIVEN)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert torch.equal(our_rows, their_rows)
    assert_same(
        gradients(wrapped, packed.loss(GIVEN)),
        gradients(wrapped, padded.loss(GIVEN)),
    )


@pytest.mark.parametrize("room", [1, 2**20], ids=["one by one", "all at once"])
def test_packed_trajectories_have_the_entropy_of_each_alone(
    library: Base, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(scoring, "_READ_TOKENS", room)
    monkeypatch.setattr(sliced_logits, "SLICE_BYTES", 4 * 3 * library.model.config.vocab_size)
    with torch.inference_mode():
        alone, packed = (
            torch.cat(list(kind(library.model, library.device).compute_entropies(GIVEN)))
            for kind in (Scorer, PackedScorer)
        )
    torch.testing.assert_close(packed.sort()[0], alone.sort()[0], rtol=1e-4, atol=1e-5)
    assert scoring.measure_entropy(library, GIVEN) == pytest.approx(float(packed.mean()), rel=1e-4)
    assert scoring.measure_entropy(library, []) is None


def test_a_packed_trajectory_does_not_see_its_neighbours(wrapped: Any, library: Base) -> None:
    scorer = PackedScorer(wrapped, library.device)
    with torch.inference_mode():
        alone = scorer.logprobs(GIVEN[1:2])[0]
        for neighbours in (sequences(5), sequences(40)):
            found, rows = scorer.logprobs([*neighbours, GIVEN[1]])
            torch.testing.assert_close(found[rows == 1], alone, rtol=1e-4, atol=1e-5)


def test_packing_leaves_the_model_as_it_was(wrapped: Any, library: Base) -> None:
    before = library.model.config._attn_implementation
    PackedScorer(wrapped, library.device).loss(GIVEN)
    assert library.model.config._attn_implementation == before
    assert "forward" not in vars(library.model.get_output_embeddings())


@pytest.mark.parametrize("size", [1, 5, 2**30], ids=["row by row", "in slices", "at once"])
def test_slices_of_logits_give_the_likelihoods_and_slopes_of_all(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(sliced_logits, "SLICE_BYTES", 4 * 50 * size)
    torch.manual_seed(1)
    states = torch.randn(17, 8, requires_grad=True)
    weight, targets = torch.randn(50, 8), torch.randint(50, (17,))
    scale = torch.randn(17)
    ours = sliced_logits.compute_logprobs(states, weight, targets)
    expected = -torch.nn.functional.cross_entropy(states @ weight.T, targets, reduction="none")
    torch.testing.assert_close(ours, expected)
    (slope,) = torch.autograd.grad((ours * scale).sum(), states)
    (wanted,) = torch.autograd.grad((expected * scale).sum(), states)
    torch.testing.assert_close(slope, wanted)
    with torch.no_grad():
        assert not sliced_logits.compute_logprobs(states, weight, targets).requires_grad


def test_fused_layers_compute_what_the_libraries_do(wrapped: Any, library: Base) -> None:
    scorer = Scorer(wrapped, library.device)
    plain = scorer.loss(GIVEN)
    theirs = gradients(wrapped, plain)
    with fused_layers.fuse_layers(wrapped, dropout=0.0):
        ours = scorer.loss(GIVEN)
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-4)
        assert_same(gradients(wrapped, ours), theirs)
    assert not any("forward" in vars(layer) for layer in wrapped.modules())


def test_packed_fused_and_recomputed_at_once_is_still_the_same(wrapped: Any, library: Base) -> None:
    theirs = gradients(wrapped, Scorer(wrapped, library.device).loss(GIVEN))
    wrapped.train()
    with (
        fused_layers.fuse_layers(wrapped, dropout=0.0),
        loop.use_checkpointing(wrapped, True),
        packing.use_packed_attention(wrapped),
    ):
        ours = gradients(wrapped, PackedScorer(wrapped, library.device).loss(GIVEN))
    wrapped.eval()
    assert_same(ours, theirs)


def test_what_fills_a_frame_changes_nothing(wrapped: Any, library: Base) -> None:
    lengths = [len(sequence) for sequence in GIVEN]
    scorer = PackedScorer(wrapped, library.device)
    theirs = gradients(wrapped, scorer.loss(GIVEN))
    scorer.expect([lengths] * 8)
    assert_same(gradients(wrapped, scorer.loss(GIVEN)), theirs)
    frame = packing.Frame.from_lengths([lengths, [30, 1]])
    for given in (GIVEN, GIVEN[:1], GIVEN[1:]):
        row = packing.PackedRow.pack([sequence.tokens for sequence in given], library.device, frame)
        assert row.tokens.shape == row.positions.shape == (1, frame.tokens)
        assert row.bounds.shape == (frame.sequences + 1,)
        assert int(row.bounds[-1]) == frame.tokens
        assert max(row.lengths) == frame.longest == 30


def test_one_half_alone_can_be_trained_fused(wrapped: Any, library: Base) -> None:
    lora.train_only(wrapped, "B")
    with fused_layers.fuse_layers(wrapped, dropout=0.0):
        found = gradients(wrapped, Scorer(wrapped, library.device).loss(GIVEN))
    assert found
    assert all(".lora_B." in name for name in found)


def test_what_cannot_be_packed_is_padded(library: Base, base: Base) -> None:
    gpu = torch.device("cuda")
    for given, device, kind in (
        (library.model, library.device, Scorer),
        (library.model, gpu, PackedScorer),
        (base.model, gpu, Scorer),
    ):
        with scoring.open_scorer(given, device, may_record=True) as chosen:
            assert type(chosen) is kind
    config = library.model.config
    for fits, name, value in (
        (packing.can_pack, "sliding_window", 64),
        (packing.can_pack, "layer_types", ["linear_attention", "full_attention"]),
        (sliced_logits.can_slice, "final_logit_softcapping", 30.0),
    ):
        setattr(config, name, value)
        assert not fits(library.model)
        setattr(config, name, None)
        assert fits(library.model)


def test_recomputed_activations_change_nothing(library: Base, tensors: Tensors) -> None:
    def trained(**fields: Any) -> Tensors:
        lesson = TrainingSet(
            sequences=GIVEN,
            start=tensors,
            adapter=SHAPE,
            training=Training(learning_rate=1e-3, epochs=2, batch_tokens=64, **fields),
            seed=5,
        )
        return learners.get("success-sft")(library, lesson, lambda done, total: None).tensors

    plain, checked = trained(), trained(gradient_checkpointing=True)
    assert adapter.encode(plain) == adapter.encode(checked)
