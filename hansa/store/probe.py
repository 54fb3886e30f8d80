"""A check before a run starts: whether a user's store can hold a federation."""

import contextlib
import queue
import threading
from collections.abc import Sequence

from hansa.api import bucket_keys
from hansa.api.spec import S3
from hansa.core.errors import Denied, Precondition, StoreError
from hansa.store.base import Credentials
from hansa.store.error_mapping import ErrorMapper
from hansa.store.retry import Retry
from hansa.store.s3 import S3Store

LIMIT_SECONDS = 12.0
"""How long each step may take: resolving a host name has no timeout of its own."""
RETRY = Retry(patience_seconds=4.0, connect_seconds=3.0, read_seconds=4.0)
PATH = "spec.storage.s3"


def check_store(
    s3: S3, writer: Credentials | None, others: Sequence[Credentials | None] = ()
) -> None:
    """Ask for address, credentials, bucket and writing once; StoreError says what is wrong.

    `writer` is the aggregator's identity, which may write; the others may only list. None is the
    usual AWS chain. One small object stays where the identity may not delete.
    """
    said: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    identities = (writer, *others)

    def ask() -> None:
        try:
            for credentials in identities:
                with contextlib.closing(_open_store(s3, credentials)) as store:
                    store.check()
                said.put(None)
            _check_writing(s3, writer)
            said.put(None)
        except Exception as error:  # raised again in the calling thread
            said.put(error)

    threading.Thread(target=ask, daemon=True, name="store check").start()
    for _ in (*identities, "writing"):
        try:
            error = said.get(timeout=LIMIT_SECONDS)
        except queue.Empty:
            answers = ErrorMapper(s3=s3, path=PATH, patience_seconds=LIMIT_SECONDS)
            raise answers.unreachable("no answer") from None
        if error:
            raise error


def _check_writing(s3: S3, writer: Credentials | None) -> None:
    with contextlib.closing(_open_store(s3, writer)) as store:
        if not _writes_once(store):
            raise Denied(
                f"{PATH}.endpoint: got {s3.endpoint or 'Amazon S3'}, which wrote an object twice, "
                "expected a store that honours `If-None-Match: *`",
                hint="rounds are safe to repeat only where an object is written once",
            )


def _writes_once(store: S3Store) -> bool:
    key = bucket_keys.probe(store.s3.prefix)
    try:
        store.put_if_absent(key, b"first\n")
        store.put_if_absent(key, b"second\n")
        is_honoured = False
    except Precondition:  # of the second, or of what an earlier check could not delete
        is_honoured = True
    with contextlib.suppress(StoreError):  # the policy of an aggregator deletes nothing
        store.remove(key)
    return is_honoured


def _open_store(s3: S3, credentials: Credentials | None) -> S3Store:
    return S3Store(s3, credentials=credentials, retry=RETRY, path=PATH)
