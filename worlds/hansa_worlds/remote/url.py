"""Addresses in options: plain ones only, and none that is shown with a password."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from hansa_worlds.errors import OptionError


def check_url(url: str) -> str:
    """The address without a slash at its end; OptionError where it is none of a server."""
    try:
        parts = urlsplit(url)
        odd = parts.username is not None or parts.query or parts.fragment or parts.port == 0
    except ValueError:
        parts, odd = urlsplit(""), True
    plain = re.fullmatch(r"[\x21-\x7e]{1,2000}", url) is not None
    if odd or not plain or parts.scheme not in ("http", "https") or not parts.hostname:
        shown = re.sub(r"//.*@", "//***@", url[:200])
        raise OptionError(
            f"options.url: got {shown!r}, expected http:// or https://, a host, a port and no more"
        )
    return url.rstrip("/")
