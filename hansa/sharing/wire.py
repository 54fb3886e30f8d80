"""HTTP to a registry: its tokens, its redirects, and bounds on what it may answer.

In the clear it speaks to this machine alone. Credentials are those of `docker login` and `podman
login`, and go to the registry and to the https address that it names for tokens, nowhere else.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.util import Retry, Timeout

from hansa.errors import HansaError, HubAway, InputError
from hansa.sharing.place import RegistryPlace, is_loopback

_TIMEOUT = Timeout(connect=10, read=120)
_AGAIN = Retry(
    total=2,
    redirect=0,
    backoff_factor=0.5,
    status_forcelist=(429, 502, 503, 504),
    raise_on_status=False,
    raise_on_redirect=False,
    allowed_methods=None,
    respect_retry_after_header=False,
)
"""Every request is repeated: all of them store content under its digest, or read."""
_MOST_ANSWER = 1 << 20
_REDIRECTS = 3
_PARAMETER = re.compile(r'([a-z_]+)="([^"]*)"')


@dataclass(frozen=True)
class Answer:
    """What a registry said."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    content: bytes = b""


class Wire:
    """One repository of a registry."""

    def __init__(self, place: RegistryPlace, scope: str) -> None:
        self._place = place
        self._scope = f"repository:{place.repository}:{scope}"
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=_AGAIN)
        self._login = _login(place.host)
        self._authorization = ""

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = _MOST_ANSWER,
        follow: bool = False,
    ) -> Answer:
        """An answer of at most so many bytes, after asking for a token where one is needed."""
        url = self._place.url + path
        answer = self._send(method, url, body, headers or {}, most)
        if answer.status == 401 and self._authorize(answer.headers.get("www-authenticate", "")):
            answer = self._send(method, url, body, headers or {}, most)
        for _ in range(_REDIRECTS if follow else 0):
            if answer.status not in (301, 302, 303, 307, 308):
                break
            url = self._safe(urljoin(url, answer.headers.get("location", "")))
            answer = self._send(method, url, None, {}, most)
        return answer

    def upload(
        self, location: str, digest: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send a blob to where the registry wants it."""
        url = self._safe(urljoin(f"{self._place.url}/", location))
        sign = "&" if urlsplit(url).query else "?"
        return self._send("PUT", f"{url}{sign}digest={digest}", content, headers, _MOST_ANSWER)

    def refusal(self, what: str, answer: Answer) -> HansaError:
        """The sentence for an answer that is none of those hoped for."""
        place, code, said = self._place, answer.status, _reason(answer.content)
        if code in (401, 403):
            return InputError(
                f"{place}: the registry does not allow it (HTTP {code}{said})",
                hint=f"docker login {place.host}, or podman login {place.host}",
            )
        if code == 429 or code >= 500:
            return HubAway(
                f"{place}: the registry is busy or broken (HTTP {code}{said})",
                hint="the same command goes on where it was; nothing is sent twice",
            )
        return HansaError(f"{place}: {what} was refused (HTTP {code}{said})")

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], most: int
    ) -> Answer:
        given = dict(headers)
        if self._authorization and urlsplit(url).netloc == self._place.host:
            given["Authorization"] = self._authorization
        try:
            answer = self._pool.request(
                method, url, body=body, headers=given, redirect=False, preload_content=False
            )
            content = answer.read(most + 1)
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            cause = " ".join(str(getattr(error, "reason", None) or error).split())[:200]
            raise HubAway(
                f"{self._place}: the registry does not answer ({cause})",
                hint="the same command goes on where it was; nothing is sent twice",
            ) from error
        if len(content) > most:
            answer.close()
            raise HansaError(f"{self._place}: the registry sent more than {most} bytes")
        known = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, known, content)

    def _safe(self, url: str) -> str:
        """An address that the registry named; in the clear only between programs of one machine."""
        parts = urlsplit(url)
        is_own = is_loopback(parts.netloc) and is_loopback(self._place.host)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_own):
            raise HansaError(f"{self._place}: the registry names an address without TLS")
        return url

    def _authorize(self, challenge: str) -> bool:
        """Find what the registry wants to see; false where it is shown already, or unknown."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self._login and not self._authorization:
            self._authorization = f"Basic {self._login}"
            return True
        given = dict(_PARAMETER.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in given:
            return False
        self._authorization = f"Bearer {self._token(given)}"
        return True

    def _token(self, given: Mapping[str, str]) -> str:
        realm = self._safe(given["realm"])
        fields = {"service": given.get("service", ""), "scope": given.get("scope", self._scope)}
        headers = {"Authorization": f"Basic {self._login}"} if self._login else {}
        try:
            answer = self._pool.request(
                "GET", realm, fields=fields, headers=headers, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise HubAway(f"{self._place}: its server for tokens does not answer") from error
        try:
            document = json.loads(answer.data)
            token = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if answer.status != 200 or not isinstance(token, str):
            raise self.refusal("a token", Answer(answer.status, {}, answer.data))
        return token


def _reason(content: bytes) -> str:
    """What the registry gives as its reason, shortened."""
    try:
        first = json.loads(content)["errors"][0]
        return f": {' '.join(str(first.get('message') or first.get('code')).split())[:200]}"
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


# -- credentials ------------------------------------------------------------------------------


def _login(host: str) -> str:
    """`user:password` in base64, of the files that docker and podman write; empty: none."""
    for path in _files():
        entry = _entry(path, host)
        if entry.get("auth"):
            return _checked(str(entry["auth"]), path)
    return ""


def _files() -> list[Path]:
    environ = os.environ
    if given := environ.get("REGISTRY_AUTH_FILE"):
        return [Path(given)]
    runtime = environ.get("XDG_RUNTIME_DIR")
    docker = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    podman = [Path(runtime) / "containers" / "auth.json"] if runtime else []
    return [*podman, docker / "config.json"]


def _entry(path: Path, host: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        helper = document.get("credHelpers", {}).get(host) or document.get("credsStore")
        known = document.get("auths", {})
    except OSError:
        return {}
    except (ValueError, AttributeError):
        raise InputError(f"{path}: got no JSON of docker's, expected auths by host") from None
    for name in (host, f"https://{host}", f"https://{host}/v1/", f"https://{host}/v2/"):
        entry = known.get(name)
        if isinstance(entry, dict) and entry.get("auth"):
            return entry
    if helper and host in known:
        raise InputError(
            f"{path}: keeps the password of {host} in the helper {helper!r}, expected it in a file",
            hint=f"podman login --authfile FILE {host}, then REGISTRY_AUTH_FILE=FILE",
        )
    return {}


def _checked(auth: str, path: Path) -> str:
    try:
        is_pair = b":" in base64.b64decode(auth, validate=True)
    except (binascii.Error, ValueError):
        is_pair = False
    if not is_pair:
        raise InputError(f"{path}: got an auth that is no user:password in base64")
    return auth
