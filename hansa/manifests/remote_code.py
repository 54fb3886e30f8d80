"""Remote code of base models (`trust_remote_code`): Hansa refuses folders that need it."""

import json
from pathlib import Path

FILES = ("config.json", "tokenizer_config.json")
KEY = "auto_map"
"""Names Python files of the model that transformers would run with trust_remote_code=True."""


def find_remote_code(folder: Path) -> str:
    """Why the folder needs remote code, and how to fix it; empty: it does not.

    A file that cannot be read is skipped: whoever loads the model refuses it.
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
