"""`hansa retry`: open the next round after one that failed."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hansa.api.constants import ANNOTATION_RETRY
from hansa.cli import run as runner
from hansa.cli import target
from hansa.cli.common import say
from hansa.core.exits import Exit

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations
    from hansa.local.rundir import RunDir


def retry(
    run: target.Run,
    given: runner.RunArguments,
    cluster: target.ClusterOptions,
) -> int:
    """Continue after a failed round with the next one, from the same adapter.

    A federation on the cluster is asked to; a run on this machine resumes at once, with the
    settings that it has; so does one that was only stopped. --parallel and the keys are those of
    `hansa run`.
    """
    if folder := cluster.find_run(run, **vars(given)):
        return _retry_run(folder, given)
    _retry_federation(cluster.open(), run)
    return int(Exit.DONE)


def _retry_run(folder: "RunDir", given: runner.RunArguments) -> int:
    federation = folder.load()
    phase = federation.status.phase
    is_over = phase in ("Succeeded", "Suspended")
    if not federation.status.failed and (is_over or folder.is_running()):
        print(f"run {folder.path} unchanged (nothing has failed: it is {phase})")
        return int(Exit.DONE)
    return runner.carry_out(federation, folder, replace(given, embedded=folder.store.exists()))


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
