"""Verbs on paths of the Kubernetes API, plain dicts in and out, by the official client.

Its typed methods are not used, for a custom resource has no model there.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, cast

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import ConnectTimeoutError, HTTPError, ProxyError

from hansa.core.errors import HansaError
from hansa.kubernetes.kubeconfig import Cluster, find_cluster

Data = dict[str, Any]
JSON = "application/json"
PatchKind = Literal["merge", "apply"]

PATCHES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
CONNECT_SECONDS = 10.0
WATCH_GRACE_SECONDS = 30.0
"""How long after its agreed end a silent watch is given up: its connection died unnoticed."""
PAGE = 500
"""Objects in one answer to a list, so that a large one does not load the apiserver."""
PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds before each repeated try of a request that may be repeated."""
BUSY = frozenset({429, 503, 504})


class ApiError(HansaError):
    """The apiserver refused or did not answer; the fields are those of its Status object."""

    def __init__(self, status: int, reason: str, message: str, details: Data | None = None) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; 0 when there was no answer at all."""
        self.reason = reason
        """Kubernetes' word for it: NotFound, AlreadyExists, Conflict, Forbidden, ..."""
        self.details = details or {}
        """The Status object's details: name, kind, causes, retryAfterSeconds."""

    @property
    def is_not_found(self) -> bool:
        """Whether the object, or the kind of object, is not there."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether somebody else wrote first, or has made an object of that name."""
        return self.status == 409

    @property
    def may_pass(self) -> bool:
        """Whether the same request can succeed later without anybody changing anything."""
        return self.status == 0 or self.status == 429 or self.status >= 500


class Kube:
    """One API server; safe to use from many threads."""

    def __init__(self, find: Callable[[], Cluster], *, timeout_seconds: float = 30.0) -> None:
        self._find = find
        self._cluster = find()
        self._timeout = timeout_seconds
        self.server = self._cluster.api.configuration.host
        self.context, self.namespace = self._cluster.context, self._cluster.namespace

    # -- verbs ------------------------------------------------------------------------------------

    def get(self, path: str, **params: Any) -> Data:
        """One object, or whatever JSON the path holds."""
        return self._json("GET", path, params)

    def list(self, path: str, **params: Any) -> Data:
        """A whole list as one object, gathered page by page; metadata.resourceVersion to watch."""
        page = self.get(path, **{"limit": PAGE, **params})
        items = page.get("items") or []
        while more := (page.get("metadata") or {}).get("continue"):
            page = self.get(path, **{"limit": PAGE, **params, "continue": more})
            items += page.get("items") or []
        return {**page, "items": items}

    def create(self, path: str, body: Mapping[str, Any], **params: Any) -> Data:
        """Make an object; `path` is that of its collection. 409 when the name is taken."""
        return self._json("POST", path, params, body)

    def replace(self, path: str, body: Mapping[str, Any], **params: Any) -> Data:
        """Write a whole object or subresource; 409 when its resourceVersion is not the newest."""
        return self._json("PUT", path, params, body)

    def patch(self, path: str, body: Any, *, kind: PatchKind = "merge", **params: Any) -> Data:
        """Change an object; `apply` is server-side apply and needs `fieldManager`."""
        return self._json("PATCH", path, params, body, PATCHES[kind])

    def delete(self, path: str, body: Mapping[str, Any] | None = None, **params: Any) -> Data:
        """Delete an object; `body` is a DeleteOptions (propagation, preconditions)."""
        return self._json("DELETE", path, params, body)

    def watch(
        self, path: str, *, resource_version: str, timeout_seconds: int = 300, **params: Any
    ) -> Iterator[Data]:
        """Events {type, object} since a resourceVersion, until the apiserver ends it.

        An ERROR event is raised: 410 asks for a fresh list. The end is no error: watch again from
        the newest resourceVersion seen.
        """
        asked = {"watch": True, "allowWatchBookmarks": True, **params}
        asked |= {"resourceVersion": resource_version, "timeoutSeconds": timeout_seconds}
        for line in self.lines(
            path, silence_seconds=timeout_seconds + WATCH_GRACE_SECONDS, **asked
        ):
            event: Data = json.loads(line)
            if event.get("type") == "ERROR":
                raise _build_error(int(event["object"].get("code") or 500), event["object"])
            yield event

    def lines(
        self, path: str, *, silence_seconds: float | None = None, **params: Any
    ) -> Iterator[bytes]:
        """The lines of an answer as they come, for watches and logs; close it to stop early."""
        response = self._send("GET", path, params, silence_seconds)
        rest = b""
        try:
            with _raise_lost_connections(self.server):
                for chunk in response.stream(65_536):
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from whole
                if rest:
                    yield rest
        finally:
            response.close()

    # -- one request ------------------------------------------------------------------------------

    def _json(self, method: str, path: str, params: Data, *body: Any) -> Data:
        response = self._send(method, path, params, self._timeout, *body)
        try:
            with _raise_lost_connections(self.server):
                return _parse_answer(response.data)
        finally:
            response.release_conn()

    def _send(self, method: str, *request: Any) -> BaseHTTPResponse:
        """The answer to a request, tried again while that can do no harm."""
        for pause in (*PAUSES, None):
            try:
                return self._try(method, *request)
            except ApiError as error:
                if pause is None or not _may_repeat(method, error):
                    raise
                asked = error.details.get("retryAfterSeconds") or 0
                time.sleep(max(pause, min(float(asked), 10.0)))
        raise AssertionError("unreachable")

    def _try(self, *request: Any) -> BaseHTTPResponse:
        with _raise_lost_connections(self.server):
            response = self._call(*request)
            if response.status == 401:  # a token was rotated, or a login renewed: read it again
                response.drain_conn()
                self._cluster = self._find()
                response = self._call(*request)
            if response.status < 400:
                return response
            answer = _parse_answer(response.data, strict=False)
        raise _build_error(response.status, answer, response.headers)

    def _call(
        self,
        method: str,
        path: str,
        params: Data,
        read_seconds: float | None,
        body: Any = None,
        content: str = JSON,
    ) -> BaseHTTPResponse:
        from kubernetes.client.exceptions import ApiException  # a lazy name costs 0.16 ms

        api, query = self._cluster.api, {k: v for k, v in params.items() if v is not None}
        # Without the body: the library would copy it, which doubles the cost of a write.
        _, url, headers, _, _ = api.param_serialize(
            method, path, query_params=query, auth_settings=["BearerToken"]
        )
        # The token of a file may end with a new line.
        headers = {name: value.strip() for name, value in headers.items()}
        headers |= {"Accept": JSON, "Content-Type": content}
        timeout = (CONNECT_SECONDS, read_seconds)
        try:
            answer = api.call_api(method, url, headers, body, _request_timeout=timeout)
        except ApiException as error:  # what the library makes of an SSLError
            why = _simplify(str(error.reason))
            raise ApiError(0, "Untrusted", f"{self.server}: {why}") from error
        return cast(BaseHTTPResponse, answer.response)


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    pool_size: int = 4,
    timeout_seconds: float = 30.0,
) -> Kube:
    """A client as kubectl would find its cluster: kubeconfig first, then the Pod's own account."""
    find = partial(find_cluster, kubeconfig, context, pool_size=pool_size)
    return Kube(find, timeout_seconds=timeout_seconds)


