"""One OpenAI-compatible server by HTTP: bounded answers, and retries while it is busy.

A server's error message may quote the prompt, so an error of a turn keeps only the status.
"""

from typing import Any
from urllib.parse import urlsplit

from hansa.api.endpoint import Endpoint
from hansa.core.errors import PermanentError
from hansa.core.http import HttpClient, HttpError, Response, make_status_error
from hansa.core.text import shorten

CHAT = "/v1/chat/completions"
DENIED = frozenset({401, 403})
_LONGEST_ANSWER = 8 * 2**20

Document = dict[str, Any]


class Api:
    """Requests to one endpoint, from any thread."""

    def __init__(self, endpoint: Endpoint, api_key: str) -> None:
        parts = urlsplit(endpoint.url)
        self.place = f"{parts.scheme}://{parts.netloc}"
        """The server's address, for messages."""
        self._root = endpoint.url.rstrip("/").removesuffix("/v1").rstrip("/")
        self._patience = float(endpoint.patience_seconds)
        seconds = float(endpoint.timeout_seconds)
        self._http = HttpClient(
            read_seconds=seconds,
            whole_seconds=seconds,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            largest=_LONGEST_ANSWER,
            connections=endpoint.concurrency,
        )
        self.close = self._http.close
        self.pause = self._http.pause

    def post(self, path: str, body: Document) -> Any:
        """What the server answers, or an HttpError."""
        return self._read_document(self._http.send("POST", self._root + path, document=body))

    def ask_patiently(self, path: str, body: Document | None = None) -> Any:
        """The answer to a POST, or a GET without a body; repeated while the server is busy."""

        def ask() -> Response:
            method = "GET" if body is None else "POST"
            return self._http.send(method, self._root + path, document=body)

        return self._read_document(self._http.repeat(ask, patience_seconds=self._patience))

    def _read_document(self, response: Response) -> Any:
        if response.status in DENIED:
            raise PermanentError(
                f"endpoint.apiKeySecret: {self.place} refuses the key (HTTP {response.status})",
                hint="or HANSA_ENDPOINT_API_KEY of `hansa run`",
            )
        if response.status != 200:
            raise make_status_error(response)
        try:
            return response.json()
        except HttpError:
            return None


def quote_reason(error: HttpError) -> str:
    """The server's error message, for requests without text of an episode; empty: none."""
    response = error.response
    if response is None:
        return ""
    return response.sentence() or shorten(response.content[:400].decode("utf-8", "replace"))
