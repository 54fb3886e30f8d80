"""The catalogue: which models a server has, by name, and their adapters, loaded when asked for.

Where a folder is given for it, adapters below that may be added and taken out while it serves, by
the calls that vLLM has for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from hansa.adapter import lora as adapter
from hansa.adapter.peft_folder import Folder, open_folder
from hansa.api import bucket_documents, bucket_keys
from hansa.core.errors import InputError
from hansa_client.models.batched_lora import BatchedLora, LoadedAdapter
from hansa_client.serving.errors import OpenAIError, refused

BASE = "base"
"""The model without an adapter."""
MOST_LOADED = 16
"""Adapters that stay on the device; others are read again when they are asked for."""
MOST_NAMES = 1024
"""Adapters that a server has names for."""
BetweenPasses = Callable[[Callable[[], None]], None]
"""Does some work while the model is in no forward pass."""


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
        """`offered` is the folder below which adapters may be added; None: none may."""
        self._lora = lora
        self._between_passes = between_passes
        self._offered = offered
        self._changing = threading.Lock()
        self._folders: dict[str, Path] = {}
        self._digests: dict[str, str] = {}
        for entry in entries:
            if entry.name == BASE or entry.name in self._folders:
                raise InputError(f"--adapter: got the name {entry.name} twice, expected it once")
            try:
                lora.prepare(_opened(entry.folder).sizes())
            except InputError as error:
                raise InputError(f"{entry.folder}: {error.message}") from None
            self._note(entry)
        self._load = lru_cache(MOST_LOADED)(self._read)

    def _note(self, entry: ServedModel) -> None:
        data = (entry.folder / bucket_keys.ADAPTER).read_bytes()
        # Replaced as a whole: other threads read them.
        self._digests = {**self._digests, entry.name: bucket_documents.sha256(data)}
        self._folders = {**self._folders, entry.name: entry.folder}

    def digest(self, name: str) -> str:
        """sha256 of a model's adapter_model.safetensors; empty for the base."""
        return self._digests.get(name, "")

    def add(self, name: str, path: Path) -> None:
        """Serve one more adapter; ApiError where it is none, or not offered."""
        folder = self._allowed(path)
        with self._changing:
            if name in self.names:
                raise refused("lora_name", f"got '{name}', which is loaded already")
            if len(self._folders) >= MOST_NAMES:
                raise refused("lora_name", f"got one more than {MOST_NAMES} adapters")
            try:
                sizes = _opened(folder).sizes()
                self._between_passes(lambda: self._lora.prepare(sizes))
                self._note(ServedModel(name=name, folder=folder))
            except (InputError, OSError) as error:
                reason = getattr(error, "message", "") or getattr(error, "strerror", "")
                raise refused("lora_path", f"got no adapter for this base ({reason})") from None

    def remove(self, name: str) -> None:
        """Serve an adapter no longer that was added; answers under way are written to their end."""
        if self._offered is None or name not in self._folders:
            self.check(name)
        with self._changing:
            self._allowed(self._folders.get(name, Path("/")))
            self._folders = {each: at for each, at in self._folders.items() if each != name}
            self._digests = {each: of for each, of in self._digests.items() if each != name}

    def _allowed(self, path: Path) -> Path:
        """The path, if it is below the folder in which adapters are offered."""
        if self._offered is None:
            raise OpenAIError(
                HTTPStatus.NOT_FOUND,
                "this server loads no adapters: it was started without --adapter-folder",
            )
        real = path.resolve()
        if real == self._offered or not real.is_relative_to(self._offered):
            raise refused("lora_path", f"expected a folder below {self._offered}")
        return real

    @property
    def names(self) -> list[str]:
        """All models; the base is the last, since who serves adapters means those."""
        return [*self._folders, BASE]

    def open(self, name: str) -> LoadedAdapter | None:
        """A model's adapter, None for the base; ApiError where there is none of that name."""
        self.check(name)
        folders = self._folders
        if name == BASE:
            return None
        if name not in folders:  # taken out since
            raise self._unknown(name)
        return self._load(folders[name], self._digests.get(name, ""))

    def check(self, name: str) -> None:
        """Refuse an unknown name, with the models that there are."""
        if name not in self.names:
            raise self._unknown(name)

    def _unknown(self, name: str) -> OpenAIError:
        known = ", ".join(self.names)
        return OpenAIError(
            HTTPStatus.NOT_FOUND,
            f"model: got '{name[:60]}', expected one of {known}",
            param="model",
            code="model_not_found",
        )

    def _read(self, path: Path, digest: str) -> LoadedAdapter:
        """The adapter; one that was exchanged since it got its name is not read as if it was it."""
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


def _opened(path: Path) -> Folder:
    """A folder that was looked into, and is closed again."""
    opened = open_folder(path)
    opened.file.close()
    return opened
