"""JSON over HTTP to a tracker's server, with sentences for what can go wrong."""

import json
import os
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3
from urllib3.util import Retry, Timeout, make_headers

from hansa.errors import HansaError, InputError, TrackerAway

_TIMEOUT = Timeout(connect=10, read=120)
_AGAIN = Retry(total=2, redirect=0, backoff_factor=0.5, status_forcelist=(429, 502, 503, 504))
"""Reads alone are repeated here: urllib3 repeats no POST that may have arrived."""


class Server:
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
        self._pool = urllib3.PoolManager(
            timeout=_TIMEOUT, retries=_AGAIN, headers=_authorization(), ca_certs=_authorities()
        )

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """A document; None where the server has none."""
        status, data = self._ask("GET", path, fields=query)
        return None if status == 404 else self._checked(path, status, data)

    def post(self, path: str, document: Any, *, may_exist: bool = False) -> dict[str, Any]:
        """What the server answers to a document."""
        status, data = self._ask("POST", path, json=document)
        if may_exist and status == 400 and b"RESOURCE_ALREADY_EXISTS" in data:
            return {}
        return self._checked(path, status, data)

    def put(self, path: str, content: bytes) -> None:
        """Store a file."""
        headers = {**self._pool.headers, "Content-Type": "application/octet-stream"}
        status, data = self._ask("PUT", quote(path), body=content, headers=headers)
        self._checked(path, status, data)

    def _ask(self, method: str, path: str, **what: Any) -> tuple[int, bytes]:
        try:
            answer = self._pool.request(method, self._url + path, **what)
        except urllib3.exceptions.HTTPError as error:
            cause = getattr(error, "reason", None) or error
            raise TrackerAway(
                f"--url: got {self._url}, which does not answer ({_short(str(cause))})",
                hint="the same command goes on where it was; nothing is sent twice",
            ) from error
        return answer.status, answer.data

    def _checked(self, path: str, status: int, data: bytes) -> dict[str, Any]:
        if status in (401, 403):
            raise InputError(
                f"--url: got {self._url}, which refuses these credentials (HTTP {status})",
                hint="MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                "MLFLOW_TRACKING_TOKEN",
            )
        if status in (429, 502, 503, 504):
            raise TrackerAway(f"--url: got {self._url}, which is busy (HTTP {status})")
        try:
            document = json.loads(data or b"{}")
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise InputError(
                f"--url: got {self._url}, which is no MLflow server (HTTP {status} for {path})"
            )
        if status != 200:
            said = _short(str(document.get("message") or document))
            raise HansaError(f"{self._url}: {path.rpartition('/')[2]}: HTTP {status}: {said}")
        return document


def _authorization() -> dict[str, str]:
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    if not user:
        return {}
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    return dict(make_headers(basic_auth=f"{user}:{password}"))


def _authorities() -> str | None:
    """A file of certificates for https; None: the system's."""
    return os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or None


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
