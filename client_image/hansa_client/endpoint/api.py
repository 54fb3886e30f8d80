"""One OpenAI-compatible server by HTTP: bounded answers, and patience with who is busy.

What a server says against a prompt may quote it, so an error of a turn keeps the status alone.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.util import Timeout

from hansa.endpoint import Endpoint
from hansa.errors import PermanentError
from hansa.store.retry import Retry

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""What may be over soon."""
CHAT = "/v1/chat/completions"
DENIED = frozenset({401, 403})
_LONGEST_ANSWER = 8 * 2**20
_CHUNK = 2**16
_CONNECT_SECONDS = 10.0
_PAUSES = Retry(patience_seconds=0.0, first_pause_seconds=0.5, longest_pause_seconds=15.0)

Document = dict[str, Any]


class EndpointError(Exception):
    """A request that was not answered; the message holds nothing of the request."""

    def __init__(
        self, message: str, *, status: int = 0, said: str = "", wait_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        """The server's own words, for requests that hold nothing of an episode."""
        self.wait_seconds = wait_seconds
        """How long the server asks for."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered later."""
        return not self.status or self.status in BUSY


class Api:
    """Requests to one endpoint, from any thread."""

    def __init__(
        self, endpoint: Endpoint, api_key: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        parts = urlsplit(endpoint.url)
        self.place = f"{parts.scheme}://{parts.netloc}"
        """The server's address, for sentences."""
        self._root = endpoint.url.rstrip("/").removesuffix("/v1").rstrip("/")
        self._endpoint = endpoint
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._clock = clock
        self._random = random.Random()  # for pauses alone
        self._closed = threading.Event()
        self._pool = urllib3.PoolManager(maxsize=endpoint.concurrency, retries=False)

    def close(self) -> None:
        """Let every thread that waits give up."""
        self._closed.set()

    def get(self, path: str) -> Any:
        """What the server has there, or an EndpointError."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Document) -> Any:
        """What the server answers, or an EndpointError."""
        return self._ask("POST", path, body)

    def post_patiently(self, path: str, body: Document) -> Any:
        """The same, asked again with growing pauses while the server is busy or away."""
        return self._patiently(lambda: self.post(path, body), self._endpoint.patience_seconds)

    def get_patiently(self, path: str) -> Any:
        """The same for what is only read."""
        return self._patiently(lambda: self.get(path), self._endpoint.patience_seconds)

    def pause(self, seconds: float) -> None:
        """Wait, unless it is all over."""
        self._closed.wait(seconds)

    def _patiently(self, ask: Callable[[], Any], patience: float) -> Any:
        begun, tries = self._clock(), 0
        while True:
            tries += 1
            try:
                return ask()
            except EndpointError as error:
                if not error.may_pass or self._closed.is_set():
                    raise
                pause = _PAUSES.pause_seconds(tries, self._random.random())
                pause = max(pause, error.wait_seconds or 0.0)
                spent = self._clock() - begun
                if spent + pause > patience:
                    times = f"{tries} tries in {spent:.0f} s" if tries > 1 else "one try"
                    raise EndpointError(f"{error}, {times}", status=error.status) from None
            self._closed.wait(pause)

    def _ask(self, method: str, path: str, body: Document | None) -> Any:
        seconds = self._endpoint.timeout_seconds
        deadline = self._clock() + seconds
        try:
            response = self._pool.request(
                method,
                self._root + path,
                json=body,
                headers=self._headers | ({"Content-Type": "application/json"} if body else {}),
                timeout=Timeout(connect=min(_CONNECT_SECONDS, seconds), read=seconds),
                redirect=False,  # the key is for this server alone
                preload_content=False,
            )
            try:
                data = self._read(response, deadline)
            except BaseException:
                response.close()  # what is left of it is nobody's answer
                raise
            response.release_conn()
        except urllib3.exceptions.TimeoutError:
            raise EndpointError(f"no answer within {seconds} s") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            cause = getattr(error, "reason", None) or error
            raise EndpointError(f"no answer ({type(cause).__name__})") from None
        return self._document(response, data)

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        data = bytearray()
        while piece := response.read1(_CHUNK):
            data += piece
            if len(data) > _LONGEST_ANSWER:
                raise EndpointError("an answer without end", status=413)
            if self._clock() > deadline or self._closed.is_set():
                raise EndpointError(f"no answer within {self._endpoint.timeout_seconds} s")
        return bytes(data)

    def _document(self, response: urllib3.BaseHTTPResponse, data: bytes) -> Any:
        status = response.status
        if status in DENIED:
            raise PermanentError(
                f"endpoint.apiKeySecret: {self.place} refuses the key (HTTP {status})",
                hint="or HANSA_ENDPOINT_API_KEY of `hansa run`",
            )
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if status != 200:
            wait = _retry_after(response.headers.get("Retry-After", ""))
            raise EndpointError(
                f"HTTP {status}", status=status, said=_said(document, data), wait_seconds=wait
            )
        return document


def _retry_after(text: str) -> float | None:
    """Seconds that a server asks for, by number or date; None: it does not, or not in a way."""
    try:
        return urllib3.util.Retry().parse_retry_after(text) if text else None
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def _said(document: Any, data: bytes) -> str:
    """An error's sentence, in the shapes that servers have."""
    for name in ("error", "message", "detail", "error_message"):
        sentence = document.get(name) if isinstance(document, dict) else None
        sentence = sentence.get("message") if isinstance(sentence, dict) else sentence
        if isinstance(sentence, str) and sentence:
            return " ".join(sentence.split())[:200]
    return " ".join(data[:400].decode("utf-8", "replace").split())[:200]
