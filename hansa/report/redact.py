"""Specs and options without what looks like a secret."""

import re
from typing import Any

from hansa.report.markup import strip_credentials

_SECRET = re.compile(r"(password|passwd|token|secret|api_?key|access_?key|credential)s?$", re.I)
_COUNT = re.compile(r"tokens$", re.I)
"""A number under such a name says how many tokens of text, as training.batchTokens."""
_HIDDEN = "***"


def redact(value: Any, key: str = "") -> Any:
    """A copy without `env` values, what secret-sounding keys hold, and passwords in addresses.

    Names of Secrets are kept. A secret under an unsuspicious name is not found.
    """
    if isinstance(value, dict):
        return {name: _entry(name, one, key) for name, one in value.items()}
    if isinstance(value, list):
        return [redact(one, key) for one in value]
    return strip_credentials(value) if isinstance(value, str) else value


def _entry(name: str, value: Any, parent: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and _COUNT.search(name):
        return value
    is_named = _SECRET.search(name) or (parent == "env" and name == "value")
    if is_named and (is_number or isinstance(value, str)):
        return _HIDDEN
    return redact(value, name)
