"""A server of one world: connections, and the sessions that they play in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from hansa.logs import Log
from hansa_client.openenv.documents import about
from hansa_client.openenv.sessions import Sessions
from hansa_client.serving.http_server import HttpServer
from hansa_worlds import make

SESSIONS = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to serve a world."""

    world: str
    """Its name."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Its options."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """0: any that is free."""
    api_key: str = ""
    """What requests must carry; empty: nothing."""
    sessions: int = SESSIONS
    """Episodes at a time, at most."""
    drain_seconds: float = 5.0
    """How long requests under way may take to end."""


class WorldServer(HttpServer):
    """Connections, and the sessions that they play in."""

    def __init__(self, settings: Settings, handler: type[BaseHTTPRequestHandler], log: Log) -> None:
        name, options = settings.world, settings.options
        with closing(make(name, options)) as world:  # wrong options are an error before all
            self.about = about(world, name)
        self.sessions = Sessions(name, lambda: make(name, options), settings.sessions)
        super().__init__((settings.host, settings.port), handler, settings.api_key, log)
