"""An update that ruins a run of two silos: every check of the gate lets it through."""

import numpy as np

from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import FileEntry, UpdateManifest
from hansa.store.base import ObjectStore

SILO = "maze"
FAR = 50.0
"""What it makes of every value of B: finite and of a size that is allowed, but no agent is left."""

Files = dict[str, bytes]


def hostile_update(store: ObjectStore, prefix: str, round_: int) -> Files:
    """Files of such an update, made of the honest one of the same round in another run."""
    folder = bucket_keys.update_folder(prefix, SILO, round_)
    tensors = lora.decode(store.get(folder + bucket_keys.ADAPTER))
    changed = {
        name: np.full_like(value, FAR) if lora.side(name) == "B" else value
        for name, value in tensors.items()
    }
    data = lora.encode(changed)
    honest = UpdateManifest.model_validate_json(store.get(folder + bucket_keys.MANIFEST))
    files = {
        **honest.files,
        bucket_keys.ADAPTER: FileEntry(sha256=bucket_documents.sha256(data), size=len(data)),
    }
    document = honest.model_copy(update={"files": files, "audit": None})
    rest = {name: store.get(folder + name) for name in files if name != bucket_keys.ADAPTER}
    return {
        **rest,
        bucket_keys.ADAPTER: data,
        bucket_keys.MANIFEST: bucket_documents.canonical(document.to_json()),
    }


def put(store: ObjectStore, prefix: str, round_: int, files: Files) -> None:
    """Commit it before the silo's client does, which then takes it for its own."""
    for name, data in files.items():
        store.put_if_absent(bucket_keys.update_folder(prefix, SILO, round_) + name, data)
