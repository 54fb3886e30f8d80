"""A run of some rounds in a memory store, with its audit log and silos that saw it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import FileEntry, GlobalManifest, StartAdapter
from hansa.store import audit_log
from hansa.store.audit_log import AuditEntry
from hansa_server.findings import Findings
from hansa_server.readonce import ReadOnce
from hansa_server.recompute import merge_again
from hansa_server.verify import AuditCheck
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_server.rounds import PREFIX, Round, tensors


def make_run(
    rounds: int, *, refused: bool = False, step: Any = 1.0, **aggregation: Any
) -> MemoryStore:
    """So many rounds; `refused`: maze's update of the second one is not finite."""
    store, start = MemoryStore(), StartAdapter()
    for number in range(1, rounds + 1):
        made = Round(
            number=number, start=start, store=store, server_step=step, aggregation=aggregation
        )
        head = audit_log.find_head(store, PREFIX, number)
        for position, name in enumerate(made.environments):
            own = made.trained(10 * number + position)
            if refused and (number, name) == (2, "maze"):
                own[min(own)][0, 0] = np.nan
            made.send(name, own, **({"audit": head.to_json()} if head else {}))
        start = StartAdapter(round=number, sha256=made.aggregate().adapter)
    return store


def check(
    store: MemoryStore,
    folder: Path,
    only: int | None = None,
    **known: Any,
) -> dict[int, Findings]:
    """What an audit finds, by round; `known` is what is known outside the store."""
    storage, kept = Round().assignment().storage, ReadOnce(store, folder)
    again = partial(merge_again, kept, storage)
    check = AuditCheck(kept, storage, **known)
    return {found.round: found for found in check.run(again, only)}


def flipped(data: bytes, at: int) -> bytes:
    """The same bytes but one bit."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def rewrite(store: MemoryStore, round_: int, **changes: Any) -> None:
    """Change an entry as a forger would: with a digest that fits."""
    key = bucket_keys.audit_entry(PREFIX, round_)
    entry = AuditEntry.model_validate_json(store.objects[key]).model_copy(update=changes)
    whole = entry.model_copy(update={"sha256": entry.digest()})
    store.objects[key] = bucket_documents.canonical(whole.to_json())


def forge_merge(store: MemoryStore, round_: int) -> str:
    """Another adapter than the updates give, with manifest and entry to match; its first tensor."""
    folder = bucket_keys.global_folder(PREFIX, round_)
    other = lora.decode(store.objects[folder + bucket_keys.ADAPTER])
    name = sorted(other)[1]
    other[name] = other[name] + tensors(round_)[name]
    data = lora.encode(other)
    store.objects[folder + bucket_keys.ADAPTER] = data
    made = GlobalManifest.model_validate_json(store.objects[folder + bucket_keys.MANIFEST])
    files = {
        **made.files,
        bucket_keys.ADAPTER: FileEntry(sha256=bucket_documents.sha256(data), size=len(data)),
    }
    raw = bucket_documents.canonical(made.model_copy(update={"files": files}).to_json())
    store.objects[folder + bucket_keys.MANIFEST] = raw
    rewrite(store, round_, result=bucket_documents.sha256(raw))
    return name
