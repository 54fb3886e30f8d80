"""`hansa suspend` and `hansa resume`: stop a federation's Jobs for a while; nothing is lost."""

from hansa.cli.common import say
from hansa.cli.target import Context, KubeconfigFile, Name, Namespace, open_federations


def suspend(
    name: Name,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Stop the running Jobs and open no round until `hansa resume`; nothing is lost."""
    call = _set_suspend(name, True, namespace, context, kubeconfig)
    if call:
        say(f"running Jobs are stopped; `hansa resume {call}` goes on with the same attempts")


def resume(
    name: Name,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Let a suspended federation go on where it stopped."""
    call = _set_suspend(name, False, namespace, context, kubeconfig)
    if call:
        say(f"see it run: `hansa watch {call}`")


def _set_suspend(
    name: str, wanted: bool, namespace: str | None, context: str | None, kubeconfig: str | None
) -> str:
    """Set spec.suspend and say so; the name for a hint if it was different before, or nothing."""
    federations = open_federations(namespace, context, kubeconfig)
    before = bool((federations.get(name).get("spec") or {}).get("suspend"))
    if before is wanted:
        print(f"federation/{name} unchanged ({'' if wanted else 'not '}suspended before)")
        return ""
    federations.change(name, {"spec": {"suspend": wanted}})
    print(f"federation/{name} {'suspended' if wanted else 'resumed'}")
    return federations.call(name)
