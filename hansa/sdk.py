"""The functions of `import hansa`: the work of commands, with objects for text."""

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hansa.api.status import Federation
from hansa.core.entry_points import FilePoint
from hansa.core.errors import HansaError, InputError
from hansa.kubernetes.federations import open_federations
from hansa.local import display
from hansa.local.credentials import read_credentials
from hansa.local.loop import RunOptions
from hansa.local.loop import run as run_loop
from hansa.local.results import write_results
from hansa.local.rundir import DEFAULT_ROOT, RunDir, explain_phase, find_run, suggest_fix
from hansa.manifests import world_files
from hansa.manifests.load import build, check_on_machine, load
from hansa.publish.bucket import read_known_fields, set_endpoint
from hansa.publish.pull import pull as pull_adapter
from hansa.publish.tracked_run import read_document

Manifest = Federation | str | Path | Mapping[str, Any]


def load_manifest(manifest: Manifest) -> Federation:
    """A federation from its manifest, a file or a mapping; InputError names what does not fit."""
    if isinstance(manifest, Federation):
        return manifest
    if isinstance(manifest, str | Path):
        return load(manifest)
    federation = build(dict(manifest))
    check_on_machine(federation)
    return federation


def run(
    federation: Manifest,
    out: str | Path | None = None,
    *,
    parallel: int | None = None,
    embedded_store: bool = False,
    credentials: str | Path | None = None,
    quiet: bool = False,
    worlds: Mapping[str, type] | None = None,
) -> Federation:
    """Run a federation on this machine to its end; called again, it resumes where it stopped.

    `out` is the run's folder, runs/NAME by default; `worlds` are classes of Python files by the
    names that the manifest gives them; the others are the options of `hansa run`. Returns the
    federation with its status. HansaError says why a run has failed.
    """
    for name, kind in (worlds or {}).items():
        _offer_world(name, kind)
    wanted = load_manifest(federation)
    folder = RunDir(Path(out) if out else DEFAULT_ROOT / wanted.metadata.name)
    options = RunOptions(
        embedded=embedded_store,
        parallel=parallel,
        credentials=read_credentials(Path(credentials)) if credentials else None,
    )
    with _Silent() if quiet else display.choose() as screen:
        ended = run_loop(wanted, folder, options, screen, write_results)
    if ended.status.phase == "Failed":
        raise HansaError(explain_phase(ended), hint=suggest_fix(folder))
    return ended


def _offer_world(name: str, kind: type) -> None:
    field = f"worlds[{name!r}]"
    try:
        file = Path(inspect.getfile(kind)).resolve()
    except (OSError, TypeError):
        fits = "expected a class of a Python file, which the run's processes import"
        raise InputError(f"{field}: got {kind!r}, which is in no file, {fits}") from None
    caller = sys._getframe(2).f_globals
    if str(caller.get("__name__")).startswith(FilePoint.PREFIX):
        raise InputError(
            f"{file}: starts a run while it is imported for its worlds, expected that below "
            'if __name__ == "__main__":'
        )
    world_files.offer_class(file, kind.__qualname__, field, name)


class _Silent(display.PlainDisplay):
    """Shows nothing; the run's events.log has it all."""

    def _print(self, text: str) -> None:
        del text


def read_status(
    where: str | Path,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Federation:
    """A federation with its status: of a run's folder, or by its name on the cluster."""
    if _is_folder(where, namespace, context, kubeconfig):
        return RunDir(Path(where)).load()
    return read_document(open_federations(namespace, context, kubeconfig).get(str(where)))


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
    given, number = Path(credentials) if credentials else None, str(round)
    target = Path(to) if to else None
    if _is_folder(where, namespace, context, kubeconfig):
        if endpoint:
            raise InputError("endpoint: got one, but it is for a federation on a cluster")
        return pull_adapter(RunDir(Path(where)), target, number, environment, given, _ignore)[1]
    if target is None:
        raise InputError("to: got nothing, expected a folder for the adapter")
    document = open_federations(namespace, context, kubeconfig).get(str(where))
    federation = set_endpoint(read_known_fields(document), endpoint)
    pull_adapter(federation, target, number, environment, given, _ignore)
    return target


def _ignore(note: str) -> None:
    """A caller from Python sees what was pulled by its folder."""


def _is_folder(where: str | Path, *cluster: str | None) -> bool:
    """A path, or a run that is here unless a cluster is chosen; else the name of a federation."""
    is_path = isinstance(where, Path) or where != Path(where).name
    return is_path or (not any(cluster) and bool(find_run(str(where))))
