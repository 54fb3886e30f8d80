"""The adapter at an endpoint: written into a shared folder, and loaded where the server can do so.

Episodes that were played with other weights must not count. So a server has to say which adapter
it serves, by `adapter_sha256` in `/v1/models` or by a name that contains the digest, before the
episodes and after them.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from hansa.api.endpoint import Endpoint
from hansa.core.errors import PermanentError, WorldBroken
from hansa.core.http import HttpError
from hansa_client.endpoint.api import CHAT, Api, Document, quote_reason

DIGITS = 16
"""Digits of a digest that names contain."""
OFFERED = "offered-"
"""Prefix of the names of adapters that a silo has loaded, and will unload again."""
LOOK_SECONDS = 0.5
"""Between two checks whether a server serves an adapter by now."""
LLAMA_CPP = "llama.cpp"
TRANSFORMERS = "transformers"
_SHOWN = 5
LOADING = {"hansa": "/v1", "vllm": "/v1", "sglang": ""}
"""Servers that load and unload adapters on request: where these calls begin."""
LOAD, UNLOAD = "load_lora_adapter", "unload_lora_adapter"

_WHOLE = {"min_p": 0.0, "repetition_penalty": 1.0}
PLAIN: Mapping[str, Document] = {
    "vllm": {"top_k": -1, **_WHOLE},
    "sglang": {"top_k": -1, **_WHOLE},
    LLAMA_CPP: {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
"""Makes servers sample from the whole distribution, whatever their defaults."""


@dataclass(frozen=True, kw_only=True)
class OfferedAdapter:
    """An adapter that an endpoint is to play with."""

    silo: str
    """Whose it is."""
    digest: str
    """sha256 of its adapter_model.safetensors; with the base's, where it is merged into that."""
    files: Callable[[], Iterable[tuple[str, bytes]]]
    """Its files as the server reads them; a GGUF is one file."""

    @property
    def owner(self) -> str:
        """Prefix of the names of all adapters that this silo has loaded."""
        return f"{OFFERED}{self.silo}-"

    @property
    def name(self) -> str:
        """Its name at the server."""
        return f"{self.owner}{self.digest[:DIGITS]}"

    def is_own(self, name: str) -> bool:
        """Whether a name is of this silo; silo `maze` does not own names of `maze-2`."""
        whole = name.removeprefix(".")
        return whole.startswith(self.owner) and "-" not in whole.removeprefix(self.owner)


@dataclass(frozen=True)
class Served:
    """How requests ask for the adapter."""

    model: str
    """Name of the model."""
    more: Document = field(default_factory=dict)
    """Further fields of requests."""


@contextmanager
def serve_adapter(api: Api, endpoint: Endpoint, offer: OfferedAdapter) -> Iterator[Served]:
    """Within, the endpoint serves the adapter; if it was loaded, it is unloaded at the end."""
    place, is_offered = _EndpointAdapter(api, endpoint, offer), False
    try:
        with _explain_errors(api):
            how = place.find()
            if how is None and endpoint.adapter_folder is not None:
                is_offered = True
                how = place.offer(Path(endpoint.adapter_folder))
            if how is None:
                raise place.make_mismatch_error()
        yield how
        with _explain_errors(api):
            if place.find() != how:
                raise WorldBroken(
                    f"the endpoint {api.place} served another adapter than {offer.name} before all "
                    "episodes were played; none of them counts"
                )
    finally:
        if is_offered:
            place.withdraw()


@contextmanager
def _explain_errors(api: Api) -> Iterator[None]:
    """Turn HttpError into WorldBroken, which is retried: the server may come back."""
    try:
        yield
    except HttpError as error:
        said = quote_reason(error)
        said = f": {said}" if said else ""
        sentence = f"the endpoint {api.place} did not say which adapter it serves ({error}{said})"
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
        listed = self._api.ask_patiently("/v1/models")
        entries = _filter_entries(listed.get("data") if isinstance(listed, dict) else None, "id")
        self._names = [str(entry["id"])[:100] for entry in entries]
        for entry in entries:
            digest, name = entry.get("adapter_sha256"), str(entry["id"])
            is_it = digest == self._offer.digest if digest else self._is_named(name)
            if is_it and name.startswith(OFFERED) and not self._offer.is_own(name):
                continue  # another silo has loaded it, and may unload it at any time
            if is_it:
                base = f"{entry.get('parent')}:" if self._server == "sglang" else ""
                return Served(f"{base}{name}", PLAIN.get(self._server, {}))
        return None

    def _find_file(self) -> Served | None:
        """llama.cpp lists paths; each request names its adapters, and any model's name will do."""
        entries = _filter_entries(self._api.ask_patiently("/lora-adapters"), "path")
        names = [PurePosixPath(str(entry["path"])).name for entry in entries]
        self._names = [name[:100] for name in names]
        for entry, name in zip(entries, names, strict=True):
            if self._is_named(name):
                # Its prompt cache ignores adapters: another adapter's cached prompt would be wrong.
                chosen = [{"id": entry.get("id"), "scale": 1.0}]
                more = {"lora": chosen, "cache_prompt": False, **PLAIN[LLAMA_CPP]}
                return Served(self._offer.name, more)
        return None

    def _find_folder(self) -> Served | None:
        """`transformers serve` lists no adapters: it loads the folder that a request names."""
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
        """The adapter's folder below the shared one; None without a shared one."""
        return Path(self._folder) / self._offer.name if self._folder else None

    def _is_named(self, name: str) -> bool:
        return self._offer.digest[:DIGITS] in name

    def offer(self, folder: Path) -> Served | None:
        """Write the adapter where the server reads it, and wait until it is loaded."""
        self._write(folder)
        if self._server in LOADING:
            self._unload_older()
            try:
                path = str(folder / self._offer.name)
                self._call(LOAD, {"lora_name": self._offer.name, "lora_path": path})
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

    def _unload_older(self) -> None:
        """Unload what a killed attempt had loaded, which would stay loaded otherwise."""
        for name in self._names:
            if self._offer.is_own(name) and name != self._offer.name:
                with contextlib.suppress(HttpError):
                    self._call(UNLOAD, {"lora_name": name})

    def withdraw(self) -> None:
        """Unload the adapter; a failure only costs the server memory.

        The files stay where the server was started with them: it may read them again.
        """
        if self._target is None or self._server not in (*LOADING, TRANSFORMERS):
            return
        if self._server in LOADING:
            with contextlib.suppress(HttpError, PermanentError):
                self._call(UNLOAD, {"lora_name": self._offer.name})
        shutil.rmtree(self._target, ignore_errors=True)

    def _call(self, name: str, body: Document) -> None:
        self._api.post(f"{LOADING[self._server]}/{name}", body)

    def _write(self, folder: Path) -> None:
        target = folder / self._offer.name
        try:
            self._remove_older(folder)
            with tempfile.TemporaryDirectory(prefix=f".{self._offer.owner}", dir=folder) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                for name, data in self._offer.files():
                    (made / name).write_bytes(data)
                for path in (made, *made.iterdir()):  # the server may run as another user
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

    def make_mismatch_error(self) -> PermanentError:
        """The error that says what the endpoint serves, and what it should."""
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


def _filter_entries(listed: Any, needed: str) -> list[Document]:
    """The objects of a list with a text field `needed`; the server's JSON may be anything."""
    objects = listed if isinstance(listed, list) else []
    return [e for e in objects if isinstance(e, dict) and isinstance(e.get(needed), str)]
