"""The catalogue: which models a server has, by name, and their adapters, loaded when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from hansa import adapter
from hansa.errors import InputError
from hansa.peftfolder import open_folder
from hansa_client.models.batched_lora import BatchedLora, LoadedAdapter
from hansa_client.serving.errors import ApiError

BASE = "base"
"""The model without an adapter."""
MOST_LOADED = 16
"""Adapters that stay on the device; others are read again when they are asked for."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model that is served."""

    name: str
    """What requests call it."""
    folder: Path
    """Its adapter, as PEFT saves one."""


class Catalogue:
    """Names and adapters."""

    def __init__(self, entries: Sequence[Entry], lora: BatchedLora) -> None:
        self._lora = lora
        self._folders: dict[str, Path] = {}
        for entry in entries:
            if entry.name == BASE or entry.name in self._folders:
                raise InputError(f"--adapter: got the name {entry.name} twice, expected it once")
            self._folders[entry.name] = entry.folder
            opened = open_folder(entry.folder)
            opened.file.close()
            try:
                lora.prepare(opened.sizes())
            except InputError as error:
                raise InputError(f"{entry.folder}: {error.message}") from None
        self._load = lru_cache(MOST_LOADED)(self._read)

    @property
    def names(self) -> list[str]:
        """All models; the base is the last, since who serves adapters means those."""
        return [*self._folders, BASE]

    def open(self, name: str) -> LoadedAdapter | None:
        """A model's adapter, None for the base; ApiError where there is none of that name."""
        self.check(name)
        return None if name == BASE else self._load(self._folders[name])

    def check(self, name: str) -> None:
        """Refuse an unknown name, with the models that there are."""
        if name not in self.names:
            known = ", ".join(self.names)
            raise ApiError(
                HTTPStatus.NOT_FOUND,
                f"model: got '{name[:60]}', expected one of {known}",
                param="model",
                code="model_not_found",
            )

    def _read(self, path: Path) -> LoadedAdapter:
        folder = open_folder(path)
        with folder.file as file:
            tensors = {name: file.read(name) for name in file.layout}
        if not adapter.is_finite(tensors):
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE, "model: its adapter has values that are no numbers"
            )
        return self._lora.load(tensors, folder.scale)
