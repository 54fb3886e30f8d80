"""Hansa, federated self-evolution of LLM agents: four functions, and the contract of all parts.

`import hansa` imports nothing else: the first use of a function brings what it needs.
"""

from hansa.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # a name that type checkers know; the module `typing` is not needed
    from typing import Any

    from hansa.sdk import load_manifest, pull, read_status, run

__all__ = ["__version__", "load_manifest", "pull", "read_status", "run"]


def __getattr__(name: str) -> "Any":
    """One of the functions, from the module that imports all of Hansa."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hansa import sdk

    return getattr(sdk, name)
