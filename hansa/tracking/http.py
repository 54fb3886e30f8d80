"""JSON over HTTP to a tracker's server, with error messages for its faults."""

import base64
import os
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from hansa.core.errors import HansaError, InputError, TrackerUnreachable
from hansa.core.http import STATUSES, HttpClient, HttpError, Response
from hansa.core.text import shorten

_TRIES = 3
LARGEST = 64 << 20
"""Bytes of an answer: a page of a metric's history has a few million."""


class TrackingServer:
    """One tracking server; credentials come from the variables that MLflow itself reads."""

    def __init__(self, url: str | None) -> None:
        given = url or os.environ.get("MLFLOW_TRACKING_URI") or ""
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"--url: got {given!r}, expected an address like http://127.0.0.1:5000",
                hint="or set MLFLOW_TRACKING_URI; `mlflow server` starts one",
            )
        if "@" in parts.netloc:
            raise InputError(
                "--url: got a password in it, expected it in the environment",
                hint="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
            )
        self._url = given.rstrip("/")
        # None: the system's authorities.
        authorities = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or None
        self._http = HttpClient(
            headers=_build_authorization(), ca_certs=authorities, largest=LARGEST
        )

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """A document; None where the server has none."""
        answer = self._ask("GET", f"{path}?{urlencode(query)}")
        return None if answer.status == 404 else self._check_answer(path, answer)

    def post(self, path: str, document: Any, *, may_exist: bool = False) -> dict[str, Any]:
        """What the server answers to a document."""
        answer = self._ask("POST", path, document=document)
        if may_exist and answer.status == 400 and b"RESOURCE_ALREADY_EXISTS" in answer.content:
            return {}
        return self._check_answer(path, answer)

    def put(self, path: str, content: bytes) -> None:
        """Store a file."""
        headers = {"Content-Type": "application/octet-stream"}
        self._check_answer(path, self._ask("PUT", quote(path), body=content, headers=headers))

    def _ask(self, method: str, path: str, **what: Any) -> Response:
        """An answer of any status; a POST that may have arrived is not repeated."""
        try:
            return self._http.repeat(
                lambda: self._http.send(method, self._url + path, **what),
                tries=_TRIES,
                is_safe=method != "POST",
            )
        except HttpError as error:
            if error.response:
                return error.response
            if error.kind == "answer":
                raise HansaError(f"{self._url}: got {error}") from error
            raise TrackerUnreachable(
                f"--url: got {self._url}, which does not answer ({error})",
                hint="run the same command again: it resumes, and sends nothing twice",
            ) from error

    def _check_answer(self, path: str, answer: Response) -> dict[str, Any]:
        status = answer.status
        if status in (401, 403):
            raise InputError(
                f"--url: got {self._url}, which refuses these credentials (HTTP {status})",
                hint="MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                "MLFLOW_TRACKING_TOKEN",
            )
        if status in STATUSES:
            raise TrackerUnreachable(f"--url: got {self._url}, which is busy (HTTP {status})")
        try:
            document = answer.json() if answer.content else {}
        except HttpError:
            document = None
        if not isinstance(document, dict):
            raise InputError(
                f"--url: got {self._url}, which is no MLflow server (HTTP {status} for {path})"
            )
        if status != 200:
            said = answer.sentence() or shorten(document)
            raise HansaError(f"{self._url}: {path.rpartition('/')[2]}: HTTP {status}: {said}")
        return document


def _build_authorization() -> dict[str, str]:
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    if not user:
        return {}
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}
