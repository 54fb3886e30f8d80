"""Make `builtin:tiny`: a Llama of one million parameters that has seen the worlds played, badly.

    python tools/tiny_model.py --out client_image/hansa_client/models/builtin/tiny \\
        --tokens 5e9 --deadline 340 --episodes 1024 --parts 3 --reuse babyai=3 webshop=3 --tasks 300

It wants a GPU and a dozen cores: on an H200 the clock ended it at 466 million tokens. The words
are the worlds' own, so goals and words of test tasks are known to the model; the tasks are not.
What is played, and how well, is `tiny/play.py`'s table.
A run that ends by the clock cannot be repeated bit for bit; one that ends by tokens sees the same
data in the same order.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import queue
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "worlds"), str(ROOT / "client_image"), str(ROOT / "tools")]

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from hansa_worlds import DEMO_OPTIONS  # noqa: E402
from tiny import evaluate, play, tokens  # noqa: E402

STARTED = time.monotonic()
PATIENCE = 30
"""Seconds after which a generator counts as lost."""
NOT_RECIPE = ("out", "words", "only_score", "no_score", "tasks")
OBSERVED = 0.2
"""Loss weight of tokens that the world wrote: enough to learn its words, not to be led by them."""


def reused(text: str) -> tuple[str, int]:
    """`babyai=4`."""
    name, _, times = text.partition("=")
    return name, int(times)


def arguments() -> argparse.Namespace:
    """The recipe, every part of it changeable."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=float, default=1e9, help="padding not counted")
    parser.add_argument("--minutes", type=float, default=1e9, help="wall-clock cap of the training")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds from the start on")
    parser.add_argument("--only-score", action="store_true", help="measure what --out holds")
    parser.add_argument("--no-score", action="store_true", help="leave that for later")
    parser.add_argument("--episodes", type=int, default=768, help="per optimizer step")
    parser.add_argument("--parts", type=int, default=6, help="pieces of a step, by length")
    parser.add_argument("--texts", type=int, default=2000, help="episodes the words are taken from")
    parser.add_argument("--words", type=Path, help="a tokenizer.json whose words are taken instead")
    parser.add_argument(
        "--reuse", type=reused, nargs="*", default=[], help="babyai=4: show its episodes four times"
    )
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
        max_position_embeddings=evaluate.CONTEXT,
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
            args=(
                queue,
                vocabulary,
                given.seed,
                index,
                given.episodes,
                given.parts,
                dict(given.reuse),
            ),
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


class Players:
    """The generators' batches, in turn: the same data in the same order on every run.

    A generator that does not answer is left out, and says where it is: waiting for it would
    waste the device.
    """

    def __init__(self, vocabulary: dict[str, int], given: argparse.Namespace) -> None:
        self._workers, self._queues = start_players(vocabulary, given)
        self._turn = 0
        self.waited = 0.0

    def batch(self) -> list[play.Rows]:
        """The next batch."""
        before = time.monotonic()
        while True:
            place = self._turn % len(self._queues)
            try:
                batch: list[play.Rows] = self._queues[place].get(timeout=PATIENCE)
            except queue.Empty:
                lost = self._workers.pop(place)
                self._queues.pop(place)
                print(
                    f"lost a generator: alive {lost.is_alive()}, exit {lost.exitcode}", flush=True
                )
                if lost.is_alive():
                    os.kill(lost.pid, signal.SIGUSR1)  # it prints its stack
                continue
            self._turn += 1
            self.waited += time.monotonic() - before
            return batch

    def stop(self) -> None:
        """End the generators."""
        for worker in self._workers:
            worker.terminate()


