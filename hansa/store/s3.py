"""Objects in any S3-compatible bucket, by boto3's core; no other module of Hansa imports it."""

import base64
import contextlib
import errno
import functools
import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hansa.api import bucket_keys
from hansa.api.bucket_documents import sha256
from hansa.api.spec import S3
from hansa.core.errors import Corrupt, Denied, NotFound, Precondition, StoreError, Unreachable
from hansa.store.base import Credentials, Watch
from hansa.store.error_mapping import ErrorMapper, RangeBeyondEnd
from hansa.store.retry import ENV_PATIENCE, Retry

__all__ = ["ENV_PATIENCE", "Retry", "S3Store", "preload"]

CHUNK = 2**19
"""Bytes of a file in memory at a time: few enough to stay in a core's cache for all readers."""
CONNECTIONS = 16
"""Connections in the pool, as many as a program uses at a time: one more would be closed after its
request, and the next request would open another."""

_T = TypeVar("_T")

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def preload() -> None:
    """Load the megabytes of JSON that botocore needs for its first client; forks inherit them."""
    nobody = Credentials(access_key="nobody", secret_key="nobody")  # noqa: S106
    S3Store(S3(bucket="nowhere"), credentials=nobody)._client()


class S3Store:
    """One bucket, with distinct errors; transient failures are retried.

    Nothing connects before the first verb, so making a store is free. Safe to share between
    threads, and to carry over a fork.
    """

    def __init__(
        self,
        s3: S3,
        *,
        credentials: Credentials | None = None,
        retry: Retry | None = None,
        verify: str | bool | None = None,
        path: str = "storage.s3",
        variables: str = "",
    ) -> None:
        """`path` is the manifest's field that errors name; no credentials: the usual AWS chain.

        `verify` is the file of the endpoint's certificate authority, True the public ones, None
        that of AWS_CA_BUNDLE. `variables` is what stands before AWS_* in hints.
        """
        self.s3 = s3
        self.retry = retry or Retry()
        self._credentials = credentials
        self._verify = verify
        self._variables = variables
        self._answers = ErrorMapper(s3=s3, path=path, patience_seconds=self.retry.patience_seconds)
        self._made: tuple[int, Any] | None = None
        self._making = threading.Lock()
        self._random = random.Random()

    def get(self, key: str) -> bytes:
        """All bytes of an object; a body that breaks off or fails its checksum is read again."""
        return self._read(key, lambda: self._body(key, ChecksumMode="ENABLED"))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes start to start + length of an object; fewer at its end."""
        if length <= 0:
            return b""
        wanted = f"bytes={start}-{start + length - 1}"
        try:
            return self._read(key, lambda: self._body(key, Range=wanted))
        except RangeBeyondEnd:
            return b""

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        bucket = self.s3.bucket
        return self._read(key, lambda: _length(self._client().head_object(Bucket=bucket, Key=key)))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already.

        A try that got no answer may have been written all the same. When the next one meets
        an object with the same bytes, it was ours, and the write is done.
        """
        self._put_if_absent(key, hashlib.sha256(data).digest(), len(data), lambda: data)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object of that size into a file; the digest of the bytes that came."""
        return self._read(key, lambda: self._copy(key, path, size, watch))

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Write a file as an object once; its digest. Precondition when it exists already."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()

            def rewound() -> Any:
                file.seek(0)
                return file

            self._put_if_absent(key, digest, path.stat().st_size, rewound)
        return digest.hex()

    def _put_if_absent(self, key: str, digest: bytes, size: int, body: Callable[[], Any]) -> None:
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            self._client().put_object(
                Bucket=self.s3.bucket,
                Key=key,
                Body=body(),
                IfNoneMatch="*",
                ChecksumSHA256=base64.b64encode(digest).decode(),
            )

        try:
            self._call(attempt, key, "write")
        except Precondition:
            # The size first: another writer's object may be longer than this machine's memory.
            if tries == 1 or self.size(key) != size or sha256(self.get(key)) != digest.hex():
                raise

    def list(self, prefix: str) -> Iterator[str]:
        """Keys below a prefix, sorted by us: some stores order by folder first."""
        below: set[str] = set()
        token: dict[str, str] = {}
        while True:
            page = self._page(prefix, 1000, token)
            below.update(item["Key"] for item in page.get("Contents", []))
            if not page.get("IsTruncated"):
                return iter(sorted(below))
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def check(self) -> None:
        """One cheap signed request that every identity of a federation may make."""
        self._page(bucket_keys.global_root(self.s3.prefix), 1)

    def ensure_bucket(self) -> None:
        """Make the bucket if it is absent; only the owner of a store of one's own may."""
        bucket = self.s3.bucket
        try:
            self._call(lambda: self._client().head_bucket(Bucket=bucket), "", "look for")
        except NotFound:
            self._call(lambda: self._client().create_bucket(Bucket=bucket), "", "look for")

    def remove(self, key: str) -> None:
        """Delete an object that no result depends on; results are written once, and stay."""
        bucket = self.s3.bucket
        self._call(lambda: self._client().delete_object(Bucket=bucket, Key=key), key, "delete")

    def close(self) -> None:
        """Give the connections back."""
        with self._making:
            if self._made:
                self._made[1].close()
            self._made = None

    def _body(self, key: str, **how: str) -> bytes:
        answer = self._client().get_object(Bucket=self.s3.bucket, Key=key, **how)
        with contextlib.closing(answer["Body"]) as stream:
            data: bytes = stream.read()
        if len(data) != _length(answer):
            raise _Truncated(f"{len(data)} of {_length(answer)} bytes came")
        return data

    def _copy(self, key: str, path: Path | None, size: int, watch: Watch | None) -> str:
        if path is None:
            self._show(key, size, watch)
            return ""
        digest = hashlib.sha256()
        with path.open("wb", buffering=0) as file:

            def take(begin: int, piece: bytes) -> None:
                digest.update(piece)
                if watch:
                    watch(begin, piece)
                written = file.write(piece)
                if written < len(piece):  # a disk that is full says so at the next byte
                    file.write(piece[written:])

            self._show(key, size, take)
        return digest.hexdigest()

    def _show(self, key: str, size: int, watch: Watch | None) -> None:
        answer = self._client().get_object(Bucket=self.s3.bucket, Key=key)
        got = 0
        with contextlib.closing(answer["Body"]) as stream:
            if _length(answer) != size:  # checked before reading: a huge object costs nothing
                raise Corrupt(
                    f"{self._answers.uri(key)}: got {_length(answer)} bytes, expected {size}"
                )
            while chunk := stream.read(CHUNK):
                if watch:
                    watch(got, chunk)
                got += len(chunk)
        if got != size:
            raise _Truncated(f"{got} of {size} bytes came")

    def _page(self, prefix: str, most: int, token: dict[str, str] | None = None) -> Any:
        def attempt() -> Any:
            page = self._client().list_objects_v2(
                Bucket=self.s3.bucket, Prefix=prefix, MaxKeys=most, **(token or {})
            )
            if "IsTruncated" not in page:  # else half an answer would read as an empty folder
                raise _Truncated("the list broke off")
            return page

        return self._call(attempt, prefix, "list")

    def _read(self, key: str, attempt: Callable[[], _T]) -> _T:
        try:
            return self._call(attempt, key, "read")
        except Denied as denied:
            self._raise_if_missing(key, denied)
        return self._call(attempt, key, "read")  # it exists: perhaps written since the first try

    def _raise_if_missing(self, key: str, denied: Denied) -> None:
        """Tell a missing object from a forbidden one: scoped credentials get 403 for both."""
        try:
            page = self._page(key, 1)
        except StoreError:
            raise denied from None
        if all(item["Key"] != key for item in page.get("Contents", [])):
            raise NotFound(f"{self._answers.uri(key)}: there is no such object") from None

    def _call(self, attempt: Callable[[], _T], key: str, verb: str) -> _T:
        deadline = time.monotonic() + self.retry.patience_seconds
        tries = 0
        while True:
            try:
                return attempt()
            except Exception as error:
                verdict = self._judge(error, key, verb)
                tries += 1
                pause = self.retry.pause_seconds(tries, self._random.random())
                if not isinstance(verdict, Unreachable) or time.monotonic() + pause > deadline:
                    raise verdict from error
            time.sleep(pause)

    def _judge(self, error: Exception, key: str, verb: str) -> StoreError:
        """What a failure means; only Unreachable is worth another try. Bugs pass through."""
        from botocore import exceptions, parsers
        from urllib3.exceptions import HTTPError

        if isinstance(error, StoreError):
            return error
        if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
            raise error  # this machine's disk: retrying does not help
        if isinstance(error, exceptions.ClientError):
            return self._answers.map_response(error.response, key, verb)
        if isinstance(error, exceptions.SSLError) and "CERTIFICATE_VERIFY" in str(error):
            return Denied(
                f"{self._answers.path}.endpoint: {self._answers.endpoint} shows a certificate "
                "nobody here trusts",
                hint=f"name its authority in {self._answers.path}.caSecret, or in the variable "
                f"{self._variables}AWS_CA_BUNDLE",
            )
        passing = (
            exceptions.ConnectionError,
            exceptions.HTTPClientError,
            exceptions.IncompleteReadError,
            exceptions.FlexibleChecksumError,
            exceptions.ChecksumError,
            parsers.ResponseParserError,
            HTTPError,
            OSError,
            _Truncated,
        )
        if isinstance(error, passing):
            return self._answers.unreachable(_sentence(error))
        if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
            return Denied(
                f"{self._answers.path}: found no complete credentials for {self._answers.endpoint}",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or credentialsSecret",
            )
        if isinstance(error, exceptions.BotoCoreError | ValueError):
            return Denied(f"{self._answers.path}: cannot be used as it is: {_sentence(error)}")
        raise error

    def _client(self) -> Any:
        with self._making:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), self._make_client())
            return self._made[1]

    def _make_client(self) -> Any:
        """A client without retries; botocore takes half a second to import, so it is done here."""
        import botocore.session
        from botocore.config import Config

        limit = max(self.retry.patience_seconds, 0.1)
        endpoint = self.s3.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3")
        config = Config(
            region_name=self.s3.region,
            connect_timeout=min(self.retry.connect_seconds, limit),
            read_timeout=min(self.retry.read_seconds, limit),
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            s3={"addressing_style": self.s3.addressing_style},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            proxies={} if _is_loopback(endpoint) else None,
        )
        given = self._credentials
        session = botocore.session.Session()
        session.register_component("data_loader", _loader())
        return session.create_client(
            "s3",
            endpoint_url=endpoint,
            config=config,
            verify=self._verify,
            aws_access_key_id=given.access_key if given else None,
            aws_secret_access_key=given.secret_key if given else None,
            aws_session_token=given.session_token if given else None,
        )


class _Truncated(Exception):
    """A body that ended before its announced length."""


def _length(answer: Mapping[str, Any]) -> int:
    """The announced length; an answer that broke off within its head has none."""
    if "ContentLength" not in answer:
        raise _Truncated("the answer's head broke off")
    return int(answer["ContentLength"])


@functools.cache
def _loader() -> Any:
    """Botocore's description of S3, read once: it is most of what a new client costs."""
    from botocore import loaders

    return loaders.create_loader()


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _is_loopback(endpoint: str | None) -> bool:
    """Whether requests stay on this machine, where a company's HTTP proxy cannot help."""
    host = urlsplit(endpoint or "").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
