"""`hansa resume`: let a suspended federation go on."""

from hansa.cli.common import say
from hansa.cli.suspend import set_suspend
from hansa.cli.target import Context, KubeconfigFile, Name, Namespace


def resume(
    name: Name,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Let a suspended federation go on where it stopped."""
    changed = set_suspend(name, False, namespace, context, kubeconfig)
    if changed:
        say(f"see it run: `hansa watch {changed}`")
