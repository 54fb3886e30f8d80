"""The right adapter at an endpoint: offered in a shared folder, loaded where that can be asked for.

Exploring with wrong weights must not look like exploring. So a server has to say which adapter it
serves, by `adapter_sha256` in `/v1/models` or by a name that holds the digest, before the episodes
and after them.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from hansa.api.endpoint import Endpoint
from hansa.core.errors import PermanentError, WorldBroken
from hansa.core.http import HttpError
from hansa_client.endpoint.api import CHAT, Api, Document, quote_reason

DIGITS = 16
"""Of a digest, in names."""
OFFERED = "offered-"
"""What names of adapters begin with that a silo has loaded for itself, and will unload again."""
LOOK_SECONDS = 0.5
"""Between two looks whether a server serves an adapter by now."""
LLAMA_CPP = "llama.cpp"
TRANSFORMERS = "transformers"
_SHOWN = 5


class Calls(NamedTuple):
    """Paths by which a server loads and forgets adapters."""

    load: str
    unload: str


CALLS = {
    "hansa": Calls("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "vllm": Calls("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "sglang": Calls("/load_lora_adapter", "/unload_lora_adapter"),
}

_WHOLE = {"min_p": 0.0, "repetition_penalty": 1.0}
PLAIN: Mapping[str, Document] = {
    "vllm": {"top_k": -1, **_WHOLE},
    "sglang": {"top_k": -1, **_WHOLE},
    LLAMA_CPP: {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
"""What makes servers draw from the model's whole distribution: they have defaults of their own."""


@dataclass(frozen=True, kw_only=True)
class OfferedAdapter:
    """An adapter that an endpoint is to play with."""

    silo: str
    """Whose it is."""
    digest: str
    """sha256 of its adapter_model.safetensors; with the base, where it is merged into that."""
    files: Callable[[], Iterable[tuple[str, bytes]]]
    """Its files as the server reads them; a GGUF is one file."""

    @property
    def owner(self) -> str:
        """What the names of all adapters begin with that this silo has loaded."""
        return f"{OFFERED}{self.silo}-"

    @property
    def name(self) -> str:
        """What it is called at the server."""
        return f"{self.owner}{self.digest[:DIGITS]}"

    def is_own(self, name: str) -> bool:
        """Whether a name is of this silo's; `maze-2` has another than `maze`."""
        whole = name.removeprefix(".")
        return whole.startswith(self.owner) and "-" not in whole.removeprefix(self.owner)


@dataclass(frozen=True)
class Served:
    """How requests ask for the adapter."""

    model: str
    """Name of the model."""
    more: Document = field(default_factory=dict)
    """What requests say beside it."""


@contextmanager
def served(api: Api, endpoint: Endpoint, offer: OfferedAdapter) -> Iterator[Served]:
    """Within, the endpoint serves the adapter; what it had to load, it forgets afterwards."""
    place, is_offered = _EndpointAdapter(api, endpoint, offer), False
    try:
        with _explained(api, "adapter"):
            how = place.find()
            if how is None and endpoint.adapter_folder is not None:
                is_offered = True
                how = place.offer(Path(endpoint.adapter_folder))
            if how is None:
                raise place.mismatch()
        yield how
        with _explained(api, "adapter"):
            if place.find() != how:
                raise WorldBroken(
                    f"the endpoint {api.place} served another adapter than {offer.name} before all "
                    "episodes were played; none of them counts"
                )
    finally:
        if is_offered:
            place.withdraw()


@contextmanager
def _explained(api: Api, what: str) -> Iterator[None]:
    """A server that is away is no mistake of the manifest: it may be back."""
    try:
        yield
    except HttpError as error:
        said = quote_reason(error)
        said = f": {said}" if said else ""
        sentence = f"the endpoint {api.place} did not say which {what} it serves ({error}{said})"
        raise WorldBroken(sentence, hint="see that the endpoint answers") from None


