"""One session of an OpenEnv server: a WebSocket on which each message has one answer.

Nothing is trusted: no redirect is followed, no proxy of the environment is used, nothing is
unpacked, and an answer that is too large, too slow or no JSON is a fault.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from hansa.core.http import (
    CONNECT_SECONDS,
    LARGEST,
    HttpError,
    Response,
    explain_refusal,
    status_error,
)
from hansa_worlds.remote.wire import parse_json

CLOSE_SECONDS = 2.0
PATH = "/ws"
CAPACITY_REACHED = "CAPACITY_REACHED"


class ServerError(Exception):
    """The server's own error, by its code; its words may quote an episode."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.code = _code(data.get("code"))
        super().__init__(f"error {self.code}")
        self._errors = [one for one in _list(data.get("errors")) if isinstance(one, dict)]
        said = [f"{_place(one)}: {one.get('msg')}" for one in self._errors[:3]]
        self.words = "; ".join(said) or str(data.get("message", ""))

    @property
    def wrong_fields(self) -> bool:
        """Whether it says that a field is missing or unknown, and not that its value is wrong."""
        return any(one.get("type") in ("missing", "extra_forbidden") for one in self._errors)


class Channel:
    """A connection from its opening to its end; used by one thread at a time."""

    def __init__(self, url: str, seconds: float) -> None:
        self._seconds = seconds
        self._open = ExitStack()
        limit = min(seconds, CONNECT_SECONDS)
        try:
            self._socket = self._open.enter_context(
                connect(
                    f"ws{url.removeprefix('http')}{PATH}",
                    sock=_connected(url, limit),  # one of ours follows no redirect and no proxy
                    compression=None,
                    open_timeout=limit,
                    close_timeout=CLOSE_SECONDS,
                    ping_interval=None,  # the server's pings are answered all the same
                    max_size=LARGEST,
                    max_queue=4,
                )
            )
        except InvalidStatus as error:
            refused = status_error(Response(error.response.status_code))
            raise HttpError(refused.kind, f"{refused} at {PATH}", refused.response) from None
        except ssl.SSLError:
            raise HttpError("refused", "no trusted TLS connection") from None
        except (WebSocketException, ValueError):  # ValueError: a redirect, among others
            raise HttpError("status", f"no WebSocket at {PATH}") from None
        except (OSError, EOFError) as error:
            raise HttpError("refused", explain_refusal(error)) from None

    def ask(self, kind: str, data: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The data of the answer to a message; ServerError where it is an error."""
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        try:
            with suppress(ConnectionClosed):  # what it said before it closed tells why
                self._socket.send(json.dumps(message))
            answer = parse_json(self._socket.recv(timeout=self._seconds))
        except TimeoutError:
            raise HttpError("lost", f"no answer within {self._seconds:g} s") from None
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == 1009:
                raise HttpError("answer", f"an answer of more than {LARGEST} bytes") from None
            raise HttpError("lost", "the connection broke off") from None
        except OSError:
            raise HttpError("lost", "the connection broke off") from None
        return _data(answer)

    def close(self) -> None:
        """Say that the session is over, and end the connection."""
        with suppress(ConnectionClosed, OSError):
            self._socket.send('{"type": "close"}')
        with suppress(Exception):  # nothing depends on it any more
            self._open.close()


def _data(answer: object) -> dict[str, Any]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(data, dict):
        raise HttpError("answer", "an answer without data")
    if answer.get("type") == "error":
        raise ServerError(data)
    return data


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _place(error: Mapping[str, Any]) -> str:
    return ".".join(map(str, _list(error.get("loc"))))


def _code(code: object) -> str:
    """A code as it is shown: one of a server's own could hold anything."""
    known = isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum()
    return str(code)[:40] if known else "without a code"


def _connected(url: str, seconds: float) -> socket.socket:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        return socket.create_connection((parts.hostname or "", port), timeout=seconds)
    except (OSError, UnicodeError) as error:
        raise HttpError("refused", explain_refusal(error)) from None
