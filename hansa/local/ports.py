"""Free ports for the embedded store: a block in a row, so that runs side by side keep apart."""

import secrets
import socket

from hansa.errors import Unreachable

_PORTS = (
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
_FIRST_PORT, _LAST_PORT = 11_000, 21_900
"""Below Linux's range for outgoing connections, so that a restart finds its ports still free."""
GRPC_OFFSET = 10_000
"""`weed` finds its own admin door only at this distance."""


def free_ports() -> dict[str, int]:
    """A block of ports that nobody listens on, picked at random so that runs keep apart."""
    for _ in range(200):
        first = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT - len(_PORTS))
        block = {name: first + index for index, name in enumerate(_PORTS)}
        if all(map(_is_free, [*block.values(), block["admin.port"] + GRPC_OFFSET])):
            return block
    raise Unreachable(
        f"the embedded store found no {len(_PORTS)} free ports in a row "
        f"between {_FIRST_PORT} and {_LAST_PORT}"
    )


def _is_free(port: int) -> bool:
    """Whether nobody listens there on any address: `weed` refuses a port that is half free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