class _EndpointAdapter:
    """One adapter at one endpoint."""

    def __init__(self, api: Api, endpoint: Endpoint, offer: OfferedAdapter) -> None:
        self._api = api
        self._server = endpoint.server
        self._load_seconds = endpoint.load_seconds
        self._folder = endpoint.adapter_folder
        self._offer = offer
        self._names: list[str] = []
        self._refused = ""

    def find(self) -> Served | None:
        """How the server serves the adapter, if it does."""
        if self._server == LLAMA_CPP:
            return self._find_file()
        if self._server == TRANSFORMERS:
            return self._find_folder()
        listed = self._api.get_patiently("/v1/models")
        entries = _entries(listed.get("data") if isinstance(listed, dict) else None, "id")
        self._names = [_short(entry) for entry in entries]
        for entry in entries:
            digest, name = entry.get("adapter_sha256"), str(entry["id"])
            is_it = digest == self._offer.digest if digest else self._is_named(name)
            if is_it and not self._is_anothers(name):
                base = f"{entry.get('parent')}:" if self._server == "sglang" else ""
                return Served(f"{base}{name}", PLAIN.get(self._server, {}))
        return None

    def _find_file(self) -> Served | None:
        """llama.cpp tells paths, and takes any model's name; each request names its adapters."""
        entries = _entries(self._api.get_patiently("/lora-adapters"), "path")
        names = [PurePosixPath(str(entry["path"])).name for entry in entries]
        self._names = [name[:100] for name in names]
        for entry, name in zip(entries, names, strict=True):
            if self._is_named(name):
                # Without its own weights a prompt that another adapter has read is no prompt.
                chosen = [{"id": entry.get("id"), "scale": 1.0}]
                more = {"lora": chosen, "cache_prompt": False, **PLAIN[LLAMA_CPP]}
                return Served(self._offer.name, more)
        return None

    def _find_folder(self) -> Served | None:
        """transformers serve lists nothing of this: it loads the folder that a request names."""
        folder = self._target
        if folder is None or not folder.is_dir():
            return None
        asked = {"role": "user", "content": "Which model is this?"}
        body = {"model": str(folder), "messages": [asked], "max_tokens": 1, "temperature": 0.0}
        try:
            answer = self._api.post(CHAT, body)
        except HttpError as error:
            if not error.status:
                raise
            self._refused = quote_reason(error) or str(error)
            return None
        said = answer.get("model") if isinstance(answer, dict) else None
        self._names = [said[:100]] if isinstance(said, str) else []
        is_it = isinstance(said, str) and said.partition("@")[0] == str(folder)
        return Served(str(folder)) if is_it else None

    @property
    def _target(self) -> Path | None:
        """Folder of the adapter in the one that is shared; None: none is."""
        return Path(self._folder) / self._offer.name if self._folder else None

    def _is_named(self, name: str) -> bool:
        return self._offer.digest[:DIGITS] in name

    def _is_anothers(self, name: str) -> bool:
        """Whether another silo has loaded it, and may unload it any time."""
        return name.startswith(OFFERED) and not self._offer.is_own(name)

    def offer(self, folder: Path) -> Served | None:
        """Put the adapter where the server reads it, have it loaded, and look until it is."""
        self._write(folder)
        calls = CALLS.get(self._server)
        if calls:
            self._forget_older(calls)
            try:
                path = str(folder / self._offer.name)
                self._post(calls.load, {"lora_name": self._offer.name, "lora_path": path})
            except HttpError as error:
                if error.may_pass:
                    raise
                self._refused = quote_reason(error) or str(error)
                return None
            return self.find()
        waited = 0.0
        while (how := self.find()) is None and waited < self._load_seconds:
            self._api.pause(LOOK_SECONDS)
            waited += LOOK_SECONDS
        return how

    def _forget_older(self, calls: Calls) -> None:
        """What an attempt that was killed had loaded would stay there for ever."""
        for name in self._names:
            if self._offer.is_own(name) and name != self._offer.name:
                with contextlib.suppress(HttpError):
                    self._post(calls.unload, {"lora_name": name})

    def withdraw(self) -> None:
        """Have the server forget the adapter; where it does not, nothing is wrong but its memory.

        Files of a server that loads none by itself stay: it may read them any time.
        """
        calls = CALLS.get(self._server)
        if self._target is None or not (calls or self._server == TRANSFORMERS):
            return
        if calls:
            with contextlib.suppress(HttpError, PermanentError):
                self._post(calls.unload, {"lora_name": self._offer.name})
        shutil.rmtree(self._target, ignore_errors=True)

    def _post(self, path: str, body: Document) -> None:
        """Ask; some servers answer a line of text."""
        self._api.post(path, body)

    def _write(self, folder: Path) -> None:
        target = folder / self._offer.name
        try:
            self._remove_older(folder)
            with tempfile.TemporaryDirectory(prefix=f".{self._offer.owner}", dir=folder) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                for name, data in self._offer.files():
                    (made / name).write_bytes(data)
                for path in (made, *made.iterdir()):  # the server may be another user
                    path.chmod(0o755 if path.is_dir() else 0o644)
                if self._server == LLAMA_CPP:
                    (file,) = made.iterdir()
                    file.replace(target.with_name(f"{target.name}.gguf"))
                elif not target.exists():
                    made.rename(target)
        except OSError as error:
            raise PermanentError(
                f"endpoint.adapterFolder: got {folder}, which cannot be written "
                f"({error.strerror or error}), expected a folder that client and server share"
            ) from None

    def _remove_older(self, folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            if not self._offer.is_own(path.name) or self._is_named(path.name):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def mismatch(self) -> PermanentError:
        """What the endpoint serves, and what it should."""
        shown = ", ".join(self._names[:_SHOWN]) or "nothing"
        more = len(self._names) - _SHOWN
        serves = shown + (f" and {more} others" if more > 0 else "")
        why = f" (it refused to load it: {self._refused})" if self._refused else ""
        hint = "set endpoint.adapterFolder to a folder that the server reads, too"
        return PermanentError(
            f"endpoint.url: {self._api.place} serves {serves}, expected the adapter "
            f"{self._offer.digest[:DIGITS]}... as its adapter_sha256 or in its name{why}",
            hint="" if self._folder else hint,
        )


def _entries(listed: Any, needed: str) -> list[Document]:
    """The objects of a list that have a name; a stranger's JSON may be anything."""
    objects = listed if isinstance(listed, list) else []
    return [e for e in objects if isinstance(e, dict) and isinstance(e.get(needed), str)]


def _short(entry: Document) -> str:
    return str(entry["id"])[:100]
