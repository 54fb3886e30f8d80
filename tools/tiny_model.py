"""Make `builtin:tiny`: a Llama of one million parameters that has seen the worlds played, badly.

    python tools/tiny_model.py --out client_image/hansa_client/builtin/tiny \\
        --tokens 1.5e9 --minutes 6.5

It wants a GPU and a dozen cores: on an H200 the clock ended it at 865 million tokens. The words
are the worlds' own, so goals and words of test tasks are known to the model; the tasks are not.
A run that ends by the clock cannot be repeated bit for bit; one that ends by tokens sees the same
data in the same order. The shipped weights met an earlier babyai expert, which gave up where both
cells beside a thing were taken (two rooms in a hundred).
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "client_image"), str(ROOT / "tools")]

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from hansa_client.worlds import DEMO_OPTIONS  # noqa: E402
from tiny import evaluate, play, tokens  # noqa: E402

OBSERVED = 0.2
"""Loss weight of tokens that the world wrote: enough to learn its words, not to be led by them."""


def arguments() -> argparse.Namespace:
    """The recipe, every part of it changeable."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=float, default=1e9, help="padding not counted")
    parser.add_argument("--minutes", type=float, default=1e9, help="wall-clock cap of the training")
    parser.add_argument("--episodes", type=int, default=768, help="per optimizer step")
    parser.add_argument("--parts", type=int, default=2, help="pieces of a step, by length")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--tasks", type=int, default=384, help="evaluated per world")
    return parser.parse_args()


def build(vocabulary: dict[str, int], hidden: int, layers: int) -> LlamaForCausalLM:
    """The untrained model."""
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        intermediate_size=hidden * 3,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=vocabulary[tokens.BOS],
        eos_token_id=vocabulary[tokens.END],
        pad_token_id=vocabulary[tokens.PAD],
    )
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call]


def loss_of(model: Any, rows: torch.Tensor, pad: int) -> torch.Tensor:
    """Weighted sum of the losses; right padding needs no attention mask."""
    marked = rows[:, 1:]
    targets = marked & (play.ACTED - 1)
    weights = torch.where(marked >= play.ACTED, 1.0, OBSERVED) * (targets != pad)
    logits = model(input_ids=rows[:, :-1] & (play.ACTED - 1), use_cache=False).logits
    losses = functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), reduction="none"
    )
    return (losses * weights.flatten()).sum()


def mass_of(part: play.Rows, pad: int) -> float:
    """Sum of the weights, counted on the host so that the device need not wait."""
    acted = int((part >= play.ACTED).sum())
    return acted + OBSERVED * (int((part != pad).sum()) - acted - len(part))


def start_players(
    vocabulary: dict[str, int], given: argparse.Namespace
) -> tuple[list[Any], list[Any]]:
    """Processes that play without end, each with a queue of its own."""
    context = multiprocessing.get_context("fork")
    queues: list[Any] = [context.Queue(4) for _ in range(given.workers)]
    workers = [
        context.Process(
            target=play.produce,
            args=(queue, vocabulary, given.seed, index, given.episodes, given.parts),
            daemon=True,
        )
        for index, queue in enumerate(queues)
    ]
    for worker in workers:
        worker.start()
    return workers, queues


def rate_at(step: int, progress: float, peak: float) -> float:
    """Cosine to 1 % of the peak after 200 steps of warm-up."""
    fall = 0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2
    return peak * min(1.0, (step + 1) / 200) * fall


def train(model: Any, vocabulary: dict[str, int], given: argparse.Namespace) -> dict[str, float]:
    """Run the schedule on tokens or, if that ends first, on the clock."""
    workers, queues = start_players(vocabulary, given)
    # Only now: a forked process must not have met CUDA.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=given.rate, betas=(0.9, 0.95), weight_decay=0.01, fused=True
    )
    pad = vocabulary[tokens.PAD]
    began = said = time.monotonic()
    seen, step, progress, waited = 0, 0, 0.0, 0.0
    while progress < 1:
        before = time.monotonic()
        batch = queues[step % len(queues)].get()  # in turn: the same data order on every run
        waited += time.monotonic() - before
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, progress, given.rate)
        total = torch.zeros((), device=device)
        mass = sum(mass_of(part, pad) for part in batch)
        for part in batch:
            rows = torch.from_numpy(part.astype("int32")).to(device, non_blocking=True).long()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = loss_of(model, rows, pad) / mass
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
            seen += int((part != pad).sum())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        now = time.monotonic()
        progress = max(seen / given.tokens, (now - began) / 60 / given.minutes)
        if now - said > 10 or progress >= 1:
            said = now
            print(
                f"step {step} tokens {seen / 1e6:.1f}M loss {float(total):.4f} "
                f"{seen / (now - began) / 1e6:.2f}M tokens/s "
                f"waited {waited:.0f}s of {now - began:.0f}s",
                flush=True,
            )
    for worker in workers:
        worker.terminate()
    return {"tokens": seen, "steps": step, "seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    """Tokenizer, model, scores: what `--out` holds afterwards is the whole of `builtin:tiny`."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    vocabulary = tokens.vocabulary()
    tokens.save(vocabulary, given.out)
    torch.manual_seed(given.seed)
    model = build(vocabulary, given.hidden, given.layers)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{len(vocabulary)} tokens, {size} parameters", flush=True)
    trained = train(model, vocabulary, given)
    model.save_pretrained(given.out)
    (given.out / "model.safetensors").chmod(0o644)
    coder = tokens.Coder(vocabulary)
    model.eval()  # type: ignore[no-untyped-call]
    scores: dict[str, Any] = {}
    for name in sorted(DEMO_OPTIONS):
        scores[name] = {
            label: evaluate.success(model, coder, name, given.tasks, temperature, given.seed)
            for label, temperature in (("sampled", 1.0), ("greedy", 0.0))
        }
        print(name, scores[name], flush=True)
    for label in ("sampled", "greedy"):
        macro = sum(scores[name][label]["success"] for name in DEMO_OPTIONS) / len(DEMO_OPTIONS)
        scores[f"macro_{label}"] = round(macro, 4)
    recipe = {key: str(value) for key, value in vars(given).items() if key != "out"}
    report = {
        "scores": scores,
        "recipe": recipe,
        "trained": trained,
        "options": DEMO_OPTIONS,
        "parameters": size,
        "torch": torch.__version__,
    }
    (given.out / "base_scores.json").write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    print(json.dumps({key: scores[key] for key in ("macro_sampled", "macro_greedy")}), flush=True)


if __name__ == "__main__":
    main()
