"""Errors of a request: an HTTP status and one sentence, in the shape of OpenAI's API."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from hansa.validation.messages import describe_value


class OpenAIError(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str, *, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def to_document(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        kind = _KINDS.get(self.status)
        if kind is None:
            kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": self.message, "type": kind}
        return {"error": {**error, "param": self.param or None, "code": self.code or None}}


class ClientGone(Exception):
    """The client has disconnected, and nobody reads the answer."""


_KINDS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


def make_shutdown_error() -> OpenAIError:
    """What requests get while the server shuts down."""
    return OpenAIError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is about to end")


def make_unknown_model_error(name: str, known: Iterable[str]) -> OpenAIError:
    """A request for a model that is not served."""
    return OpenAIError(
        HTTPStatus.NOT_FOUND,
        f"model: got '{name[:60]}', expected one of {', '.join(known)}",
        param="model",
        code="model_not_found",
    )


def reject_field(field: str, why: str) -> OpenAIError:
    """A request that is wrong in a field."""
    return OpenAIError(HTTPStatus.BAD_REQUEST, f"{field}: {why}", param=field)


def reject_value(field: str, value: Any, fits: str) -> OpenAIError:
    """A field whose value does not fit."""
    return reject_field(field, f"got {describe_value(value, tuple(field.split('.')))}, {fits}")
