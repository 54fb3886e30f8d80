"""Which user of this machine is at the other end of a connection, as Linux tells it."""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

_TABLES = tuple(Path("/proc/net", name) for name in ("tcp", "tcp6"))
_MAPPED = bytes(10) + b"\xff\xff"
"""What comes before an IPv4 address in an IPv6 socket."""


def is_of_another_user(connection: socket.socket) -> bool:
    """Whether a connection over loopback comes from neither this process's user nor root.

    Also where its sender has closed it: then nobody waits for an answer. Systems without these
    tables do not tell whose a connection is.
    """
    if not _TABLES[0].exists():
        return False
    with suppress(OSError):
        ends = connection.getpeername()[:2], connection.getsockname()[:2]
        is_ipv4 = connection.family == socket.AF_INET
        wanted = [
            [_format(end, prefix) for end in ends]
            for prefix in ((b"", _MAPPED) if is_ipv4 else (b"",))
        ]
        for table in filter(Path.exists, _TABLES):
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                user, inode = int(fields[7]), int(fields[9])
                if fields[1:3] in wanted and inode:  # a socket that is closed has none
                    return user not in (0, os.getuid())
    return True


def _format(address: tuple[str, int], prefix: bytes) -> str:
    """An address as in these tables: words of four bytes in the machine's order, and the port."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    packed = prefix + socket.inet_pton(family, address[0])
    words = (packed[n : n + 4] for n in range(0, len(packed), 4))
    return f"{''.join(f'{int.from_bytes(w, sys.byteorder):08X}' for w in words)}:{address[1]:04X}"
