"""The engine `openai`: an endpoint that serves the adapter, and a decoder for it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.endpoint import ENV_API_KEY, Endpoint
from hansa_client.decoding.protocol import Decoding
from hansa_client.endpoint import gguf, merged_model
from hansa_client.endpoint.adapters import LLAMA_CPP, TRANSFORMERS, OfferedAdapter, serve_adapter
from hansa_client.endpoint.api import Api
from hansa_client.endpoint.decoder import EndpointDecoder
from hansa_client.models import base_model

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base


@contextmanager
def open_decoder(
    assignment: Assignment,
    endpoint: Endpoint,
    tensors: Tensors,
    folder: Path,
    base: "Base",
    rows: int,
    how: Decoding,
) -> Iterator[EndpointDecoder]:
    """A decoder whose turns a silo's endpoint writes with one adapter, until the block ends.

    `folder` holds the base model.
    """
    key = os.environ.get(ENV_API_KEY, "")
    offer = make_offer(assignment, endpoint.server, tensors, folder, base)
    with serve_adapter(Api(endpoint, key), endpoint, offer) as asked:
        count = max(1, min(rows, endpoint.concurrency))
        with closing(EndpointDecoder(Api(endpoint, key), asked, base.chat, count, how)) as decoder:
            yield decoder


def make_offer(
    assignment: Assignment, server: str, tensors: Tensors, folder: Path, base: "Base"
) -> OfferedAdapter:
    """The adapter as it is offered to a server of this kind, whose base model is in the folder."""
    data = lora.encode(tensors)
    is_merged = server == TRANSFORMERS  # then the base's digest counts, too

    def encode_files() -> Iterable[tuple[str, bytes]]:
        """The adapter as its server reads it."""
        shape, targets = assignment.adapter, lora.target_names(tensors)
        frozen = lora.frozen_rank(lora.shapes(tensors), shape.rank)
        if server == LLAMA_CPP:
            alpha = shape.alpha * (shape.rank + frozen) / shape.rank
            return [("adapter.gguf", gguf.encode(tensors, alpha, base.model.config))]
        if is_merged:
            scale = shape.alpha / shape.rank
            return merged_model.merge_files(folder, tensors, scale, base.chat.stops)
        config = lora.render_config(shape, assignment.model.source, targets, frozen)
        return [(bucket_keys.ADAPTER, data), (bucket_keys.CONFIG, config)]

    own = base_model.compute_digest(folder).encode() if is_merged else b""
    return OfferedAdapter(
        silo=f"{assignment.federation}-{assignment.environment}",
        digest=bucket_documents.sha256(data + own),
        files=encode_files,
    )
