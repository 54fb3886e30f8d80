"""Errors of a request: an HTTP status and one sentence, in the shape of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from hansa.validation.messages import got


class OpenAIError(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str, *, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def document(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        kind = _KINDS.get(self.status)
        if kind is None:
            kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": self.message, "type": kind}
        return {"error": {**error, "param": self.param or None, "code": self.code or None}}


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


_KINDS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


def refused(field: str, why: str) -> OpenAIError:
    """A request that is wrong in a field."""
    return OpenAIError(HTTPStatus.BAD_REQUEST, f"{field}: {why}", param=field)


def misfit(field: str, value: Any, fits: str) -> OpenAIError:
    """A field whose value does not fit."""
    return refused(field, f"got {got(value, tuple(field.split('.')))}, {fits}")
