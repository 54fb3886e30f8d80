"""`hansa retry`: open the next round after one that failed."""

from pathlib import Path
from typing import TYPE_CHECKING

from hansa.api.constants import ANNOTATION_RETRY
from hansa.cli import target
from hansa.cli.common import say
from hansa.core.errors import InputError
from hansa.core.exits import Exit

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations


def retry(
    name: target.OptionalName = None,
    out: target.OptionalFolder = None,
    parallel: target.Parallel = None,
    credentials: target.CredentialsFile = None,
    namespace: target.Namespace = None,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> int:
    """Continue after a failed round with the next one, from the same adapter.

    A federation on the cluster is asked to; a run on this machine (--out) resumes at once, with
    the settings that it has; so does one that was only stopped. --parallel and --credentials are
    those of `hansa run`.
    """
    target.require_one_place(name, out)
    if out:
        return _retry_run(out, parallel, credentials)
    for option, value in (("--parallel", parallel), ("--credentials", credentials)):
        if value:
            raise InputError(f"{option}: got it without --out; it is for a run on this machine")
    _retry_federation(target.open_federations(namespace, context, kubeconfig), name or "")
    return int(Exit.DONE)


def _retry_run(out: Path, parallel: int | None, credentials: Path | None) -> int:
    from hansa.cli.run import carry_out, resume_options
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    phase = federation.status.phase
    is_over = phase in ("Succeeded", "Suspended")
    if not federation.status.failed and (is_over or folder.is_running()):
        print(f"run {out} unchanged (nothing has failed: it is {phase})")
        return int(Exit.DONE)
    return carry_out(federation, folder, resume_options(folder, parallel, credentials))


def _retry_federation(federations: "Federations", name: str) -> None:
    from hansa.kubernetes.state import describe_progress, get_status

    federation = federations.get(name)
    failed = get_status(federation).get("failed")
    target.refuse_unaccepted(federation, "a retry")
    if not failed:
        phase = get_status(federation).get("phase") or "Pending"
        print(f"federation/{name} unchanged (nothing has failed: it is {phase})")
        if describe_progress(federation):
            say(f"  {describe_progress(federation)}")
        return
    value = target.now().isoformat()
    federations.change(name, {"metadata": {"annotations": {ANNOTATION_RETRY: value}}})
    print(f"federation/{name} retried after round {failed.get('round')}")
    say(f"it had failed: {failed.get('message')}")
    say(f"see it run: `hansa watch {federations.call(name)}`")
