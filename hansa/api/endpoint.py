"""A silo's endpoint as data: an OpenAI-compatible server of its own that writes the agent's turns.

It reads every prompt and writes every answer of the silo, so only the silo's owner names it: no
order and no default of the federation does.
"""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api.storage import SecretKey
from hansa.core.model import Model

ENV_API_KEY = "HANSA_ENDPOINT_API_KEY"
"""The key that requests to the endpoint carry; only a silo's client has it."""


class Endpoint(Model):
    """An OpenAI-compatible server that writes a silo's turns."""

    url: Annotated[
        str, Field(pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$", min_length=1, max_length=300)
    ]
    """Its address, with or without `/v1` at the end; prompts are sent there."""
    server: Literal["hansa", "vllm", "sglang", "llama.cpp", "transformers", "other"]
    """Which server answers there, and so how an adapter is loaded; `other` loads none by itself."""
    adapter_folder: (
        Annotated[str, Field(pattern=r"^/([^/\s]+/)*[^/\s]+$", max_length=300)] | None
    ) = None
    """Folder that client and server both have under this path: adapters are offered in it. Absent:
    none is, and the server must serve the right one already."""
    api_key_secret: SecretKey | None = None
    """Key of a Secret that requests carry; `hansa run` takes HANSA_ENDPOINT_API_KEY instead."""
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 32
    """Turns asked for at the same time; exploration.batchEpisodes may be less."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 120
    """How long one answer may take."""
    patience_seconds: Annotated[int, Field(ge=0, le=3600)] = 300
    """How long a turn is asked for again after 429, 5xx or no answer, from its first try; then its
    episode is dropped as if the world had failed."""
    load_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """How long the server may take to serve an adapter that was offered to it."""
