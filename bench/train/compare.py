"""Hansa's training beside TRL's, on one GPU, one model and the same trajectories, in one run.

python bench/train/compare.py --data lessons.json --model FOLDER --out results.json

FOLDER needs a config and a tokenizer: weights are drawn, for speed does not depend on them. Every
way trains LoRA r = 8 on all linear layers in bf16 and learns from the agent's tokens alone. TRL's
best packing needs a package for its attention; where it is absent, both of its packings are
measured: `bfd`, whose attention is masked, and `wrapped`, in which trajectories see each other.
"""

import argparse
import gc
import json
import os
import time
import uuid
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as the client sets it

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from hansa.adapter import lora as adapter
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.learners import TrainingSet
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.training import scoring
from hansa_client.trajectory import Sequence

PEAK = 989e12
"""An H200's bf16 operations per second, as its maker states them."""
WAYS = [
    "hansa",
    "trl:unpacked",
    "trl:wrapped",
    "trl:bfd",
    "hansa:eager",
    "hansa:again",
    "hansa:checkpointed",
    "trl:wrapped:chunked",
    "trl:unpacked:chunked",
    "trl:unpacked:checkpointed",
]
"""`eager` starts each kernel by itself, `again` shows whether the same adapter comes out twice."""
SHAPE = Adapter()
Given = argparse.Namespace


def network(given: Given) -> Any:
    """The model with drawn weights, as a client would have loaded it."""
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(given.model, trust_remote_code=False)
    dtype = torch.bfloat16 if given.device == "cuda" else torch.float32
    with torch.device(given.device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]


class Clock:
    """Notes when each step ended and the tokens it trained; the first ones only warm up."""

    def __init__(self, warm: int) -> None:
        self._warm = warm
        self.ends: list[float] = []
        self.tokens: list[int] = []
        self.made: dict[str, Any] = {}

    def tick(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())

    def rate(self) -> float:
        """Tokens per second of the steps that count; padding is none."""
        counted = sum(self.tokens[self._warm : len(self.ends)])
        return counted / (self.ends[-1] - self.ends[self._warm - 1])


def by_hansa(given: Given, rows: list[Sequence], budget: int, way: list[str]) -> Clock:
    """As a client trains: deterministic, packed on a GPU."""
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    built = network(given).requires_grad_(False).eval()
    base = Base(built, None, torch.device(given.device))  # type: ignore[arg-type]
    training = Training(
        batch_tokens=budget,
        epochs=1,
        max_steps=given.warm + given.steps,
        gradient_checkpointing="checkpointed" in way,
    )
    lesson = TrainingSet(
        sequences=rows,
        start=adapter.init_adapter(lora.shapes(built, SHAPE), SHAPE.rank, 7),
        adapter=SHAPE,
        training=training,
        seed=7,
    )
    clock = Clock(given.warm)
    clock.tokens = [sum(len(rows[index]) for index in step) for step in lesson.plan_steps()]
    scoring.MANY = 10**9 if "eager" in way else 8
    made = learners.get("success-sft")(base, lesson, lambda done, total: clock.tick())
    torch.set_deterministic_debug_mode("default")
    clock.made = {"loss": made.loss, "adapter": sha256(adapter.encode(made.tensors)).hexdigest()}
    return clock


