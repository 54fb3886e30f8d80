"""The engine `openai`: an endpoint that serves the adapter, and a decoder for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


class EndpointEngine:
    """Makes decoders whose turns a silo's endpoint writes with one adapter."""

    def __init__(
        self, assignment: Assignment, endpoint: Endpoint, tensors: Tensors, folder: Path
    ) -> None:
        """`folder` holds the base model."""
        self._assignment = assignment
        self._endpoint = endpoint
        self._tensors = tensors
        self._folder = folder

    @contextmanager
    def __call__(self, base: Base, rows: int, how: Decoding) -> Iterator[EndpointDecoder]:
        """A decoder, until the block ends."""
        key, endpoint = os.environ.get(ENV_API_KEY, ""), self._endpoint
        with serve_adapter(Api(endpoint, key), endpoint, self._make_offer(base)) as asked:
            count = max(1, min(rows, endpoint.concurrency))
            decoder = EndpointDecoder(Api(endpoint, key), asked, base.chat, count, how)
            try:
                yield decoder
            finally:
                decoder.close()

    def _make_offer(self, base: Base) -> OfferedAdapter:
        assignment = self._assignment
        data = lora.encode(self._tensors)
        return OfferedAdapter(
            silo=f"{assignment.federation}-{assignment.environment}",
            digest=bucket_documents.sha256(data + self._digest_merged_base()),
            files=lambda: self._encode_files(base, data),
        )

    def _digest_merged_base(self) -> bytes:
        """The base's digest, where the server loads it with the adapter merged."""
        is_merged = self._endpoint.server == TRANSFORMERS
        return base_model.compute_digest(self._folder).encode() if is_merged else b""

    def _encode_files(self, base: Base, data: bytes) -> Iterable[tuple[str, bytes]]:
        """The adapter as its server reads it."""
        shape, targets = self._assignment.adapter, lora.target_names(self._tensors)
        frozen = lora.frozen_rank(lora.shapes(self._tensors), shape.rank)
        if self._endpoint.server == LLAMA_CPP:
            alpha = shape.alpha * (shape.rank + frozen) / shape.rank
            return [("adapter.gguf", gguf.encode(self._tensors, alpha, base.model.config))]
        if self._endpoint.server == TRANSFORMERS:
            scale = shape.alpha / shape.rank
            return merged_model.merge_files(self._folder, self._tensors, scale, base.chat.stops)
        source = self._assignment.model.source
        return [
            (bucket_keys.ADAPTER, data),
            (bucket_keys.CONFIG, lora.render_config(shape, source, targets, frozen)),
        ]
