"""The catalogue: the models of a server, by name, and their adapters, loaded on first use.

With --adapter-folder, adapters below that folder may be added and removed while it serves, by the
calls that vLLM has for it.
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from hansa.adapter import lora as adapter
from hansa.adapter.peft_folder import PeftFolder, open_folder
from hansa.api import bucket_documents, bucket_keys
from hansa.core.errors import InputError
from hansa_client.models.batched_lora import BatchedLora, LoadedAdapter
from hansa_client.serving.chat_request import parse_object
from hansa_client.serving.errors import (
    OpenAIError,
    make_unknown_model_error,
    reject_field,
    reject_value,
)

BASE = "base"
"""The model without an adapter."""
MOST_LOADED = 16
"""Adapters that stay on the device; others are read again when they are requested."""
MOST_NAMES = 1024
"""Adapters that a server has names for."""
BetweenPasses = Callable[[Callable[[], None]], None]
"""Runs some work between two forward passes of the model."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_LONGEST_PATH = 1000
_FIELDS = ("lora_name", "lora_path", "load_inplace", "lora_int_id")
"""What vLLM's clients send; the last two change nothing here."""


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model that is served."""

    name: str
    """What requests call it."""
    folder: Path
    """Its adapter, as PEFT saves one."""


class Catalogue:
    """Names and adapters."""

    def __init__(
        self,
        entries: Sequence[ServedModel],
        lora: BatchedLora,
        between_passes: BetweenPasses,
        offered: Path | None = None,
    ) -> None:
        """`offered` is the folder below which adapters may be added; None: adding is disabled."""
        self._lora = lora
        self._between_passes = between_passes
        self._offered = offered
        self._changing = threading.Lock()
        self._adapters: dict[str, tuple[Path, str]] = {}
        for entry in entries:
            if entry.name == BASE or entry.name in self._adapters:
                raise InputError(f"--adapter: got the name {entry.name} twice, expected it once")
            try:
                lora.prepare(_inspect_folder(entry.folder).sizes())
            except InputError as error:
                raise InputError(f"{entry.folder}: {error.message}") from None
            self._register(entry)
        self._load = lru_cache(MOST_LOADED)(self._read)

    def _register(self, entry: ServedModel) -> None:
        data = (entry.folder / bucket_keys.ADAPTER).read_bytes()
        noted = (entry.folder, bucket_documents.sha256(data))
        # Replaced, for other threads read it.
        self._adapters = {**self._adapters, entry.name: noted}

    def digest(self, name: str) -> str:
        """sha256 of a model's adapter_model.safetensors; empty for the base."""
        return self._adapters.get(name, (Path(), ""))[1]

    def add(self, name: str, path: Path) -> None:
        """Serve one more adapter; OpenAIError where the folder holds none, or is not allowed."""
        folder = self._require_offered(path)
        with self._changing:
            if name in self.names:
                raise reject_field("lora_name", f"got '{name}', which is loaded already")
            if len(self._adapters) >= MOST_NAMES:
                raise reject_field("lora_name", f"got one more than {MOST_NAMES} adapters")
            try:
                sizes = _inspect_folder(folder).sizes()
                self._between_passes(lambda: self._lora.prepare(sizes))
                self._register(ServedModel(name=name, folder=folder))
            except (InputError, OSError) as error:
                reason = getattr(error, "message", "") or getattr(error, "strerror", "")
                raise reject_field(
                    "lora_path", f"got no adapter for this base ({reason})"
                ) from None

    def remove(self, name: str) -> None:
        """Stop serving an adapter that was added; answers under way are still completed."""
        if name not in self.names:
            raise make_unknown_model_error(name, self.names)
        with self._changing:
            self._require_offered(self._adapters.get(name, (Path("/"), ""))[0])
            self._adapters = {each: at for each, at in self._adapters.items() if each != name}

    def _require_offered(self, path: Path) -> Path:
        """The path, if it is below the folder that requests may load adapters from."""
        if self._offered is None:
            raise OpenAIError(
                HTTPStatus.NOT_FOUND,
                "this server loads no adapters: it was started without --adapter-folder",
            )
        real = path.resolve()
        if real == self._offered or not real.is_relative_to(self._offered):
            raise reject_field("lora_path", f"expected a folder below {self._offered}")
        return real

    @property
    def names(self) -> list[str]:
        """All models; adapters come before the base, so that clients choose one by default."""
        return [*self._adapters, BASE]

    def open(self, name: str) -> LoadedAdapter | None:
        """A model's adapter, None for the base; OpenAIError where there is none of that name."""
        if name == BASE:
            return None
        known = self._adapters.get(name)
        if known is None:
            raise make_unknown_model_error(name, self.names)
        return self._load(*known)

    def _read(self, path: Path, digest: str) -> LoadedAdapter:
        """The adapter; refused where its file was replaced since it was added."""
        if bucket_documents.sha256((path / bucket_keys.ADAPTER).read_bytes()) != digest:
            raise OpenAIError(
                HTTPStatus.SERVICE_UNAVAILABLE, "model: its adapter's file has changed"
            )
        folder = open_folder(path)
        with folder.file as file:
            tensors = {name: file.read(name) for name in file.layout}
        if not adapter.is_finite(tensors):
            raise OpenAIError(
                HTTPStatus.SERVICE_UNAVAILABLE, "model: its adapter has values that are no numbers"
            )
        return self._lora.load(tensors, folder.scale)


def _inspect_folder(path: Path) -> PeftFolder:
    """A folder's config and layout; its file is closed again."""
    opened = open_folder(path)
    opened.file.close()
    return opened


def parse_change(body: bytes) -> tuple[str, Path]:
    """An adapter's name and folder (unused when unloading); an error names the wrong field."""
    fields = parse_object(body)
    for field in fields:
        if field not in _FIELDS:
            raise reject_field(
                field[:60], f"unknown field, expected one of {', '.join(_FIELDS[:2])}"
            )
    name, path = fields.get("lora_name"), fields.get("lora_path", "/")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise reject_value(
            "lora_name", name, "expected letters, digits, dots and dashes, at most 128"
        )
    is_path = isinstance(path, str) and path.startswith("/") and "\0" not in path
    if not is_path or len(path) > _LONGEST_PATH:
        raise reject_value("lora_path", path, "expected the absolute path of a folder")
    return name, Path(path)