def by_trl(given: Given, rows: list[Sequence], budget: int, way: list[str]) -> Clock:
    """TRL's trainer, its steps about as many tokens as ours."""
    from datasets import Dataset, fingerprint
    from peft import LoraConfig
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    # Caches are named after pickled functions, which fails with pyarrow 26: no cache is used.
    fingerprint.Hasher.hash = classmethod(lambda cls, value: uuid.uuid4().hex)
    packed = "unpacked" not in way
    mean = sum(map(len, rows)) / len(rows)
    clock = Clock(given.warm)

    class Ticks(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            clock.tick()

    lines = [
        {
            "input_ids": row.tokens,
            "labels": [t if own else -100 for t, own in zip(row.tokens, row.is_agent, strict=True)],
        }
        for row in rows
    ]
    config = SFTConfig(
        output_dir="/tmp/trl",
        per_device_train_batch_size=1 if packed else max(1, round(budget / mean)),
        max_length=budget if packed else 4096,
        packing=packed,
        packing_strategy="wrapped" if "wrapped" in way else "bfd",
        max_steps=given.warm + given.steps,
        num_train_epochs=1000,
        gradient_checkpointing="checkpointed" in way,
        loss_type="chunked_nll" if "chunked" in way else "nll",
        bf16=given.device == "cuda",
        use_cpu=given.device == "cpu",
        lr_scheduler_type="cosine",
        logging_steps=10_000,
        save_strategy="no",
        report_to=[],
        dataloader_num_workers=0,
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        model=network(given),
        args=config,
        train_dataset=Dataset.from_list(lines),
        processing_class=AutoTokenizer.from_pretrained(given.model, trust_remote_code=False),
        peft_config=LoraConfig(
            r=SHAPE.rank, lora_alpha=SHAPE.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        callbacks=[Ticks()],
    )
    trainer.data_collator = counted(trainer.data_collator, clock)
    trainer.train()
    return clock


def counted(collate: Callable[[Any], Any], clock: Clock) -> Callable[[Any], Any]:
    """The same collator, which notes the real tokens of each batch."""

    def note(examples: Any) -> Any:
        clock.tokens.append(sum(len(example["input_ids"]) for example in examples))
        return collate(examples)

    return note


def operations(built: Any, rows: list[Sequence]) -> float:
    """What one token of these trajectories needs: forward and back to the inputs, no more.

    Frozen weights need no gradient of their own, so a product counts twice and not three times.
    """
    config = built.config
    inner = sum(w.numel() for n, w in built.named_parameters() if w.ndim == 2 and "proj" in n)
    share = sum(sum(row.is_agent) for row in rows) / sum(map(len, rows))
    head = share * config.vocab_size * config.hidden_size
    reach = sum(len(row) ** 2 for row in rows) / sum(map(len, rows)) / 2
    width = config.num_attention_heads * config.head_dim * config.num_hidden_layers
    return float(4 * (inner + head) + 3 * 4 * reach * width)


def measure(given: Given, rows: list[Sequence], budget: int, way: str) -> dict[str, Any]:
    """Speed and memory of one way."""
    gc.collect()
    if given.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    run = by_hansa if way.startswith("hansa") else by_trl
    found: dict[str, Any] = {"way": way, "batch_tokens": budget}
    try:
        clock = run(given, rows, budget, way.split(":"))
        steps = [round(b - a, 4) for a, b in pairwise(clock.ends)]
        found |= {"tokens_per_second": round(clock.rate()), "steps": steps, **clock.made}
    except Exception as error:  # the others are still worth measuring
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    if given.device == "cuda":
        found["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return {**found, "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    """Measure all ways, writing what is known after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--batch-tokens", default="16384,65536")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9, help="start nothing after so long")
    given = parser.parse_args()
    given.device = "cuda" if torch.cuda.is_available() else "cpu"
    began = time.perf_counter()
    rows = [
        Sequence(r["tokens"], list(map(bool, r["is_agent"])))
        for r in json.loads(given.data.read_text())
    ]
    needed = operations(network(given), rows)
    fields: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if given.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "trajectories": len(rows),
        "operations_per_token": needed,
        "runs": [],
    }
    for budget in map(int, given.batch_tokens.split(",")):
        for way in given.ways.split(","):
            if time.perf_counter() - began > given.seconds:
                continue
            found = measure(given, rows, budget, way)
            if "tokens_per_second" in found:
                found["mfu"] = round(found["tokens_per_second"] * needed / PEAK, 4)
            fields["runs"].append(found)
            print(json.dumps(found), flush=True)
            given.out.write_text(json.dumps(fields, indent=1) + "\n")


if __name__ == "__main__":
    main()
