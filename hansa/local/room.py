"""Whether the embedded store has room to write: its disk, and the size that a file may have."""

import resource
import shutil
from pathlib import Path

from hansa.core.errors import InputError, Unreachable

LEAST_FREE_SHARE = 0.01
"""Of its disk: with less, `weed mini` takes no object, and no flag of it says otherwise."""
VOLUME_MEGABYTES = 256
"""Size at which the store begins a new file; the object that passes it still goes in."""
LEAST_FILE_BYTES = 2 * VOLUME_MEGABYTES * 2**20


def check_room(folder: Path) -> None:
    """Refuse to start a store that would answer every write with an error."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and limit < LEAST_FILE_BYTES:
        raise InputError(
            f"ulimit -f: got files of at most {limit // 1024} KiB, expected "
            f"{LEAST_FILE_BYTES // 1024} or unlimited, or the embedded store takes nothing",
            hint="run `ulimit -f unlimited` first, or name a store of your own in spec.storage",
        )
    disk = shutil.disk_usage(folder)
    if disk.free < disk.total * LEAST_FREE_SHARE:
        raise Unreachable(
            f"{folder}: got {disk.free / 1e9:.1f} GB free of {disk.total / 1e9:.1f}, "
            f"expected at least {LEAST_FREE_SHARE:.0%}, or the embedded store takes nothing",
            hint="free some space and run the same command again, or name a store of your own "
            "in spec.storage; nothing is lost",
        )
