"""A server's life: load the model, answer requests, and drain those under way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hansa.core.errors import InputError, PermanentError
from hansa.core.logs import get
from hansa_client.models import base_model
from hansa_client.rollout.episodes import MAX_LENGTH
from hansa_client.serving.catalogue import Catalogue
from hansa_client.serving.completions import Completions
from hansa_client.serving.engine import Engine
from hansa_client.serving.handler import ChatHandler
from hansa_client.serving.metrics import Metrics
from hansa_client.serving.server import ChatServer, check_address
from hansa_client.serving.sources import AdapterSource

SLOTS = 64


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """How to serve."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """0: any that is free."""
    api_key: str = ""
    """What requests must carry; empty: nothing."""
    slots: int = SLOTS
    """Answers written at a time, at most."""
    max_length: int = MAX_LENGTH
    """Tokens of a prompt and its answer."""
    threads: int = 1
    """CPU threads of the model."""
    drain_seconds: float = 30.0
    """How long requests under way may take to end."""
    adapter_folder: Path | None = None
    """Below it, requests may load adapters; None: they may load none."""


@contextmanager
def run_server(source: AdapterSource, settings: ServingSettings) -> Iterator[ChatServer]:
    """A server that runs until the block ends; then it drains the requests under way."""
    log, metrics = get("serve"), Metrics()
    if settings.adapter_folder and not settings.adapter_folder.is_dir():
        raise InputError(f"--adapter-folder: got {settings.adapter_folder}, expected a folder")
    address = (settings.host, settings.port)
    check_address(address)
    base = _load_base(source, settings.threads)
    longest = base.cap_length(settings.max_length)
    engine = Engine(base, settings.slots, longest, settings.threads, metrics, log)
    offered = settings.adapter_folder.resolve() if settings.adapter_folder else None
    catalogue = Catalogue(source.entries, engine.lora, engine.run_between_passes, offered)
    engine.start()
    try:
        completions = Completions(base.chat, engine, catalogue, metrics)
        server = ChatServer(address, ChatHandler, completions, settings.api_key, log)
        threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
        try:
            yield server
        finally:
            if not server.drain(settings.drain_seconds):
                log.warning("broken_off", message="some requests did not end in time")
    finally:
        engine.close()


def _load_base(source: AdapterSource, threads: int) -> base_model.Base:
    try:
        folder = base_model.resolve(source.model, source.storage)
        return base_model.load(source.model, folder, threads)
    except PermanentError as error:
        sentence = error.message.replace("spec.model.source", "--model")
        raise InputError(sentence, error.hint) from error
