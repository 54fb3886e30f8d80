"""The builtin model without transformers and PEFT computes bit for bit what it computes by them."""

from typing import Any

import numpy as np
import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.api.spec import Adapter, Training
from hansa.core.errors import PermanentError
from hansa_client import learners
from hansa_client.experience import demonstrations
from hansa_client.learners import TrainingSet
from hansa_client.models import kv_slots, lora, slot_attention
from hansa_client.models.base_model import Base
from hansa_client.models.builtin.llama import Llama
from hansa_client.training.adamw import AdamW
from hansa_client.trajectory import render_all
from hansa_worlds import DEMO_OPTIONS, make

TEXTS = ["Reach the goal.", "There is a wall above you. " * 9, "move <|end|>up", "żółw 4, 2\n", ""]


def test_only_the_builtin_model_does_without_the_library(base: Base, by_library: Base) -> None:
    assert isinstance(base.model, Llama)
    assert type(by_library.model).__name__ == "LlamaForCausalLM"
    ours, theirs = base.model.state_dict(), by_library.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert base.cap_length(10**6) == by_library.cap_length(10**6) == 2048


@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 9), (3, 40), (2, 300)])
def test_logits_are_equal_without_a_cache(
    base: Base, by_library: Base, rows: int, columns: int
) -> None:
    ids = torch.from_numpy(
        np.random.Generator(np.random.Philox(1)).integers(6, 768, (rows, columns))
    ).to(base.device)
    with torch.inference_mode():
        ours, theirs = base.model(input_ids=ids), by_library.model(input_ids=ids)
    assert torch.equal(ours.logits, theirs.logits)


def test_logits_are_equal_over_turns_of_uneven_rows_in_slots(base: Base, by_library: Base) -> None:
    random = np.random.Generator(np.random.Philox(2))
    turns = [[3, 17, 5], [1, 1, 1], [4, 0, 4], [1, 0, 200]]
    kept = [kv_slots.KVSlots(3, 500), kv_slots.KVSlots(3, 500)]
    lengths = [0, 0, 0]
    for widths in turns:
        spans = [
            kv_slots.Span(row, lengths[row], width) for row, width in enumerate(widths) if width
        ]
        lengths = [length + width for length, width in zip(lengths, widths, strict=True)]
        tokens = torch.from_numpy(random.integers(6, 768, sum(widths)))
        last = torch.arange(len(tokens))
        found = []
        for each, own in zip((base, by_library), kept, strict=True):
            own.reserve(max(lengths))
            with torch.inference_mode(), slot_attention.install(each.model):
                planned = kv_slots.make_plan(own, spans, each.model)
                found.append(slot_attention.forward(each.model, own, planned, tokens, last))
        assert torch.equal(*found)


def lesson(base: Base, settings: Adapter) -> TrainingSet:
    world = make("maze", DEMO_OPTIONS["maze"])
    shown = [
        demonstrations._play_expert_task(world, task, base.chat, 1, thoughts=False)
        for task in world.tasks("train")[:8]
    ]
    return TrainingSet(
        sequences=[render_all(episode, 1024)[0] for episode in shown],
        start=adapter.init_adapter(lora.shapes(base.model, settings), settings.rank, 7),
        adapter=settings,
        training=Training(learning_rate=3e-3, batch_tokens=512, epochs=2),
        seed=5,
    )


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(Adapter(), id="folded layers"),
        pytest.param(Adapter(rank=1, alpha=3), id="layers beside one another"),
        pytest.param(Adapter(dropout=0.2), id="dropout"),
        pytest.param(Adapter(target_modules=["q_proj", "layers.1.mlp.up_proj"]), id="named layers"),
    ],
)
def test_training_gives_the_bytes_that_peft_gives(
    base: Base, by_library: Base, settings: Adapter
) -> None:
    given = lesson(base, settings)
    assert lora.shapes(base.model, settings) == lora.shapes(by_library.model, settings)
    train = learners.get("success-sft")
    ours, theirs = (train(each, given, lambda done, all_: None) for each in (base, by_library))
    assert adapter.encode(ours.tensors) == adapter.encode(theirs.tensors)
    assert adapter.encode(ours.tensors) != adapter.encode(given.start)
    assert ours.loss == theirs.loss


def test_an_adapter_is_merged_alike(base: Base, by_library: Base) -> None:
    settings = Adapter()
    tensors = {
        name: array + np.float32(0.01) for name, array in lesson(base, settings).start.items()
    }
    ids = torch.tensor([[1, 5, 9, 22, 17, 4, 30, 12]], device=base.device)
    found = []
    for each in (base, by_library):
        with torch.inference_mode(), lora.merge_adapter(each.model, settings, tensors):
            found.append(each.model(input_ids=ids).logits)
    assert torch.equal(*found)


@pytest.mark.parametrize(
    "names", [["nose"], ["mlp"], ["embed_tokens"], ["q_proj", "input_layernorm"]]
)
def test_targets_that_are_no_linear_layers_are_refused_with_their_field(
    base: Base, names: list[str]
) -> None:
    with pytest.raises(PermanentError, match=r"^spec\.adapter\.targetModules: got \["):
        lora.shapes(base.model, Adapter(target_modules=names))


def test_the_tokenizer_reads_writes_and_frames_as_the_librarys(
    base: Base, by_library: Base
) -> None:
    ours, theirs = base.chat, by_library.chat
    assert vars(worked_out(ours)) == vars(worked_out(theirs))
    for first in (True, False):
        assert ours.encode_observations(TEXTS, first=first) == theirs.encode_observations(
            TEXTS, first=first
        )
    assert ours.encode_actions(TEXTS) == theirs.encode_actions(TEXTS)
    rows = [*ours.encode_actions(TEXTS), list(range(768)), []]
    assert ours.decode_all(rows) == theirs.decode_all(rows)


def worked_out(chat: Any) -> Any:
    """What a chat has worked out of its tokenizer."""
    copy = type(chat).__new__(type(chat))
    vars(copy).update({name: value for name, value in vars(chat).items() if name != "_tokenizer"})
    return copy


def test_the_spelled_out_template_is_the_one_in_the_folder(by_library: Base, base: Base) -> None:
    dialogue = [
        {"role": role, "content": text}
        for role, text in zip(["user", "assistant", "user"], TEXTS, strict=False)
    ]
    for prompt in (True, False):
        how: dict[str, Any] = {"tokenize": False, "add_generation_prompt": prompt}
        ours, theirs = (
            each.chat._tokenizer.apply_chat_template(dialogue, **how) for each in (base, by_library)
        )
        assert ours == theirs


def test_the_optimizer_takes_the_steps_of_torchs_own() -> None:
    torch.manual_seed(1)
    start = [torch.randn(8, 16), torch.randn(16, 8), torch.randn(3)]
    found = []
    for own in (True, False):
        weights = [tensor.clone().requires_grad_() for tensor in start]
        ours = AdamW({str(i): weight for i, weight in enumerate(weights)})
        theirs = torch.optim.AdamW(weights, weight_decay=0.0, fused=True)
        for step in range(5):
            loss = (weights[0] @ weights[1]).square().sum()
            if step % 2:  # at other steps, one weight has no gradient
                loss = loss + weights[2].sum() * step
            loss.backward()
            rate = 1e-2 / (step + 1)
            if own:
                ours.step(rate)
            else:
                theirs.param_groups[0]["lr"] = rate
                theirs.step()
                theirs.zero_grad(set_to_none=True)
        found.append(weights)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert not torch.equal(found[0][2], start[2])
