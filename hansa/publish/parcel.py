"""What is published of a run: tensors, config with the base's public name, and model card."""

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hansa.adapter import model_card
from hansa.adapter.lora import BaseName, base_name
from hansa.api import bucket_keys
from hansa.api.bucket_documents import sha256
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.local.rundir import RunDir
from hansa.publish import figures
from hansa.publish.bucket import open_source
from hansa.publish.place import parse_hub_name
from hansa.report import data
from hansa.report.run_facts import ReportData

FILES = (bucket_keys.ADAPTER, bucket_keys.CONFIG, model_card.NAME, figures.CURVE)
"""Every file that is pushed, and all that is pulled: no manifest, which has the silos' settings."""

_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")


@dataclass(frozen=True)
class Item:
    """One file that is published."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """Digest of its content."""
        return sha256(self.content)

    def to_json(self) -> dict[str, Any]:
        """What a list says about it."""
        return {"name": self.name, "size": len(self.content), "sha256": self.sha256}


@dataclass(frozen=True, kw_only=True)
class GlobalAdapter:
    """One global adapter."""

    data: ReportData
    """The run's figures, without any episode."""
    round: int
    """Round that made the adapter."""
    files: Mapping[str, bytes]
    """adapter_model.safetensors and adapter_config.json, checked by the manifest's digests."""


def read(source: RunDir | Federation, round_: str, credentials: Path | None) -> GlobalAdapter:
    """An adapter of a run on this machine, or of a federation on a cluster."""
    from hansa.local.results import choose_round, complete_history, pull_files

    number = choose_round(source if isinstance(source, Federation) else source.load(), round_)
    with (
        open_source(source, credentials) as (federation, store),
        tempfile.TemporaryDirectory(prefix="hansa-push-") as scratch,
    ):
        pull_files(store, federation.spec.require_s3().prefix, number, Path(scratch))
        files = {
            name: (Path(scratch) / name).read_bytes()
            for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG)
        }
        facts = data.collect(complete_history(federation, store), store, episodes=False)
    return GlobalAdapter(data=facts, round=number, files=files)


def choose_base_name(source: str, asked: str | None, *, on_hub: bool) -> BaseName:
    """What the base is called outside: a folder or bucket of ours is no name for others."""
    if asked:
        return parse_hub_name("--base", asked)
    if source.startswith("hf:") or (source.startswith("builtin:") and not on_hub):
        return base_name(source)
    kind = "a bucket" if source.startswith("s3:") else "a folder"
    what = "is Hansa's own" if source.startswith("builtin:") else f"is {kind} of yours"
    raise InputError(
        f"--base: got nothing, and the run's base {what}, expected what the hub calls it",
        hint="--base org/name@revision; others load the adapter on that",
    )


def pack(result: GlobalAdapter, base: BaseName, license_: str, adapter: str = ".") -> list[Item]:
    """The files, sorted; equal runs and arguments give equal bytes.

    `base` is the base model as others find it, `adapter` what the card's code loads it from; an
    empty licence is not named.
    """
    config = _rewrite_config(result.files[bucket_keys.CONFIG], base)
    sections = figures.write_sections(result.data, result.round)
    public = model_card.PublishedCard(base, license_, adapter, sections)
    text = model_card.render(result.data.federation, result.round, public=public)
    files: Mapping[str, bytes] = {
        bucket_keys.ADAPTER: result.files[bucket_keys.ADAPTER],
        bucket_keys.CONFIG: config,
        model_card.NAME: text.encode(errors="replace"),
        figures.CURVE: figures.draw_curve(result.data, result.round).encode(errors="replace"),
    }
    return [Item(name, files[name]) for name in sorted(files)]


def _rewrite_config(raw: bytes, base: BaseName) -> bytes:
    """adapter_config.json with the base's name; `revision` is what transformers loads it at."""
    document = json.loads(raw)
    document["base_model_name_or_path"] = base.name
    document.pop("revision", None)
    if base.revision:
        document["revision"] = base.revision
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def is_license(text: str) -> bool:
    """Whether it is an identifier as the hub and SPDX have them."""
    return bool(_LICENSE.fullmatch(text))


def check_weights(source: str, base: BaseName, known: Mapping[str, str]) -> None:
    """Refuse a base of the hub whose weights are not those that the run has trained on.

    Only where those lie on this machine, in files of the same names.
    """
    folder = model_card.find_local_folder(source)
    if folder is None:
        return
    for name in sorted(known):
        path = folder / name
        if path.is_file() and _digest(path) != known[name]:
            raise InputError(
                f"--base: got {base.name}, whose {name} is not the one that the run trained on",
                hint="try another revision; --force skips this check",
            )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
