"""Checks that the objects which orders and answers name are in the bucket with those digests."""

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


def find_contradictions(
    store: ObjectStore, prefix: str, environment: str, letters: Iterable[Letter]
) -> Iterator[str]:
    """A sentence for each object that is gone, or differs from what a letter says."""
    for letter in letters:
        if isinstance(letter, Work):
            yield from _check_start(store, prefix, environment, letter)
        if isinstance(letter, Answer):
            yield from _check_answer(store, prefix, environment, letter)


def _check_start(store: ObjectStore, prefix: str, environment: str, order: Work) -> Iterator[str]:
    start = order.assignment.start
    if not start.round:
        return
    folder = bucket_keys.global_folder(prefix, start.round)
    if order.assignment.own_start:
        folder = bucket_keys.update_folder(prefix, environment, start.round)
    yield from _check_object(
        store, folder + bucket_keys.ADAPTER, start.sha256, f"order {order.serial}"
    )


def _check_answer(
    store: ObjectStore, prefix: str, environment: str, answer: Answer
) -> Iterator[str]:
    who = f"answer {answer.serial}"
    for name, digest in sorted(answer.evaluations.items()):
        key = f"{bucket_keys.evaluation_root(prefix, environment)}{name}.json"
        yield from _check_object(store, key, digest, who)
    if not isinstance(answer.report, ClientReport):
        return
    folder = bucket_keys.update_folder(prefix, environment, answer.report.round)
    key = folder + bucket_keys.masked_manifest(answer.report.epoch or 0)
    wrong = list(_check_object(store, key, answer.report.manifest, who))
    yield from wrong
    if wrong:
        return
    try:
        manifest = UpdateManifest.model_validate_json(store.get(key))
    except ValidationError:
        yield f"{key}: {who} names it, and it is no manifest of an update"
        return
    for name, entry in sorted(manifest.files.items()):
        is_sealed = manifest.sealed_to and name in FILES
        said = sealed_size(entry.size) if is_sealed else entry.sha256
        yield from _check_object(store, folder + name, said, key)


def _check_object(store: ObjectStore, key: str, said: str | int, who: str) -> Iterator[str]:
    """Compare an object's digest; of a sealed one its length, since its digest needs the
    aggregator's key."""
    try:
        size = store.size(key)
        got = size if isinstance(said, int) else _compute_digest(store, key, size)
    except NotFound:
        yield f"{key}: {who} names it, and it is gone"
        return
    if got != said and isinstance(said, int):
        yield f"{key}: got {got} bytes, and what {who} names has {said} once it is sealed"
    elif got != said:
        yield f"{key}: got {got}, and {who} says {said}"


def _compute_digest(store: ObjectStore, key: str, size: int) -> str:
    if size <= MOST_BYTES:
        return sha256(store.get(key))
    with tempfile.TemporaryDirectory() as folder:
        return store.download(key, Path(folder) / "object", size)
