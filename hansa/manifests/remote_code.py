"""Remote code of base models (`trust_remote_code`): Hansa refuses folders that need it."""

from pathlib import Path
from typing import Any

from hansa.core.canonical import parse_object
from hansa.validation.messages import describe_value

FILES = ("config.json", "tokenizer_config.json")
KEY = "auto_map"
"""Names Python files of the model that transformers would run with trust_remote_code=True."""
KERNELS = ("use_kernels", "kernel_config")
"""Settings with which transformers fetches compiled code."""


def find_remote_code(folder: Path) -> str:
    """Why the folder needs remote code, and how to fix it; empty: it does not.

    A file that cannot be read is skipped: whoever loads the model refuses it.
    """
    for name in FILES:
        try:
            document = parse_object((folder / name).read_bytes()) or {}
        except OSError:
            continue
        if setting := _find_kernel(document):
            return f"{name} has {setting}, which asks a hub for code; Hansa runs none: take it out"
        if document.get(KEY):
            return (
                f"{name} has {KEY}, which asks for code of the model's own; Hansa runs none: "
                f"where transformers knows the model itself, take {KEY} out"
            )
    return ""


def _find_kernel(document: dict[str, Any]) -> str:
    """A setting of a model, or of a part of it, that names code of a hub as `owner/name`."""
    for key, value in document.items():
        is_named = key.endswith("_implementation") and "/" in str(value)
        if is_named or (key in KERNELS and value):
            return f"{key} {describe_value(value)}"
        if isinstance(value, dict) and (inner := _find_kernel(value)):
            return f"{key}.{inner}"
    return ""
