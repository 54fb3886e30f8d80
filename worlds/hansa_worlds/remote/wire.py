"""A world's server over HTTP: small JSON answers, in which every number is one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

from hansa.core.http import HttpClient, HttpError, status_error

CONNECTIONS = 128
"""Kept open for the next turn; more callers at once wait for one another."""


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
        """Whatever JSON the server answers with status 200."""
        response = self._http.send(method, self.url + path, document=body, seconds=seconds)
        if response.status != 200:
            raise status_error(response)
        return parse_json(response.content)

    def answers(self, seconds: float) -> HttpError | None:
        """Why nobody answers at the address, or None when somebody does, whatever it says."""
        try:
            self.call("GET", "/", seconds=seconds)
        except HttpError as error:
            return None if error.kind in ("status", "answer") else error
        return None


def parse_json(body: bytes | str) -> object:
    """An answer's JSON, in which every number is one."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        answer: object = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise HttpError("answer", "an answer that is no JSON") from None
    return answer


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
