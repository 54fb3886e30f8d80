"""Chat templates: programs in Jinja that a base model brings, so each has a deadline."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hansa.core.deadline import limit_seconds

TEMPLATE_SECONDS = 10.0
"""How long a template may take for one chat."""


@contextmanager
def guard_template(template: Any) -> Iterator[None]:
    """Render a template, or several by name, in this block; TimeoutError where it takes too long.

    A power is refused as well: a large one is a single operation that no deadline interrupts.
    """
    texts = template.values() if isinstance(template, dict) else [template]
    if any("**" in str(text) and _has_power(str(text)) for text in texts):
        raise ValueError("it has the operator **, which Hansa does not evaluate")
    with limit_seconds(TEMPLATE_SECONDS):
        yield


def _has_power(template: str) -> bool:
    """Whether ** is an operator in it, and not text for the model."""
    from jinja2 import Environment  # imported late: most templates need no look

    tokens = Environment(autoescape=True).lex(template)
    return any(kind == "operator" and value == "**" for _, kind, value in tokens)
