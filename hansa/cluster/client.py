"""A thin Kubernetes client: verbs on paths, plain dicts in and out, no generated models.

The usual client library costs every start most of a second and 40 MiB for models of objects that
Hansa never touches; a custom resource has no such model anyway.
"""

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    MaxRetryError,
    ProxyError,
    SSLError,
)

from hansa import __version__
from hansa.cluster.access import Access, find_access
from hansa.errors import HansaError

Data = dict[str, Any]
JSON = "application/json"
PatchKind = Literal["merge", "json", "apply"]

PATCHES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
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
SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]


class ApiError(HansaError):
    """The apiserver refused, or did not answer: the fields are those of its Status object."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Data | None = None,
        *,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint)
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
    def is_gone(self) -> bool:
        """Whether a watch must start again from a fresh list."""
        return self.status == 410

    @property
    def may_pass(self) -> bool:
        """Whether the same request can succeed later without anybody changing anything."""
        return self.status == 0 or self.status == 429 or self.status >= 500


class _Request(NamedTuple):
    """One question to the apiserver."""

    method: str
    path: str
    params: Data
    body: Any = None
    content: str = JSON
    """Media type of the body."""
    read_seconds: float | None = None
    """Longest silence of the answer; None: any."""


class Kube:
    """One connection pool to one apiserver; safe to use from many threads."""

    def __init__(
        self, access: Access, *, pool_size: int = 4, timeout_seconds: float = 30.0
    ) -> None:
        self.access = access
        self.namespace = access.namespace
        """Namespace that commands without -n mean."""
        self._timeout = timeout_seconds
        self._pool_size = pool_size
        self._pool = self._make_pool()

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
                raise _refusal(int(event["object"].get("code") or 500), event["object"])
            yield event

    def lines(
        self, path: str, *, silence_seconds: float | None = None, **params: Any
    ) -> Iterator[bytes]:
        """The lines of an answer as they come, for watches and logs; close it to stop early."""
        response = self._send(_Request("GET", path, params, read_seconds=silence_seconds))
        rest = b""
        try:
            for chunk in response.stream(65_536):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
            if rest:
                yield rest
        except HTTPError as error:
            raise _no_answer(self.access.server, error) from error
        finally:
            response.close()

    # -- one request ------------------------------------------------------------------------------

    def _json(
        self, method: str, path: str, params: Data, body: Any = None, content: str = JSON
    ) -> Data:
        response = self._send(_Request(method, path, params, body, content, self._timeout))
        try:
            return _parsed(response.data)
        except HTTPError as error:
            raise _no_answer(self.access.server, error) from error
        finally:
            response.release_conn()

    def _send(self, request: _Request) -> urllib3.BaseHTTPResponse:
        """The answer to a request, tried again while that can do no harm."""
        for pause in (*PAUSES, None):
            try:
                return self._try(request)
            except ApiError as error:
                if pause is None or not _may_repeat(request.method, error):
                    raise
                asked = error.details.get("retryAfterSeconds") or 0
                time.sleep(max(pause, min(float(asked), 10.0)))
        raise AssertionError("unreachable")

    def _try(self, request: _Request) -> urllib3.BaseHTTPResponse:
        body = None if request.body is None else json.dumps(request.body).encode()
        for fresh in (False, True):
            headers = self._headers("" if body is None else request.content, fresh=fresh)
            try:
                response = self._pool.request(
                    request.method,
                    self.access.server + request.path + _query(request.params),
                    body=body,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=request.read_seconds),
                    preload_content=False,
                    retries=False,
                )
                if response.status < 400:
                    return response
                data = response.data
                response.release_conn()
            except HTTPError as error:
                raise _no_answer(self.access.server, error) from error
            if response.status != 401 or fresh or not self.access.can_renew:
                break
        raise _refusal(response.status, _parsed(data, strict=False), response.headers)

    def _headers(self, content: str, *, fresh: bool) -> dict[str, str]:
        if self.access.renew(force=fresh):
            self._pool = self._make_pool()  # a client certificate was renewed
        headers = {"Accept": "application/json", "User-Agent": f"hansa/{__version__}"}
        if content:
            headers["Content-Type"] = content
        return {**headers, **self.access.headers()}

    def _make_pool(self) -> urllib3.PoolManager:
        access = self.access
        options: Data = {
            "maxsize": self._pool_size,
            "socket_options": SOCKET_OPTIONS,
            **({"ssl_context": access.tls()} if access.server.startswith("https:") else {}),
            **({"server_hostname": access.server_name} if access.server_name else {}),
        }
        if access.server_name:
            options["assert_hostname"] = access.server_name
        if access.insecure:
            urllib3.disable_warnings(InsecureRequestWarning)  # the user asked for it
        if access.proxy:
            return urllib3.ProxyManager(access.proxy, **options)
        return urllib3.PoolManager(**options)


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    pool_size: int = 4,
    timeout_seconds: float = 30.0,
) -> Kube:
    """A client as kubectl would find its cluster: kubeconfig first, then the Pod's own account."""
    access = find_access(kubeconfig, context)
    return Kube(access, pool_size=pool_size, timeout_seconds=timeout_seconds)


def _query(params: Data) -> str:
    """camelCase parameters of the API as a query; None is left out, booleans are lower case."""
    given = {k: _word(v) for k, v in params.items() if v is not None}
    return f"?{urlencode(given)}" if given else ""


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(data: bytes, *, strict: bool = True) -> Data:
    try:
        answer = json.loads(data)
    except ValueError:
        if strict:
            raise ApiError(
                0, "NotJson", "the apiserver answered with something else than JSON"
            ) from None
        answer = {"message": data[:500].decode(errors="replace").strip()}
    return answer if isinstance(answer, dict) else {"message": str(answer)}


def _may_repeat(method: str, error: ApiError) -> bool:
    """Reads always; writes only when the apiserver cannot have seen them."""
    if error.status == 429 or error.reason == "NotConnected":
        return True
    return method == "GET" and (error.reason == "ConnectionLost" or error.status in BUSY)


def _refusal(status: int, answer: Data, headers: Mapping[str, str] | None = None) -> ApiError:
    details = dict(answer.get("details") or {})
    after = (headers or {}).get("Retry-After", "")
    if after.isdecimal():
        details.setdefault("retryAfterSeconds", int(after))
    reason = str(answer.get("reason") or "Unknown")
    message = str(answer.get("message") or f"the apiserver answered {status}")
    return ApiError(status, reason, message, details)


def _no_answer(server: str, error: HTTPError) -> ApiError:
    """What went wrong on the way: nothing was sent, the answer was lost, or nobody is trusted."""
    cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
    why = _plain(str(cause)) or type(cause).__name__
    if isinstance(cause, SSLError):
        return ApiError(0, "Untrusted", f"{server}: {why}")
    lost = not isinstance(cause, ConnectTimeoutError | ProxyError)
    return ApiError(0, "ConnectionLost" if lost else "NotConnected", f"{server}: {why}")


def _plain(text: str) -> str:
    """The last part of a nested message, without the numbers of system and OpenSSL."""
    last = text.rpartition(": ")[2].strip("'\"")
    last = re.sub(r"\[[^\]]*\] ?| ?\(_ssl\.c:\d+\)", "", last)
    while last.endswith(("'", ")")) and last.count(")") != last.count("("):
        last = last[:-1]
    return last
