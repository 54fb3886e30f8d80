"""A PEFT adapter's folder from any source, opened and checked."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hansa.adapter import lora
from hansa.adapter.tensor_file import FLOATS, Layout, TensorFile
from hansa.api import bucket_keys
from hansa.core.errors import InputError

FITS = "expected the folder of a LoRA adapter that PEFT has saved"


@dataclass(frozen=True)
class PeftFolder:
    """An adapter with its config."""

    path: Path
    """Where it is."""
    config: dict[str, Any]
    """adapter_config.json."""
    file: TensorFile
    """Its tensors."""

    @cached_property
    def modules(self) -> list[str]:
        """Layers it changes, sorted."""
        return lora.target_names(self.file.layout)

    @cached_property
    def rank(self) -> int:
        """Its rank, the same in all layers."""
        return _find_rank(self.file.layout)

    @cached_property
    def scale(self) -> float:
        """What B·A is multiplied with."""
        divisor = math.sqrt(self.rank) if self.config.get("use_rslora") else self.rank
        return float(self.config["lora_alpha"]) / divisor

    @property
    def dtypes(self) -> list[str]:
        """Types of its tensors."""
        return sorted({entry.dtype for entry in self.file.layout.values()})

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of each layer."""
        names = {module: lora.tensor_names(module) for module in self.modules}
        layout = self.file.layout
        return {m: (layout[n.b].shape[0], layout[n.a].shape[1]) for m, n in names.items()}


def open_folder(path: Path) -> PeftFolder:
    """The adapter of a folder, or an InputError that says why it is none of plain LoRA."""
    try:
        config = _read_config(path)
        for feature, name in (("use_dora", "DoRA"), ("alpha_pattern", "alpha_pattern")):
            if config.get(feature):
                raise InputError(f"{path}: got an adapter with {name}, expected plain LoRA")
        file = open_tensors(path / bucket_keys.ADAPTER)
    except OSError as error:
        name = Path(error.filename or path).name
        raise InputError(f"{path}: got no {name} ({error.strerror}), {FITS}") from None
    except lora.AdapterError as error:
        raise InputError(f"{path / bucket_keys.ADAPTER}: {error.message}") from None
    return PeftFolder(path, config, file)


def open_tensors(path: Path) -> TensorFile:
    """An adapter's tensors in any float type; the last few headers are cached."""
    return lora.open_file(path, FLOATS, _check_layout)


def _read_config(path: Path) -> dict[str, Any]:
    where = path / bucket_keys.CONFIG
    try:
        config = json.loads(where.read_text())
    except ValueError:
        raise InputError(f"{where}: got no JSON, {FITS}") from None
    alpha = config.get("lora_alpha") if isinstance(config, dict) else None
    if not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise InputError(f"{where}: lora_alpha: got {alpha!r}, expected a number")
    assert isinstance(config, dict)  # noqa: S101  # or it would have no alpha
    return config


def _check_layout(layout: Layout) -> None:
    """Refuse a file that is not an adapter, or has different ranks in its layers."""
    lora.check_layout(layout)
    rank = _find_rank(layout)
    for name, entry in layout.items():
        try:
            lora.check_rank(name, entry.shape, rank)
        except lora.AdapterError as error:
            raise lora.AdapterError("shape", f"{error.message} in all layers") from None


def _find_rank(layout: Layout) -> int:
    """Rank of the first layer by name."""
    return next(e.shape[0] for name, e in layout.items() if lora.side(name) == "A")