def train(model: Any, vocabulary: dict[str, int], given: argparse.Namespace) -> dict[str, float]:
    """Run the schedule on tokens or, if that ends first, on the clock."""
    players = Players(vocabulary, given)
    # Only now: a forked process must not have met CUDA.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=given.rate, betas=(0.9, 0.95), weight_decay=0.01, fused=True
    )
    pad = vocabulary[tokens.PAD]
    began = said = time.monotonic()
    end = min(began + 60 * given.minutes, STARTED + given.deadline)
    print(f"training from {began - STARTED:.0f} s to {end - STARTED:.0f} s", flush=True)
    seen, step, progress = 0, 0, 0.0
    while progress < 1:
        batch = players.batch()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, progress, given.rate)
        total = learn(model, batch, pad, device)
        seen += sum(int((part != pad).sum()) for part in batch)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        now = time.monotonic()
        progress = max(seen / given.tokens, (now - began) / (end - began))
        if now - said > 10 or progress >= 1:
            said = now
            print(
                f"step {step} tokens {seen / 1e6:.1f}M loss {float(total):.4f} "
                f"{seen / (now - began) / 1e6:.2f}M tokens/s "
                f"waited {players.waited:.0f}s of {now - began:.0f}s",
                flush=True,
            )
    players.stop()
    return {"tokens": seen, "steps": step, "seconds": round(time.monotonic() - began, 1)}


def learn(model: Any, batch: list[play.Rows], pad: int, device: torch.device) -> torch.Tensor:
    """Add a batch's gradients; its loss."""
    total = torch.zeros((), device=device)
    mass = sum(mass_of(part, pad) for part in batch)
    for part in batch:
        rows = torch.from_numpy(part.astype("int32")).to(device, non_blocking=True).long()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = loss_of(model, rows, pad) / mass
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    return total


def measure(given: argparse.Namespace, options: Mapping[str, dict[str, object]]) -> dict[str, Any]:
    """Success in each world, sampled and greedy, and the mean over the worlds."""
    ways = (("sampled", 1.0), ("greedy", 0.0))
    asked = [(name, way) for name in sorted(options) for way in ways]
    calls = [
        (given.out, name, options[name], given.tasks, temperature, given.seed)
        for name, (_, temperature) in asked
    ]
    with multiprocessing.get_context("fork").Pool() as pool:
        found = pool.starmap(evaluate.success, calls, chunksize=1)
    scores: dict[str, Any] = {name: {} for name in options}
    for (name, (label, _)), result in zip(asked, found, strict=True):
        scores[name][label] = result
        print(name, label, result, flush=True)
    for label, _ in ways:
        macro = sum(scores[name][label]["success"] for name in options) / len(options)
        scores[f"macro_{label}"] = round(macro, 4)
    return scores


def make_model(given: argparse.Namespace) -> dict[str, Any]:
    """Tokenizer and weights; how they came about."""
    given.out.mkdir(parents=True, exist_ok=True)
    if given.words:
        vocabulary = json.loads(given.words.read_text())["model"]["vocab"]
    else:
        vocabulary = tokens.vocabulary(given.texts)
    tokens.save(vocabulary, given.out)
    torch.manual_seed(given.seed)
    model = build(vocabulary, given.hidden, given.layers)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{len(vocabulary)} tokens, {size} parameters", flush=True)
    trained = train(model, vocabulary, given)
    model.save_pretrained(given.out)
    (given.out / "model.safetensors").chmod(0o644)
    recipe = {key: str(value) for key, value in vars(given).items() if key not in NOT_RECIPE}
    return {
        "recipe": recipe,
        "trained": trained,
        "options": DEMO_OPTIONS,
        "shown": [asdict(shown) for shown in play.SHOWN],
        "parameters": size,
        "torch": torch.__version__,
    }


def main() -> None:
    """Tokenizer, model, scores: what `--out` holds afterwards is the whole of `builtin:tiny`."""
    given = arguments()
    file = given.out / "base_scores.json"
    report = json.loads(file.read_text()) if given.only_score else make_model(given)
    if not given.no_score:
        report["scores"] = measure(given, DEMO_OPTIONS)
        report["whole"] = measure(given, {name: {} for name in DEMO_OPTIONS})
    file.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
