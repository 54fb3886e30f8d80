"""A small client of any OpenAI-compatible server, for chats in a terminal."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from hansa.core.errors import HansaError, InputError

SECONDS = 120.0
"""How long a server may be silent."""
_LONGEST_LINE = 2**20
Message = dict[str, str]


class ChatClient:
    """Sends requests to one server, each on a connection of its own."""

    def __init__(self, url: str, api_key: str = "") -> None:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:  # unbalanced brackets
            is_address = False
        if not is_address:
            raise InputError(f"--url: got {url}, expected an address like http://127.0.0.1:8000")
        self._url = url
        self._parts = parts
        self._root = parts.path.rstrip("/").removesuffix("/v1")
        self._key = api_key

    def models(self) -> list[str]:
        """Names of the models that it serves."""
        with self._send_request("GET", "/v1/models") as response:
            listed = self._read_document(response).get("data")
        names = [each.get("id") for each in listed or [] if isinstance(each, dict)]
        return [name for name in names if isinstance(name, str)]

    def stream(self, model: str, messages: list[Message], **more: Any) -> Iterator[str]:
        """The answer's text as it comes."""
        body = {"model": model, "messages": messages, "stream": True, **more}
        with self._send_request("POST", "/v1/chat/completions", body) as response:
            for data in self._read_events(response):
                yield from _extract_texts(data)

    @contextmanager
    def _send_request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Iterator[HTTPResponse]:
        """The response to a request, whose connection is closed at the end of the block."""
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        headers = {"Content-Type": "application/json"} if body else {}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=SECONDS)
            connection.request(
                method, self._root + path, json.dumps(body) if body else None, headers
            )
            response = connection.getresponse()
        except (OSError, ValueError, HTTPException) as error:
            raise self._make_unreachable(error) from None
        with closing(connection):
            if response.status != 200:
                message = _extract_message(self._read_document(response))
                raise HansaError(f"{self._url}: {message} (HTTP {response.status})")
            yield response

    def _read_document(self, response: HTTPResponse) -> dict[str, Any]:
        try:
            document = json.loads(response.read(_LONGEST_LINE))
        except (OSError, HTTPException) as error:
            raise self._make_unreachable(error) from None
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def _read_events(self, response: HTTPResponse) -> Iterator[dict[str, Any]]:
        """The data of the server's events, up to the last."""
        while True:
            try:
                line = response.readline(_LONGEST_LINE)
            except (OSError, HTTPException) as error:
                raise self._make_unreachable(error) from None
            if not line:
                raise HansaError(f"{self._url}: the answer broke off")
            data = line.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            if not line.startswith(b"data:"):
                continue
            try:
                document = json.loads(data)
            except ValueError:
                raise HansaError(f"{self._url}: got an event that is no JSON") from None
            if not isinstance(document, dict) or "error" in document:
                raise HansaError(f"{self._url}: {_extract_message(document)}")
            yield document

    def _make_unreachable(self, error: Exception) -> HansaError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return HansaError(
            f"{self._url}: got no answer ({reason})", hint="is `hansa serve` running there?"
        )


def _extract_message(document: Any) -> str:
    """The message of an error that a server returned."""
    error = document.get("error") if isinstance(document, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) and message else "got an error without a message"


def _extract_texts(document: dict[str, Any]) -> Iterator[str]:
    for choice in document.get("choices") or []:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        text = delta.get("content") if isinstance(delta, dict) else None
        if isinstance(text, str):
            yield text
