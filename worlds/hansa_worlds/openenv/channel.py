"""One session of an OpenEnv server: a WebSocket on which each message has one answer.

The server is not trusted: redirects, proxies of the environment and compression are off, and an
answer that is too large, too slow or no JSON is an error.
"""

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
    make_status_error,
)
from hansa_worlds.remote.wire import parse_json

CLOSE_SECONDS = 2.0
PATH = "/ws"
CAPACITY_REACHED = "CAPACITY_REACHED"


class ServerError(Exception):
    """The server's own error, by its code; its text may quote an episode."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.code = _sanitize_code(data.get("code"))
        super().__init__(f"error {self.code}")
        self._errors = [one for one in _as_list(data.get("errors")) if isinstance(one, dict)]
        said = [
            f"{'.'.join(map(str, _as_list(one.get('loc'))))}: {one.get('msg')}"
            for one in self._errors[:3]
        ]
        self.words = "; ".join(said) or str(data.get("message", ""))

    @property
    def wrong_fields(self) -> bool:
        """Whether a field is missing or unknown, rather than a value wrong."""
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
                    sock=_open_socket(
                        url, limit
                    ),  # our own socket follows no redirect and no proxy
                    compression=None,
                    open_timeout=limit,
                    close_timeout=CLOSE_SECONDS,
                    ping_interval=None,  # the server's pings are answered all the same
                    max_size=LARGEST,
                    max_queue=4,
                )
            )
        except InvalidStatus as error:
            refused = make_status_error(Response(error.response.status_code))
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
            with suppress(ConnectionClosed):  # the last message before the close has the reason
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
        return _parse_data(answer)

    def close(self) -> None:
        """Say that the session is over, and end the connection."""
        with suppress(ConnectionClosed, OSError):
            self._socket.send('{"type": "close"}')
        with suppress(Exception):  # the connection is not used again
            self._open.close()


def _parse_data(answer: object) -> dict[str, Any]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(data, dict):
        raise HttpError("answer", "an answer without data")
    if answer.get("type") == "error":
        raise ServerError(data)
    return data


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _sanitize_code(code: object) -> str:
    """A code that is safe to show: a server could send any text."""
    known = isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum()
    return str(code)[:40] if known else "without a code"


def _open_socket(url: str, seconds: float) -> socket.socket:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        return socket.create_connection((parts.hostname or "", port), timeout=seconds)
    except (OSError, UnicodeError) as error:
        raise HttpError("refused", explain_refusal(error)) from None
