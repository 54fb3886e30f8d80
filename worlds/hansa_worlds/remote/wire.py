"""A world's server over HTTP: small JSON answers of clean text and finite numbers."""

import json
import math
import re
from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import urlsplit

from hansa.core.http import HttpClient, HttpError, make_status_error
from hansa.core.text import shorten
from hansa_worlds.errors import OptionError

CONNECTIONS = 128
"""Kept open for the next turn; more callers at once wait for one another."""
LONGEST_TEXT = 16_000
"""Characters of an observation that are kept; no agent reads more in one turn."""
LONGEST_ERROR = 200
LARGEST_REWARD = 1e6

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]+")


class RemoteConnections:
    """Connections to one server, kept open between requests; safe to use from many threads."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self.url = url
        self._http = HttpClient(
            read_seconds=timeout_seconds,
            whole_seconds=timeout_seconds,
            headers={"Accept": "application/json"},
            connections=CONNECTIONS,
        )

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> object:
        """The JSON of an answer with status 200."""
        response = self._http.send(method, self.url + path, document=body, seconds=seconds)
        if response.status != 200:
            raise make_status_error(response)
        return parse_json(response.content)

    def probe(self, seconds: float) -> HttpError | None:
        """The error where no server answers; None for any answer, an error status too."""
        try:
            self.call("GET", "/", seconds=seconds)
        except HttpError as error:
            return None if error.kind in ("status", "answer") else error
        return None


def check_url(url: str) -> str:
    """The URL without a trailing slash; OptionError where it is no server's."""
    try:
        parts = urlsplit(url)
        odd = parts.username is not None or parts.query or parts.fragment or parts.port == 0
    except ValueError:
        parts, odd = urlsplit(""), True
    plain = re.fullmatch(r"[\x21-\x7e]{1,2000}", url) is not None
    if odd or not plain or parts.scheme not in ("http", "https") or not parts.hostname:
        shown = re.sub(r"//.*@", "//***@", url[:200])
        raise OptionError(
            f"options.url: got {shown!r}, expected http:// or https://, a host, a port and no more"
        )
    return url.rstrip("/")


def parse_json(body: bytes | str) -> object:
    """An answer's JSON; NaN and infinity are refused."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        answer: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise HttpError("answer", "an answer that is no JSON") from None
    return answer


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def clean(text: str) -> str:
    """Text that may be shown and trained on."""
    text = _UNSEEN.sub("", text.replace("\r\n", "\n"))
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 4] + " ..."
    return text


def format_error(text: str) -> str:
    """A server's error in one short line."""
    return shorten(clean(text), LONGEST_ERROR)


def read_reward(value: object, field: str) -> float:
    """A reward of a server's answer: a number that training can use."""
    if not isinstance(value, int | float) or math.isnan(value) or abs(value) > LARGEST_REWARD:
        raise HttpError("answer", f"no number in {field!r}")
    return float(value)
