"""`hansa inspect`: what an adapter is, without loading a model."""

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data

if TYPE_CHECKING:
    from hansa.adapter.peft_folder import PeftFolder


def inspect(
    adapter: Annotated[Path, typer.Argument(metavar="ADAPTER", help="Folder of a PEFT adapter.")],
    output: Output = Format.TABLE,
) -> None:
    """Print an adapter's rank, layers, norms and digest."""
    from hansa.adapter.peft_folder import open_folder

    folder = open_folder(adapter)
    with folder.file:
        data = _collect_facts(folder)
    if output is not Format.TABLE:
        print_data(data, output)
        return
    targets = data.pop("targets")
    for name, value in data.items():
        shown = f"{value:.6g}" if type(value) is float else value
        print(f"{name + ':':<16}{shown}")
    kinds = sorted({target.rpartition(".")[2] for target in targets})
    print(f"{'targets:':<16}{len(targets)} layers ({', '.join(kinds)})")


def _collect_facts(folder: "PeftFolder") -> dict[str, Any]:
    with folder.file.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    count = sum(math.prod(shape) for shape in folder.file.shapes.values())
    from hansa_server.measure import is_finite

    finite = is_finite(folder.file)
    return {
        "rank": folder.rank,
        "alpha": folder.config["lora_alpha"],
        "scale": folder.scale,
        "base": folder.config.get("base_model_name_or_path"),
        "parameters": count,
        "bytes": folder.file.size,
        "dtype": ", ".join(folder.dtypes),
        "finite": finite,
        **(_measure_norms(folder) if finite else {}),
        "sha256": digest,
        "targets": folder.modules,
    }


def _measure_norms(folder: "PeftFolder") -> dict[str, Any]:
    """What the adapter does to the weights, from its singular values."""
    import numpy as np

    from hansa_server.diagnostics import compute_effective_rank
    from hansa_server.factors import compute_singular_values, make_file_term

    values = [
        compute_singular_values([make_file_term(folder.file, module)]) for module in folder.modules
    ]
    squares = [float(np.sum(layer**2)) for layer in values]
    return {
        "norm": folder.scale * math.sqrt(sum(squares)),
        "effectiveRank": float(np.mean([compute_effective_rank(layer) for layer in values])),
        "strongestLayer": folder.modules[int(np.argmax(squares))],
    }
