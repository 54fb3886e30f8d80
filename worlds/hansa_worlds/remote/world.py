"""A world whose episodes are on a server: a step waits for it."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

from hansa_worlds.base import World
from hansa_worlds.remote.server import RemoteServer, SessionHolder


class RemoteWorld(World):
    """Keeps its session from episode to episode until it is closed.

    The session of a world that is gone goes to the next world of the process. Equal tasks give
    equal episodes only as far as the server does so.
    """

    waits: ClassVar[bool] = True
    _server: RemoteServer[Any]
    _holder: SessionHolder[Any]

    def _release_when_gone(self) -> None:
        weakref.finalize(self, self._server.release, self._holder).atexit = False

    def close(self) -> None:
        """Close the session, or leave it to another world where the server cannot close it."""
        self._server.leave(self._holder)
