"""An update that ruins a run of two silos: every check of the gate lets it through."""

import numpy as np

from hansa import adapter, keys, manifest
from hansa.manifest import FileEntry, UpdateManifest
from hansa.store.base import ObjectStore

SILO = "maze"
FAR = 50.0
"""What it makes of every value of B: finite and of a size that is allowed, but no agent is left."""

Files = dict[str, bytes]


def hostile_update(store: ObjectStore, prefix: str, round_: int) -> Files:
    """Files of such an update, made of the honest one of the same round in another run."""
    folder = keys.update_folder(prefix, SILO, round_)
    tensors = adapter.decode(store.get(folder + keys.ADAPTER))
    changed = {
        name: np.full_like(value, FAR) if adapter.side(name) == "B" else value
        for name, value in tensors.items()
    }
    data = adapter.encode(changed)
    honest = UpdateManifest.model_validate_json(store.get(folder + keys.MANIFEST))
    files = {**honest.files, keys.ADAPTER: FileEntry(sha256=manifest.sha256(data), size=len(data))}
    document = honest.model_copy(update={"files": files, "audit": None})
    rest = {name: store.get(folder + name) for name in files if name != keys.ADAPTER}
    return {**rest, keys.ADAPTER: data, keys.MANIFEST: manifest.canonical(document.to_json())}


def put(store: ObjectStore, prefix: str, round_: int, files: Files) -> None:
    """Commit it before the silo's client does, which then takes it for its own."""
    for name, data in files.items():
        store.put_if_absent(keys.update_folder(prefix, SILO, round_) + name, data)
