"""`hansa watch`: a federation, or a run on this machine, live until it ends."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hansa.cli import target
from hansa.cli.common import say, say_lost, show_error
from hansa.cli.views.live import LiveScreen, PlainLines
from hansa.core.exits import Exit

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations
    from hansa.local.rundir import RunDir


def watch(
    run: target.Run,
    cluster: target.ClusterOptions,
) -> int:
    """Show a run on this machine, or a federation on the cluster, until it ends.

    Exit code 0 when it has Succeeded, 1 otherwise.
    """
    if folder := cluster.find_run(run):
        return _watch_run(folder)
    federations = cluster.open()
    if sys.stdout.isatty():
        with LiveScreen(federations, run) as screen:
            last = _follow_to_the_end(federations, run, screen.show, screen.lost)
    else:
        last = _follow_to_the_end(federations, run, PlainLines().show, say_lost)
    return _judge(federations.call(run), run, last)


def _follow_to_the_end(
    federations: "Federations",
    name: str,
    show: Callable[[dict[str, Any]], None],
    lost: Callable[[str], None],
) -> dict[str, Any] | None:
    from hansa.kubernetes.state import has_failed, has_succeeded
    from hansa.kubernetes.watch import follow

    last: dict[str, Any] | None = None
    for last in follow(federations, name, lost=lost):
        if last is None:
            break
        show(last)
        if has_failed(last) or has_succeeded(last):
            break
    return last


def _judge(call: str, name: str, last: dict[str, Any] | None) -> int:
    from hansa.kubernetes.state import describe_progress, find_condition, get_status, has_succeeded

    if last is None:
        show_error(f"federation {name}: it was deleted")
        return int(Exit.CRASHED)
    if not has_succeeded(last):
        hint = f"fix it, then `hansa retry {call}`; `hansa logs {call}` prints the Jobs' logs"
        if find_condition(last, "Accepted").get("status") == "False":
            hint = "set the named fields back with `hansa apply FILE`"
        show_error(f"federation {name}: Failed: {describe_progress(last)}", hint)
        return int(Exit.CRASHED)
    adapter = get_status(last).get("adapter") or {}
    say(f"succeeded; `hansa pull {call} --to DIR` fetches {adapter.get('uri', 'the adapter')}")
    return int(Exit.DONE)


def _watch_run(folder: "RunDir") -> int:
    """Show the run until no runner works on it; 0 when it has Succeeded, else 1."""
    from rich.live import Live

    from hansa.cli.screen import render_run
    from hansa.local import rundir

    if sys.stdout.isatty():
        with Live(auto_refresh=False) as live:
            for federation in rundir.follow(folder):
                live.update(render_run(federation), refresh=True)
    else:
        lines = PlainLines()
        for federation in rundir.follow(folder):
            lines.show(federation.to_json())
    return _judge_run(folder)


def _judge_run(folder: "RunDir") -> int:
    from hansa.local.rundir import explain_phase, suggest_fix, suggest_retry

    federation = folder.load()
    phase, where = federation.status.phase, f"run {folder.path}"
    if phase == "Succeeded":
        adapter = f", adapter: {folder.adapter}" if federation.status.adapter else ""
        say(f"succeeded; report: {folder.page}{adapter}")
        return int(Exit.DONE)
    state = {"Failed": "Failed", "Suspended": "suspended"}.get(phase, "stopped")
    resume = f"{suggest_retry(folder)} resumes it; nothing is lost"
    hint = suggest_fix(folder) if phase == "Failed" else resume
    show_error(f"{where}: {state}: {explain_phase(federation)}", hint)
    return int(Exit.CRASHED)
