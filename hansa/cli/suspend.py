"""`hansa suspend` and `hansa resume`: stop Jobs for a while; nothing is lost."""

from typing import TYPE_CHECKING

from hansa.cli import target
from hansa.cli.common import say

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations


def suspend(
    cluster: target.ClusterOptions,
    name: target.OptionalName = None,
    member: target.MemberName = None,
) -> None:
    """Stop the running Jobs and open no round until `hansa resume`; nothing is lost.

    Of a member, the other silos continue without it.
    """
    things, chosen = cluster.open_either(name, member)
    call = _set_suspend(things, chosen, True)
    if call:
        say(f"running Jobs are stopped; `hansa resume {call}` continues with the same attempts")


def resume(
    cluster: target.ClusterOptions,
    name: target.OptionalName = None,
    member: target.MemberName = None,
) -> None:
    """Let a suspended federation, or a member of one, resume where it stopped."""
    things, chosen = cluster.open_either(name, member)
    call = _set_suspend(things, chosen, False)
    if call:
        say(f"see it run: `hansa {'status' if member else 'watch'} {call}`")


def _set_suspend(things: "Federations", chosen: str, wanted: bool) -> str:
    """Set spec.suspend and say so; what a hint repeats if it was different before, or nothing."""
    before = bool((things.get(chosen).get("spec") or {}).get("suspend"))
    if before is wanted:
        print(f"{things.word}/{chosen} unchanged ({'' if wanted else 'not '}suspended before)")
        return ""
    things.change(chosen, {"spec": {"suspend": wanted}})
    print(f"{things.word}/{chosen} {'suspended' if wanted else 'resumed'}")
    return things.call(chosen)
