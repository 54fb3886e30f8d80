"""Whether a store of the user's own can carry a federation, asked once before anything starts."""

import contextlib
import threading
from collections.abc import Sequence

from hansa import keys
from hansa.errors import Denied, Precondition, StoreError
from hansa.spec import S3
from hansa.store.answers import Answers
from hansa.store.base import Credentials
from hansa.store.retry import Retry
from hansa.store.s3 import S3Store

LIMIT_SECONDS = 12.0
"""How long all of it may take: a name that nobody resolves has no timeout of its own."""
RETRY = Retry(patience_seconds=4.0, connect_seconds=3.0, read_seconds=4.0)
PATH = "spec.storage.s3"


def check(s3: S3, writer: Credentials | None, others: Sequence[Credentials | None] = ()) -> None:
    """Ask for address, credentials, bucket and writing once; StoreError says what is wrong.

    `writer` is the aggregator's identity, which may write; the others may only list. None is the
    usual AWS chain. It leaves nothing behind, or one small object where nobody may delete.
    """
    failures: list[Exception] = []

    def ask() -> None:
        try:
            _ask(s3, writer, others)
        except Exception as error:  # whatever it is, it belongs to the caller
            failures.append(error)

    thread = threading.Thread(target=ask, daemon=True, name="store check")
    thread.start()
    thread.join(LIMIT_SECONDS)
    if thread.is_alive():
        answers = Answers(s3=s3, path=PATH, patience_seconds=LIMIT_SECONDS)
        raise answers.unreachable("no answer")
    if failures:
        raise failures[0]


def _ask(s3: S3, writer: Credentials | None, others: Sequence[Credentials | None]) -> None:
    for credentials in (writer, *others):
        with contextlib.closing(_store(s3, credentials)) as store:
            store.check()
    with contextlib.closing(_store(s3, writer)) as store:
        if not _writes_once(store):
            raise Denied(
                f"{PATH}.endpoint: got {s3.endpoint or 'Amazon S3'}, which wrote an object twice, "
                "expected a store that honours `If-None-Match: *`",
                hint="rounds are safe to repeat only where an object is written once",
            )


def _writes_once(store: S3Store) -> bool:
    key = keys.probe(store.s3.prefix)
    try:
        store.put_if_absent(key, b"first\n")
        store.put_if_absent(key, b"second\n")
        is_honoured = False
    except Precondition:  # of the second, or of what an earlier check could not delete
        is_honoured = True
    with contextlib.suppress(StoreError):  # the policy of an aggregator deletes nothing
        store.remove(key)
    return is_honoured


def _store(s3: S3, credentials: Credentials | None) -> S3Store:
    return S3Store(s3, credentials=credentials, retry=RETRY, path=PATH)
