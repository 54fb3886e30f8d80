"""`hansa watch --out`: a run on this machine, live in another terminal."""

import sys
from pathlib import Path

from rich.live import Live

from hansa.cli.common import say
from hansa.cli.runscreen import render_run
from hansa.cli.views.live import PlainLines
from hansa.core.exits import Exit
from hansa.local.rundir import RunDir, explain_phase, follow, suggest_fix


def watch_run(out: Path) -> int:
    """Show the run until no runner works on it; 0 when it has Succeeded, else 1."""
    folder = RunDir(out)
    if sys.stdout.isatty():
        with Live(auto_refresh=False) as live:
            for federation in follow(folder):
                live.update(render_run(federation), refresh=True)
    else:
        lines = PlainLines()
        for federation in follow(folder):
            lines.show(federation.to_json())
    return _judge(folder)


def _judge(folder: RunDir) -> int:
    federation = folder.load()
    phase, where = federation.status.phase, f"run {folder.path}"
    if phase == "Succeeded":
        adapter = f", adapter: {folder.adapter}" if federation.status.adapter else ""
        say(f"succeeded; report: {folder.page}{adapter}")
        return int(Exit.DONE)
    if phase == "Failed":
        say(f"error: {where}: Failed: {explain_phase(federation)}")
        say(f"\nhint: {suggest_fix(folder)}")
        return int(Exit.CRASHED)
    state = "suspended" if phase == "Suspended" else "stopped"
    say(f"error: {where}: {state}: {explain_phase(federation)}")
    say(f"\nhint: `hansa run FILE --out {folder.path}` resumes it; nothing is lost")
    return int(Exit.CRASHED)
