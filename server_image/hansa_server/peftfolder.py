"""PEFT adapters from other tools: bringing them to one scale, and the merged adapter's config."""

import json
from pathlib import Path

from hansa.adapter import lora
from hansa.adapter.peft_folder import PeftFolder
from hansa.adapter.tensor_file import TensorFile, TensorWriter
from hansa.api import bucket_keys


def rescale(folder: PeftFolder, scale: float, path: Path) -> TensorFile:
    """The adapter's tensors in fp32 for that scale: its own file, or a copy at `path`."""
    if folder.scale == scale and folder.dtypes == ["F32"]:
        return folder.file
    with TensorWriter(path, folder.file.shapes) as writer:
        for name in folder.file.layout:
            tensor = folder.file.read(name)
            factor = folder.scale / scale if lora.side(name) == "B" else 1.0
            writer.write(name, tensor * factor)
    return lora.open_file(path)


def write_config(like: PeftFolder, rank: int, scale: float, folder: Path) -> None:
    """The config of a merged adapter: the first one's, with its own rank and alpha."""
    alpha = scale * rank
    document = {
        **like.config,
        "inference_mode": True,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "r": rank,
        "rank_pattern": {},
        "target_modules": like.modules,
        "use_rslora": False,
    }
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    (folder / bucket_keys.CONFIG).write_text(text)
