"""Code that a base model's folder asks to be run: Hansa runs none, and says so in a sentence."""

import json
from pathlib import Path

FILES = ("config.json", "tokenizer_config.json")
KEY = "auto_map"
"""Names Python of the folder, or of the hub, that transformers would run once somebody says yes."""


def asked_for(folder: Path) -> str:
    """What in the folder asks for code, with what fits; empty: nothing does.

    A file that cannot be read is for those to refuse who read the whole of it.
    """
    for name in FILES:
        try:
            document = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(document, dict) and document.get(KEY):
            return (
                f"{name} has {KEY}, which asks for code of the model's own; Hansa runs none: "
                f"where transformers knows the model itself, take {KEY} out"
            )
    return ""
