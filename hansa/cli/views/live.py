"""A federation while it is watched: lines for a pipe, a screen for a terminal."""

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hansa.cli import target
from hansa.core.durations import format_clock
from hansa.core.errors import HansaError
from hansa.core.sanitize import sanitize

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations, FederationView

LOOK_SECONDS = 2.0
"""How often Jobs, Pods and Events are read again while somebody looks at the screen."""


class PlainLines:
    """One line per change; for logs and pipes."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def show(self, federation: dict[str, Any]) -> None:
        """Print what the last object did not say."""
        from hansa.cli.views.federation import list_news

        lines = list_news(federation)
        for line in lines:
            if line not in self._said:
                print(f"{format_clock(target.now())} {sanitize(line)}", flush=True)
        self._said = lines


class LiveScreen:
    """The screen of `hansa status`, redrawn in place; its clocks move on their own."""

    def __init__(self, federations: "Federations", name: str) -> None:
        from rich.live import Live

        self._federations, self._name = federations, name
        self._look: FederationView | None = None
        self._away = ""
        self._ended = threading.Event()
        self._live = Live(get_renderable=self._render, refresh_per_second=2)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "LiveScreen":
        self._live.start()
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._live.stop()

    def show(self, federation: dict[str, Any]) -> None:
        """Take the newest object; what belongs to it is read beside."""
        from hansa.kubernetes.federations import FederationView

        self._away = ""
        old = self._look
        self._look = (
            replace(old, federation=federation) if old else FederationView(federation=federation)
        )

    def lost(self, why: str) -> None:
        """Say on the screen that the cluster is away."""
        self._away = why

    def _read(self) -> None:
        """Jobs, Pods and Events now and then: a watch on all three would be no better to read."""
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
        from hansa.cli.views.federation import screen

        if self._look is None:
            return Text("")
        why = sanitize(f"! the cluster does not answer ({self._away})")
        away = [Text(why)] if self._away else []
        return Group(*away, render(screen(self._look, target.now())))
