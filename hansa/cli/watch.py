"""`hansa watch`: a federation, or a run on this machine, live until it ends."""

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from hansa.cli import target
from hansa.cli.common import say
from hansa.exits import Exit
from hansa.visible import visible

if TYPE_CHECKING:
    from hansa.cluster.federations import Federations, Look

LOOK_SECONDS = 2.0
"""How often Jobs, Pods and Events are read again while somebody looks at the screen."""


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
    target.one_of(name, out)
    if out:
        from hansa.cli.watchrun import watch_run

        return watch_run(out)
    return _watch_federation(name or "", namespace, context, kubeconfig)


def _watch_federation(
    name: str, namespace: str | None, context: str | None, kubeconfig: str | None
) -> int:
    federations = target.open_federations(namespace, context, kubeconfig)
    shown = Live(federations, name) if sys.stdout.isatty() else Lines()
    with shown:
        last = _follow_to_the_end(federations, name, shown)
    return _judge(federations.call(name), name, last)


def _follow_to_the_end(
    federations: "Federations", name: str, shown: "Lines | Live"
) -> dict[str, Any] | None:
    from hansa.cluster.follow import follow
    from hansa.cluster.state import has_failed, has_succeeded

    last: dict[str, Any] | None = None
    for last in follow(federations, name, lost=shown.lost):
        if last is None:
            break
        shown.show(last)
        if has_failed(last) or has_succeeded(last):
            break
    return last


def _judge(call: str, name: str, last: dict[str, Any] | None) -> int:
    from hansa.cluster.state import condition, has_succeeded, status, why

    if last is None:
        say(f"error: federation {name}: it was deleted")
        return int(Exit.CRASHED)
    if not has_succeeded(last):
        say(f"error: federation {name}: Failed: {why(last)}")
        hint = f"fix it, then `hansa retry {call}`; `hansa logs {call}` has the Jobs' words"
        if condition(last, "Accepted").get("status") == "False":
            hint = "set the named fields back with `hansa apply -f FILE`"
        say(f"\nhint: {hint}")
        return int(Exit.CRASHED)
    adapter = status(last).get("adapter") or {}
    say(f"succeeded; `hansa pull {call} --to DIR` fetches {adapter.get('uri', 'the adapter')}")
    return int(Exit.DONE)


class Lines:
    """One line per change; for logs and pipes."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, federation: dict[str, Any]) -> None:
        """Print what the last object did not say."""
        from hansa.cluster.view import news
        from hansa.cluster.words import clock

        lines = news(federation)
        for line in lines:
            if line not in self._said:
                print(f"{clock(target.now())} {visible(line)}", flush=True)
        self._said = lines

    def lost(self, why: str) -> None:
        """Say that the cluster is away."""
        say(f"the cluster does not answer ({why}); trying again")


class Live:
    """The screen of `hansa status`, redrawn in place; its clocks move on their own."""

    def __init__(self, federations: "Federations", name: str) -> None:
        from rich.live import Live as RichLive

        self._federations, self._name = federations, name
        self._look: Look | None = None
        self._away = ""
        self._ended = threading.Event()
        self._live = RichLive(get_renderable=self._render, refresh_per_second=2)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Live":
        self._live.start()
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._live.stop()

    def show(self, federation: dict[str, Any]) -> None:
        """Take the newest object; what belongs to it is read beside."""
        from dataclasses import replace

        from hansa.cluster.federations import Look

        self._away = ""
        old = self._look
        self._look = replace(old, federation=federation) if old else Look(federation=federation)

    def lost(self, why: str) -> None:
        """Say on the screen that the cluster is away."""
        self._away = why

    def _read(self) -> None:
        """Jobs, Pods and Events now and then: a watch on all three would be no better to read."""
        from dataclasses import replace

        from hansa.errors import HansaError

        while not self._ended.is_set():
            try:
                look = self._federations.look(self._name)
                newest = self._look.federation if self._look else look.federation
                self._look = replace(look, federation=newest)
            except HansaError:  # the watch beside it says what is wrong
                time.sleep(LOOK_SECONDS)
            self._ended.wait(LOOK_SECONDS)

    def _render(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        from hansa.cli.screen import render
        from hansa.cluster.view import screen

        if self._look is None:
            return Text("")
        why = visible(f"! the cluster does not answer ({self._away})")
        away = [Text(why)] if self._away else []
        return Group(*away, render(screen(self._look, target.now())))