def _parse_answer(data: bytes, *, strict: bool = True) -> Data:
    try:
        answer = json.loads(data)
    except ValueError:
        if strict:
            raise ApiError(0, "NotJson", "the apiserver did not answer with JSON") from None
        answer = {"message": data[:500].decode(errors="replace").strip()}
    return answer if isinstance(answer, dict) else {"message": str(answer)}


def _may_repeat(method: str, error: ApiError) -> bool:
    """Reads always; writes only when the apiserver cannot have seen them."""
    if error.status == 429 or error.reason == "NotConnected":
        return True
    return method == "GET" and (error.reason == "ConnectionLost" or error.status in BUSY)


def _build_error(status: int, answer: Data, headers: Mapping[str, str] | None = None) -> ApiError:
    details = dict(answer.get("details") or {})
    after = (headers or {}).get("Retry-After", "")
    if after.isdecimal():
        details.setdefault("retryAfterSeconds", int(after))
    reason = str(answer.get("reason") or "Unknown")
    message = str(answer.get("message") or f"the apiserver answered {status}")
    return ApiError(status, reason, message, details)


@contextmanager
def _raise_lost_connections(server: str) -> Iterator[None]:
    """Raise network errors as ApiErrors: nothing was sent, or the answer was lost."""
    try:
        yield
    except HTTPError as error:
        why = _simplify(str(error)) or type(error).__name__
        lost = not isinstance(error, ConnectTimeoutError | ProxyError)
        reason = "ConnectionLost" if lost else "NotConnected"
        raise ApiError(0, reason, f"{server}: {why}") from error


def _simplify(text: str) -> str:
    """The last part of a nested message, without the numbers of system and OpenSSL."""
    last = text.rpartition(": ")[2].strip("'\"")
    last = re.sub(r"\[[^\]]*\] ?| ?\(_ssl\.c:\d+\)", "", last)
    while last.endswith(("'", ")")) and last.count(")") != last.count("("):
        last = last[:-1]
    return last
