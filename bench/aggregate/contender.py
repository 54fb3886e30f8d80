"""One way to merge adapters, once, in a process of its own; prints seconds and peak memory.

python bench/aggregate/contender.py flower:mean FOLDER...

`command:` is the whole of `hansa aggregate`, its start included, as a process of its own; all
others are the work alone, with imports not counted. `hansa:` runs with Hansa's packages; `flower:`
and `nvflare:` with theirs (pip install flwr nvflare safetensors), `peft:` with torch. All read the
same files, and reading counts.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FILE = "adapter_model.safetensors"


def hansa(strategy: str, folders: list[Path]) -> Callable[[], None]:
    import hansa_server.offline as offline
    from hansa.api.aggregation import Aggregation

    strategy, _, extra = strategy.partition("+")
    fields = {"strategy": strategy, "diagnostics": extra == "diagnostics"}
    options = {"maxRank": 4096} if strategy in ("flora", "fedex", "regmean") else {}
    settings = Aggregation.model_validate({**fields, "options": options})
    rank = 64 if strategy == "regmean" else None  # as a round folds it

    def work() -> None:
        with TemporaryDirectory() as made:
            out = Path(made) / "out"
            order = offline.MergeOrder(
                folders=folders, weights=[], settings=settings, rank=rank, out=out
            )
            offline.combine(order)

    return work


def command(strategy: str, folders: list[Path]) -> Callable[[], None]:
    """As a user types it, with its defaults unless told otherwise."""
    strategy, _, extra = strategy.partition("+")
    options = ["--strategy", strategy, *([f"--{extra}"] if extra else [])]
    line = [sys.executable, "-m", "hansa.cli.main", "aggregate", *options, *map(str, folders)]

    def work() -> None:
        with TemporaryDirectory() as made:
            subprocess.run([*line, "--out", made], check=True, stdout=subprocess.DEVNULL)

    return work


def flower(strategy: str, folders: list[Path]) -> Callable[[], None]:
    """Flower's functions as its strategies call them, on the records that its server would hold."""
    import numpy as np
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
    from flwr.serverapp.strategy import multikrum, strategy_utils
    from flwr.serverapp.strategy.fedtrimmedavg import trim_mean

    def records() -> list[Any]:
        found = []
        for tensors in loaded(folders):
            arrays = ArrayRecord({name: Array(array) for name, array in tensors.items()})
            found.append(RecordDict({"a": arrays, "m": MetricRecord({"n": 1.0})}))
        return found

    def by_layer(replies: list[Any], reduce: Callable[[Any], Any]) -> Any:
        made = ArrayRecord()
        for name in list(replies[0]["a"]):
            layers = np.stack([reply["a"].pop(name).numpy() for reply in replies])
            made[name] = Array(np.asarray(reduce(layers)))
        return made

    def work() -> None:
        replies = records()
        if strategy == "median":
            saved(by_layer(replies, lambda rows: np.median(rows, axis=0)))
        elif strategy == "trimmed-mean":
            saved(by_layer(replies, lambda rows: trim_mean(rows, 0.2)))
        else:
            if strategy == "krum":
                replies = multikrum.select_multikrum(replies, 1, 1)
            saved(strategy_utils.aggregate_arrayrecords(replies, "n"))

    def saved(record: Any) -> None:
        save({name: array.numpy() for name, array in record.items()})

    return work


def nvflare(strategy: str, folders: list[Path]) -> Callable[[], None]:
    """NVFLARE's in-time accumulator, which adds every update as it comes."""
    from nvflare.app_common.aggregators.weighted_aggregation_helper import (
        WeightedAggregationHelper,
    )

    def work() -> None:
        helper = WeightedAggregationHelper()
        for index, tensors in enumerate(loaded(folders)):
            helper.add(tensors, 1.0, f"site-{index}", 0)
        save(helper.get_result())

    return work


