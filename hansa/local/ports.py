"""Ports for the embedded store: a block in a row that has one owner until its last process is gone.

That nobody listens on a port is not enough: `weed` also makes sockets below /tmp that are named
after its ports, and one that is just ending, or the next run that cleans up after a killed one,
would take those of whoever had the ports next. So blocks never overlap, and each has one more
port that its owner holds bound: the kernel gives it to one at a time, and frees it with the owner.
"""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hansa.core.errors import Unreachable

_NAMES = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "admin.port",
)
_SIZE = len(_NAMES) + 1
_FIRSTS = range(11_000, 21_000, _SIZE)
"""Below Linux's range for outgoing connections, so that a restart finds its ports still free."""
GRPC_OFFSET = 10_000
"""`weed` finds its own admin door only at this distance."""


class Block:
    """Ports of one owner, by the name of `weed`'s flag; whoever holds `claim` is the owner."""

    def __init__(self, first: int, claim: socket.socket) -> None:
        """Take over a claim; `claim_ports` makes one."""
        self.claim = claim
        self.ports = {name: first + index for index, name in enumerate(_NAMES)}
        self.every = {**self.ports, "admin.port.grpc": self.ports["admin.port"] + GRPC_OFFSET}

    def remove_sockets(self) -> None:
        """Remove what a killed `weed` leaves behind, always below /tmp."""
        for port in self.every.values():
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108
                with suppress(OSError):
                    left.unlink()

    def close(self) -> None:
        """Give the ports up."""
        self.claim.close()


def claim_ports() -> Block:
    """A block that nobody owns and nobody listens in, picked at random so that runs keep apart."""
    for first in secrets.SystemRandom().sample(_FIRSTS, len(_FIRSTS)):
        block = _claim_block(first)
        if block and all(map(_is_free, block.every.values())):
            return block
        if block:
            block.close()
    raise Unreachable(
        f"the embedded store found no {_SIZE} free ports in a row "
        f"between {_FIRSTS.start} and {_FIRSTS.stop}"
    )


@contextmanager
def reclaim_ports(first: object) -> Iterator[Block | None]:
    """The block of an owner that was killed, or None when another has it by now."""
    block = _claim_block(first) if isinstance(first, int) and first in _FIRSTS else None
    try:
        yield block
    finally:
        if block:
            block.close()


def _claim_block(first: int) -> Block | None:
    # Without SO_REUSEADDR, so that two never hold it; it takes no connection, so none lingers.
    claim = socket.socket()
    try:
        claim.bind(("127.0.0.1", first + _SIZE - 1))
    except OSError:
        claim.close()
        return None
    return Block(first, claim)


def _is_free(port: int) -> bool:
    """Whether nobody listens there on any address: `weed` refuses a port that is half free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
