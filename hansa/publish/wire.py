"""HTTP to a registry: its tokens, its redirects, and bounds on what it may answer.

Plain HTTP is used for loopback addresses only. Credentials are those of `docker login` and `podman
login`; they go to the registry and to the https address that it names for tokens, nowhere else.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from hansa.core.errors import HansaError, HubUnreachable, InputError
from hansa.core.http import LARGEST, HttpClient, HttpError, Response
from hansa.publish.place import RegistryPlace, is_loopback

_TRIES = 3
"""Every request is repeated: all of them store content under its digest, or read."""
_REDIRECTS = 3
_PARAMETER = re.compile(r'([a-z_]+)="([^"]*)"')


class RegistryRepository:
    """One repository of a registry."""

    def __init__(self, place: RegistryPlace, scope: str) -> None:
        self._place = place
        self._scope = f"repository:{place.repository}:{scope}"
        self._http = HttpClient()
        self._login = _find_login(place.host)
        self._authorization = ""

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = LARGEST,
        follow: bool = False,
    ) -> Response:
        """An answer of at most `most` bytes, after asking for a token where one is needed."""
        url = self._place.url + path
        answer = self._send(method, url, body, headers or {}, most)
        if answer.status == 401 and self._authorize(answer.headers.get("www-authenticate", "")):
            answer = self._send(method, url, body, headers or {}, most)
        for _ in range(_REDIRECTS if follow else 0):
            if answer.status not in (301, 302, 303, 307, 308):
                break
            url = self._require_safe_url(urljoin(url, answer.headers.get("location", "")))
            answer = self._send(method, url, None, {}, most)
        return answer

    def upload(
        self, location: str, digest: str, content: bytes, headers: Mapping[str, str]
    ) -> Response:
        """Send a blob to where the registry wants it."""
        url = self._require_safe_url(urljoin(f"{self._place.url}/", location))
        sign = "&" if urlsplit(url).query else "?"
        return self._send("PUT", f"{url}{sign}digest={digest}", content, headers, LARGEST)

    def refusal(self, what: str, answer: Response) -> HansaError:
        """The error for an unexpected answer."""
        place, code, said = self._place, answer.status, answer.sentence()
        said = f": {said}" if said else ""
        if code in (401, 403):
            return InputError(
                f"{place}: the registry does not allow it (HTTP {code}{said})",
                hint=f"docker login {place.host}, or podman login {place.host}",
            )
        if code == 429 or code >= 500:
            return HubUnreachable(
                f"{place}: the registry is busy or broken (HTTP {code}{said})",
                hint="run the same command again to resume; nothing is sent twice",
            )
        return HansaError(f"{place}: {what} was refused (HTTP {code}{said})")

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], most: int
    ) -> Response:
        given = dict(headers)
        if self._authorization and urlsplit(url).netloc == self._place.host:
            given["Authorization"] = self._authorization
        return self._repeat(method, url, body=body, headers=given, largest=most)

    def _repeat(self, method: str, url: str, **what: Any) -> Response:
        """The answer, whatever its status."""
        try:
            return self._http.repeat(lambda: self._http.send(method, url, **what), tries=_TRIES)
        except HttpError as error:
            if error.response:
                return error.response
            if error.kind == "answer":
                raise HansaError(f"{self._place}: the registry sent {error}") from error
            raise HubUnreachable(
                f"{self._place}: the registry does not answer ({error})",
                hint="run the same command again to resume; nothing is sent twice",
            ) from error

    def _require_safe_url(self, url: str) -> str:
        """An address that the registry named; plain HTTP only between programs of one machine."""
        parts = urlsplit(url)
        is_own = is_loopback(parts.netloc) and is_loopback(self._place.host)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_own):
            raise HansaError(f"{self._place}: the registry redirected to an address without TLS")
        return url

    def _authorize(self, challenge: str) -> bool:
        """Set the header that a challenge asks for; false if it was sent or is unknown."""
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
        realm = self._require_safe_url(given["realm"])
        fields = {"service": given.get("service", ""), "scope": given.get("scope", self._scope)}
        headers = {"Authorization": f"Basic {self._login}"} if self._login else {}
        answer = self._repeat("GET", f"{realm}?{urlencode(fields)}", headers=headers)
        try:
            document = answer.json()
            token = document.get("token") or document.get("access_token")
        except (HttpError, AttributeError):
            token = None
        if answer.status != 200 or not isinstance(token, str):
            raise self.refusal("a token", answer)
        return token


# -- credentials ------------------------------------------------------------------------------


def _find_login(host: str) -> str:
    """`user:password` in base64, of the files that docker and podman write; empty: none."""
    for path in _list_auth_files():
        entry = _entry(path, host)
        if entry.get("auth"):
            return _require_login(str(entry["auth"]), path)
    return ""


def _list_auth_files() -> list[Path]:
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
        raise InputError(
            f"{path}: got no docker config, expected JSON with auths by host"
        ) from None
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


def _require_login(auth: str, path: Path) -> str:
    try:
        is_pair = b":" in base64.b64decode(auth, validate=True)
    except (binascii.Error, ValueError):
        is_pair = False
    if not is_pair:
        raise InputError(f"{path}: auth: got something else than user:password in base64")
    return auth
