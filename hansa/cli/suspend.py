"""`hansa suspend` and `hansa resume`: stop Jobs for a while; nothing is lost."""

from hansa.cli.common import say
from hansa.cli.target import (
    Context,
    KubeconfigFile,
    MemberName,
    Namespace,
    OptionalName,
    federation_or_member,
)


def suspend(
    name: OptionalName = None,
    member: MemberName = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Stop the running Jobs and open no round until `hansa resume`; nothing is lost.

    Of a member, the other silos go on without it.
    """
    call = _set_suspend(name, member, True, namespace, context, kubeconfig)
    if call:
        say(f"running Jobs are stopped; `hansa resume {call}` goes on with the same attempts")


def resume(
    name: OptionalName = None,
    member: MemberName = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Let a suspended federation, or a member of one, go on where it stopped."""
    call = _set_suspend(name, member, False, namespace, context, kubeconfig)
    if call:
        say(f"see it run: `hansa {'status' if member else 'watch'} {call}`")


def _set_suspend(
    name: str | None,
    member: str | None,
    wanted: bool,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> str:
    """Set spec.suspend and say so; what a hint repeats if it was different before, or nothing."""
    things, chosen = federation_or_member(name, member, namespace, context, kubeconfig)
    before = bool((things.get(chosen).get("spec") or {}).get("suspend"))
    if before is wanted:
        print(f"{things.word}/{chosen} unchanged ({'' if wanted else 'not '}suspended before)")
        return ""
    things.change(chosen, {"spec": {"suspend": wanted}})
    print(f"{things.word}/{chosen} {'suspended' if wanted else 'resumed'}")
    return things.call(chosen)
