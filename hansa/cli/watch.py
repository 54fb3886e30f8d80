"""`hansa watch`: a federation, or a run on this machine, live until it ends."""

import sys
from typing import Any

from hansa.cli import target
from hansa.cli.common import say
from hansa.cli.views.live import LiveScreen, PlainLines
from hansa.core.exits import Exit
from hansa.kubernetes.federations import Federations
from hansa.kubernetes.state import (
    describe_progress,
    find_condition,
    get_status,
    has_failed,
    has_succeeded,
)
from hansa.kubernetes.watch import follow


def watch(
    name: target.OptionalName = None,
    out: target.OptionalFolder = None,
    namespace: target.Namespace = None,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> int:
    """Show a federation on the cluster, or a run on this machine (--out), until it ends.

    Exit code 0 when it has Succeeded, 1 otherwise.
    """
    target.require_one_place(name, out)
    if out:
        from hansa.cli.watch_run import watch_run

        return watch_run(out)
    return _watch_federation(name or "", namespace, context, kubeconfig)


def _watch_federation(
    name: str, namespace: str | None, context: str | None, kubeconfig: str | None
) -> int:
    federations = target.open_federations(namespace, context, kubeconfig)
    shown = LiveScreen(federations, name) if sys.stdout.isatty() else PlainLines()
    with shown:
        last = _follow_to_the_end(federations, name, shown)
    return _judge(federations.call(name), name, last)


def _follow_to_the_end(
    federations: Federations, name: str, shown: PlainLines | LiveScreen
) -> dict[str, Any] | None:
    last: dict[str, Any] | None = None
    for last in follow(federations, name, lost=shown.lost):
        if last is None:
            break
        shown.show(last)
        if has_failed(last) or has_succeeded(last):
            break
    return last


def _judge(call: str, name: str, last: dict[str, Any] | None) -> int:
    if last is None:
        say(f"error: federation {name}: it was deleted")
        return int(Exit.CRASHED)
    if not has_succeeded(last):
        say(f"error: federation {name}: Failed: {describe_progress(last)}")
        hint = f"fix it, then `hansa retry {call}`; `hansa logs {call}` prints the Jobs' logs"
        if find_condition(last, "Accepted").get("status") == "False":
            hint = "set the named fields back with `hansa apply -f FILE`"
        say(f"\nhint: {hint}")
        return int(Exit.CRASHED)
    adapter = get_status(last).get("adapter") or {}
    say(f"succeeded; `hansa pull {call} --to DIR` fetches {adapter.get('uri', 'the adapter')}")
    return int(Exit.DONE)
