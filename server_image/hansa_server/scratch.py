"""Updates on disk: copied from the store once, hashed on the way, measured where they lie."""

import math
from pathlib import Path

import numpy as np

from hansa import adapter
from hansa.aggregation import Half
from hansa.errors import Corrupt, NotFound
from hansa.store.base import ObjectStore
from hansa.tensorfile import TensorFile
from hansa_server import elementwise, gate
from hansa_server.elementwise import BLOCK, blocks
from hansa_server.gate import Offer, Refused


def copy(store: ObjectStore, key: str, offer: Offer, path: Path) -> None:
    """Copy an update's file to `path`; only the bytes that its manifest names are left there.

    A copy of another digest is made once more: the way here may flip a bit, and an honest member
    should not be refused for it.
    """
    try:
        got = store.download(key, path, offer.entry.size)
        if got != offer.entry.sha256:
            got = store.download(key, path, offer.entry.size)
    except NotFound:
        raise Refused("file-missing", key) from None
    except Corrupt as error:
        raise Refused("size", error.message) from None
    gate.check_sha256(offer, got)


def is_finite(file: TensorFile) -> bool:
    """Whether every value is a number."""
    room = np.empty(BLOCK, np.float32)
    return all(
        elementwise.is_finite(file.values(name, begin, end, room))
        for name, entry in file.layout.items()
        for begin, end in blocks(math.prod(entry.shape), BLOCK)
    )


def changed_half(file: TensorFile, start: TensorFile, half: Half) -> str:
    """A tensor of the half that is not trained whose bits are not the start's; none: empty."""
    mine, theirs = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for name, entry in start.layout.items():
        if half in ("both", adapter.side(name)):
            continue
        for begin, end in blocks(math.prod(entry.shape), BLOCK):
            values = file.values(name, begin, end, mine)
            if values.tobytes() != start.values(name, begin, end, theirs).tobytes():
                return name
    return ""


def distance(file: TensorFile, start: TensorFile) -> float:
    """Frobenius norm of the difference over all tensors, both of finite values.

    Summed in float64, where the squares of any two finite fp32 values fit.
    """
    total = 0.0
    room = np.empty(BLOCK, np.float32)
    for name, entry in start.layout.items():
        for begin, end in blocks(math.prod(entry.shape), BLOCK):
            change = file.values(name, begin, end, room).astype(np.float64)
            change -= start.values(name, begin, end, room)
            total += float(np.dot(change, change))
    return math.sqrt(total)
