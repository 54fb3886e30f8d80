"""`hansa retry`: open the next round after one that failed."""

from hansa.api import ANNOTATION_RETRY
from hansa.cli.common import say
from hansa.cli.target import Context, KubeconfigFile, Name, Namespace, now, open_federations
from hansa.errors import InputError


def retry(
    name: Name,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Ask a federation whose round failed to go on with the next one, from the same adapter."""
    from hansa.cluster.state import condition, status, why

    federations = open_federations(namespace, context, kubeconfig)
    federation = federations.get(name)
    failed = status(federation).get("failed")
    accepted = condition(federation, "Accepted")
    if accepted.get("status") == "False":
        raise InputError(
            f"federation {name}: a retry cannot fix it: {accepted.get('message')}",
            hint="set the named fields back with `hansa apply -f FILE`",
        )
    if not failed:
        phase = status(federation).get("phase") or "Pending"
        print(f"federation/{name} unchanged (nothing has failed: it is {phase})")
        if why(federation):
            say(f"  {why(federation)}")
        return
    value = now().isoformat()
    federations.change(name, {"metadata": {"annotations": {ANNOTATION_RETRY: value}}})
    print(f"federation/{name} retried after round {failed.get('round')}")
    say(f"it had failed: {failed.get('message')}")
    say(f"see it run: `hansa watch {federations.call(name)}`")
