"""From letters down to bytes: what orders and answers name is in the bucket as they name it."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from hansa.api import bucket_keys
from hansa.api.assignment import ClientReport
from hansa.api.bucket_documents import UpdateManifest, sha256
from hansa.api.letters import Answer, Letter, Work
from hansa.core.errors import NotFound
from hansa.crypto.sealing import sealed_size
from hansa.store.base import ObjectStore
from hansa.store.documents import MOST_BYTES
from hansa.store.sealed import FILES


def contradictions(
    store: ObjectStore, prefix: str, environment: str, letters: Iterable[Letter]
) -> Iterator[str]:
    """A sentence for each object that is gone, or is not what a letter says of it."""
    for letter in letters:
        if isinstance(letter, Work):
            yield from _start(store, prefix, environment, letter)
        if isinstance(letter, Answer):
            yield from _answer(store, prefix, environment, letter)


def _start(store: ObjectStore, prefix: str, environment: str, order: Work) -> Iterator[str]:
    start = order.assignment.start
    if not start.round:
        return
    folder = bucket_keys.global_folder(prefix, start.round)
    if order.assignment.own_start:
        folder = bucket_keys.update_folder(prefix, environment, start.round)
    yield from _compared(store, folder + bucket_keys.ADAPTER, start.sha256, f"order {order.serial}")


def _answer(store: ObjectStore, prefix: str, environment: str, answer: Answer) -> Iterator[str]:
    who = f"answer {answer.serial}"
    for name, digest in sorted(answer.evaluations.items()):
        key = f"{bucket_keys.evaluation_root(prefix, environment)}{name}.json"
        yield from _compared(store, key, digest, who)
    if not isinstance(answer.report, ClientReport):
        return
    folder = bucket_keys.update_folder(prefix, environment, answer.report.round)
    key = folder + bucket_keys.masked_manifest(answer.report.epoch or 0)
    wrong = list(_compared(store, key, answer.report.manifest, who))
    yield from wrong
    if wrong:
        return
    try:
        manifest = UpdateManifest.model_validate_json(store.get(key))
    except ValidationError:
        yield f"{key}: {who} names it, and it is no manifest of an update"
        return
    for name, entry in sorted(manifest.files.items()):
        if manifest.sealed_to and name in FILES:
            yield from _measured(store, folder + name, sealed_size(entry.size), key)
        else:
            yield from _compared(store, folder + name, entry.sha256, key)


def _measured(store: ObjectStore, key: str, size: int, who: str) -> Iterator[str]:
    """Of a sealed object only its length can be told without the aggregator's key."""
    try:
        got = store.size(key)
    except NotFound:
        yield f"{key}: {who} names it, and it is gone"
        return
    if got != size:
        yield f"{key}: got {got} bytes, and what {who} names has {size} once it is sealed"


def _compared(store: ObjectStore, key: str, digest: str, who: str) -> Iterator[str]:
    try:
        size = store.size(key)
        got = sha256(store.get(key)) if size <= MOST_BYTES else _streamed(store, key, size)
    except NotFound:
        yield f"{key}: {who} names it, and it is gone"
        return
    if got != digest:
        yield f"{key}: got {got}, and {who} says {digest}"


def _streamed(store: ObjectStore, key: str, size: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return store.download(key, Path(folder) / "object", size)