def peft(strategy: str, folders: list[Path]) -> Callable[[], None]:
    """PEFT's add_weighted_adapter on a model of empty layers of the adapter's sizes."""
    import torch
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
    from safetensors.torch import load_file

    first = load_file(folders[0] / FILE)
    model = torch.nn.Module()
    for name, b in first.items():
        if name.endswith("lora_B.weight"):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_B.weight")
            width = first[name.replace("lora_B", "lora_A")].shape[1]
            _place(model, module, torch.nn.Linear(width, b.shape[0], bias=False))
    config = LoraConfig(r=8, lora_alpha=16, target_modules=r".*_proj")
    wrapped = get_peft_model(model, config, adapter_name="0")
    for index in range(1, len(folders)):
        wrapped.add_adapter(str(index), config)

    def work() -> None:
        for index, folder in enumerate(folders):
            set_peft_model_state_dict(wrapped, load_file(folder / FILE), adapter_name=str(index))
        names = [str(index) for index in range(len(folders))]
        weights = [1.0 / len(names)] * len(names)
        how: dict[str, Any] = {"combination_type": strategy}
        how |= {"svd_rank": 8} if strategy == "svd" else {}
        wrapped.add_weighted_adapter(names, weights, "merged", **how)

    return work


def dense(strategy: str, folders: list[Path]) -> Callable[[], None]:
    """regmean as its formula is written, with whole matrices, by numpy; nothing is compressed."""
    import numpy as np
    from safetensors.numpy import load_file

    def work() -> None:
        given = [(load_file(f / FILE), load_file(f / "moments.safetensors")) for f in folders]
        made: dict[str, Any] = {}
        for name in (name for name in given[0][1] if name.endswith(".vectors")):
            layers = name.removesuffix(".vectors").split("+")
            total: Any = 0.0
            changes: dict[str, Any] = dict.fromkeys(layers, 0.0)
            for tensors, own in given:
                stem, vectors = name.removesuffix("vectors"), own[name].astype(np.float64)
                rest = float(own[stem + "rest"][0])
                matrix = (vectors.T * (own[stem + "values"] - rest)) @ vectors
                matrix[np.diag_indices(len(matrix))] += rest
                matrix /= np.trace(matrix)
                total += matrix
                for layer in layers:
                    at = f"base_model.model.{layer}.lora_"
                    rows = tensors[f"{at}A.weight"].astype(np.float64) @ matrix
                    changes[layer] += tensors[f"{at}B.weight"] @ rows
            total[np.diag_indices(len(total))] += 1e-3 * np.trace(total) / len(total)
            for layer in layers:
                made[layer] = np.linalg.solve(total, changes[layer].T).T.astype(np.float32)
        save(made)

    return work


def _place(model: Any, name: str, layer: Any) -> None:
    import torch

    *path, last = name.split(".")
    for part in path:
        if not hasattr(model, part):
            model.add_module(part, torch.nn.Module())
        model = getattr(model, part)
    model.add_module(last, layer)


def loaded(folders: list[Path]) -> Iterator[dict[str, Any]]:
    from safetensors.numpy import load_file

    for folder in folders:
        yield load_file(folder / FILE)


def save(tensors: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    with TemporaryDirectory() as made:
        save_file(tensors, Path(made) / FILE)


CONTENDERS = {
    "command": command,
    "hansa": hansa,
    "flower": flower,
    "nvflare": nvflare,
    "peft": peft,
    "dense": dense,
}


if __name__ == "__main__":
    who, _, what = sys.argv[1].partition(":")
    run = CONTENDERS[who](what, [Path(argument) for argument in sys.argv[2:]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    asked = resource.RUSAGE_CHILDREN if who == "command" else resource.RUSAGE_SELF
    peak = resource.getrusage(asked).ru_maxrss
    print(json.dumps({"seconds": seconds, "peakMB": peak / 1000, "importsMB": before / 1000}))
