"""A published adapter into a folder: digests checked, and an adapter that PEFT loads safely."""

import tempfile
from pathlib import Path
from typing import Any

from hansa.adapter import peft_folder
from hansa.api import bucket_keys
from hansa.core.errors import InputError
from hansa.core.files import replace_file
from hansa.publish import registry
from hansa.publish.parcel import Item
from hansa.publish.place import HubPlace, RegistryPlace


def pull(place: HubPlace | RegistryPlace, to: Path) -> tuple[str, dict[str, Any]]:
    """Write its files; the commit or digest they are of, and what they are.

    Nothing is written where a digest differs, or where the files are no plain LoRA adapter.
    """
    if isinstance(place, HubPlace):
        from hansa.publish.hub import Hub

        version, items = Hub("NAME").pull(place)
    else:
        version, items = registry.pull(place)
    _check(place, items)
    try:
        to.mkdir(parents=True, exist_ok=True)
        for item in sorted(items, key=lambda item: item.name == bucket_keys.CONFIG):
            replace_file(to / item.name, item.content)  # the config last: PEFT looks for it first
    except OSError as error:
        raise InputError(f"--to: got {to}: {error.strerror or error}") from None
    return version, {
        item.name: {"sha256": item.sha256, "size": len(item.content)} for item in items
    }


def _check(place: HubPlace | RegistryPlace, items: list[Item]) -> None:
    names = {item.name for item in items}
    if missing := [name for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG) if name not in names]:
        raise InputError(f"NAME: got {place}, which has no {missing[0]}, {peft_folder.FITS}")
    with tempfile.TemporaryDirectory(prefix="hansa-pull-") as scratch:
        for item in items:
            (Path(scratch) / item.name).write_bytes(item.content)
        try:
            peft_folder.open_folder(Path(scratch))
        except InputError as error:
            why = error.message.replace(f"{scratch}/", "").replace(scratch, "it")
            raise InputError(f"NAME: got {place}: {why}") from None
