"""Hansa, federated self-evolution of LLM agents: four functions, and the contract of all parts.

`import hansa` imports nothing else: each function brings what it needs when it is called.
"""

from __future__ import annotations

from hansa.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # a name that type checkers know; the module `typing` is not needed
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from hansa.api.status import Federation

__all__ = ["__version__", "load_manifest", "pull", "read_status", "run"]


def load_manifest(manifest: str | Path | Mapping[str, Any]) -> Federation:
    """A federation from its manifest, a file or a mapping; InputError names what does not fit."""
    from hansa import sdk

    return sdk.load_manifest(manifest)


def run(
    federation: Federation | str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    parallel: int | None = None,
    embedded_store: bool = False,
    credentials: str | Path | None = None,
    quiet: bool = False,
) -> Federation:
    """Run a federation on this machine to its end; called again, it resumes where it stopped.

    `out` is the run's folder, runs/NAME by default; the others are the options of `hansa run`.
    Returns the federation with its status. HansaError says why a run has failed.
    """
    from hansa import sdk

    return sdk.run(
        federation,
        out,
        parallel=parallel,
        embedded_store=embedded_store,
        credentials=credentials,
        quiet=quiet,
    )


def read_status(
    where: str | Path,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Federation:
    """A federation with its status: of a run's folder, or by its name on the cluster."""
    from hansa import sdk

    return sdk.read_status(where, namespace=namespace, context=context, kubeconfig=kubeconfig)


def pull(
    where: str | Path,
    to: str | Path | None = None,
    *,
    round: int | str = "last",
    environment: str | None = None,
    credentials: str | Path | None = None,
    endpoint: str | None = None,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Path:
    """Copy an adapter of a run's folder, or of a federation on the cluster, into a PEFT folder.

    `round` is a number, "last" or "best"; `environment` asks for what that silo serves itself. `to`
    is needed for a federation on the cluster; of a run it is the run's own folder by default.
    """
    from hansa import sdk

    return sdk.pull(
        where,
        to,
        round_=str(round),
        environment=environment,
        credentials=credentials,
        endpoint=endpoint,
        namespace=namespace,
        context=context,
        kubeconfig=kubeconfig,
    )
