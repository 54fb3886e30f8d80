"""A world server's life: requests are answered, and sessions end in peace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hansa.logs import get
from hansa_client.openenv.connection import LOOK_SECONDS
from hansa_client.openenv.handler import Handler
from hansa_client.openenv.server import Settings, WorldServer

LEAVE_SECONDS = 2 * LOOK_SECONDS
"""How long connections get to say goodbye."""


@contextmanager
def serving(settings: Settings) -> Iterator[WorldServer]:
    """A server that answers until the block ends; then it takes no more, and ends what it has."""
    log = get("openenv")
    server = WorldServer(settings, Handler, log)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    try:
        yield server
    finally:
        if not server.drain(settings.drain_seconds):
            log.warning("broken_off", message="some requests did not end in time")
        server.sessions.close(LEAVE_SECONDS)
