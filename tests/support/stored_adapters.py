"""Adapters in a store, for serving."""

from pathlib import Path
from typing import Any

from hansa.adapter import model_card
from hansa.api import bucket_keys


def put_adapter(weed: Any, prefix: str, folder: Path) -> None:
    """The adapter of a local run as round 2 of the federation, its manifest last."""
    store = weed.store()
    files = [file for file in folder.iterdir() if file.name != model_card.NAME]
    for file in sorted(files, key=lambda f: f.name == bucket_keys.MANIFEST):
        store.put_if_absent(bucket_keys.global_folder(prefix, 2) + file.name, file.read_bytes())
    store.close()
