"""A store of the user's own is asked before a run starts: one sentence, soon, for each fault."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.spec import S3
from hansa.core.errors import Denied, StoreError, Unreachable
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store import probe
from hansa.store.base import Credentials
from hansa.store.s3 import S3Store
from tests.support import small
from tests.support.loopback import QuietHandler

MOST_SECONDS = 15.0
NOBODY = Credentials(access_key="nobody", secret_key="wrong")
EMPTY = (
    b'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Name>hansa</Name><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
)


@contextmanager
def deaf() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def careless() -> Iterator[str]:
    """A store that takes every object, whatever the condition."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(EMPTY)

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(b"")

        do_DELETE = do_GET

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def nobody_listens() -> Iterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


@contextmanager
def no_such_host() -> Iterator[str]:
    yield "http://no-such-host.invalid:9000"


def refusal(s3: S3, who: Credentials | None, *others: Credentials) -> StoreError:
    """What the check says, and that it says so soon."""
    began = time.monotonic()
    with pytest.raises(StoreError) as caught:
        probe.check_store(s3, who, others)
    assert time.monotonic() - began < MOST_SECONDS
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize(
    "place, kind",
    [
        pytest.param(no_such_host, Unreachable, id="wrong host"),
        pytest.param(nobody_listens, Unreachable, id="wrong port"),
        pytest.param(deaf, Unreachable, id="never answers"),
        pytest.param(careless, Denied, id="ignores If-None-Match"),
    ],
)
def test_an_address_that_is_no_good_is_named_within_seconds(
    place: Callable[[], Iterator[str]], kind: type[StoreError]
) -> None:
    with place() as endpoint:  # type: ignore[attr-defined]
        error = refusal(S3(endpoint=endpoint, bucket="hansa"), NOBODY)
    assert isinstance(error, kind)
    assert error.message.startswith("spec.storage.s3.endpoint: ")
    assert endpoint in error.message
    if kind is Denied:
        assert "expected a store that honours `If-None-Match: *`" in error.message


@pytest.mark.slow
def test_a_name_that_nobody_resolves_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver without an answer hangs for as long as it likes; no timeout of ours reaches it."""
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(60))
    monkeypatch.setattr(probe, "LIMIT_SECONDS", 2.0)
    try:
        error = refusal(S3(endpoint="http://store.example:9000", bucket="hansa"), NOBODY)
    finally:
        released.set()
    assert "http://store.example:9000 gave no good answer for 2 s" in error.message


@pytest.mark.slow
def test_many_identities_have_the_time_that_each_answer_takes(
    weed: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[S3Store] = []

    def check(store: S3Store) -> None:
        time.sleep(0.5)
        asked.append(store)

    monkeypatch.setattr(S3Store, "check", check)
    monkeypatch.setattr(probe, "LIMIT_SECONDS", 2.0)
    probe.check_store(weed.s3, weed.credentials[RUNNER], [weed.credentials["maze"]] * 6)
    assert len(asked) == 7


@pytest.mark.parametrize(
    "keys, others, bucket, sentence",
    [
        pytest.param(("nobody", "wrong"), (), "", "the access key is not known there", id="a key"),
        pytest.param(("", "wrong"), (), "", "the secret key does not fit", id="a secret"),
        pytest.param(("", ""), (NOBODY,), "", "the access key is not known there", id="another's"),
        pytest.param(
            ("", ""),
            (),
            "no-such-bucket",
            "spec.storage.s3.bucket: got no-such-bucket, which is not at",
            id="a bucket",
        ),
    ],
)
def test_what_a_store_refuses_is_named(
    weed: LocalStore,
    keys: tuple[str, str],
    others: tuple[Credentials, ...],
    bucket: str,
    sentence: str,
) -> None:
    right, (key, secret) = weed.credentials[RUNNER], keys
    who = Credentials(access_key=key or right.access_key, secret_key=secret or right.secret_key)
    s3 = S3(endpoint=weed.s3.endpoint, bucket=bucket) if bucket else weed.s3
    silos = (weed.credentials["maze"], *others) if others else ()
    message = refusal(s3, who, *silos).message
    assert sentence in message and "wrong" not in message


@pytest.mark.parametrize("who", [RUNNER, "aggregator"])
def test_a_good_store_passes_again_and_again(weed: LocalStore, store: S3Store, who: str) -> None:
    for _ in range(2):
        probe.check_store(weed.s3, weed.credentials[who], [weed.credentials["maze"]])
    if who == RUNNER:
        assert bucket_keys.probe(weed.s3.prefix) not in set(store.list(weed.s3.prefix))


@pytest.mark.slow
def test_a_run_with_a_store_that_does_not_answer_starts_nothing(
    weed: LocalStore, tmp_path: Path
) -> None:
    credentials = small.write_credentials(tmp_path, weed)
    with deaf() as endpoint:
        storage = {"s3": {"endpoint": endpoint, "bucket": "hansa", "prefix": "p"}}
        manifest = small.write_manifest(tmp_path, storage=storage)
        began = time.monotonic()
        ended = small.hansa(
            "run", manifest, "--out", tmp_path / "run", "--credentials", credentials
        )
        assert time.monotonic() - began < 2 * MOST_SECONDS, "imports and a busy machine included"
    assert ended.returncode == 44
    assert ended.stderr.count("error: ") == 1
    assert f"error: spec.storage.s3.endpoint: {endpoint} gave no good answer" in ended.stderr
    assert not (tmp_path / "run/federation.json").exists()
    assert not list((tmp_path / "run/jobs").iterdir())
    assert (
        json.loads(credentials.read_text())["default"]["AWS_SECRET_ACCESS_KEY"] not in ended.stderr
    )
