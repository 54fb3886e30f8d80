"""A network of its own for one silo: a namespace with one cable to this machine, and no other way.

It has no name and no file: the kernel removes it, and the cable, with its last process.
"""

import subprocess
from pathlib import Path
from typing import Self

from tests.support.processes import until

NETWORKS = 50
"""10.250.0.0/30, 10.250.1.0/30 and so on; clusters of tools/cluster have 10.200 to 10.249."""


class Island:
    """The namespace while it is used; a context manager."""

    def __enter__(self) -> Self:
        # It ends with these tests, however they end.
        self._cable = ""
        holder = ("unshare", "--net", "setpriv", "--pdeathsig", "KILL", "sleep", "infinity")
        self._holder = subprocess.Popen(holder, stdin=subprocess.DEVNULL)
        try:
            until(self._is_apart, "a network namespace", 10)
            self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._cable:  # the kernel would do it, a moment later
            subprocess.run(["ip", "link", "delete", self._cable], capture_output=True)

    @property
    def within(self) -> tuple[str, ...]:
        """What comes before a command that is to run there; its process stays the same one."""
        return ("nsenter", "--target", str(self._holder.pid), "--net", "--")

    def _is_apart(self) -> bool:
        own, its = (Path(f"/proc/{p}/ns/net").stat() for p in ("self", self._holder.pid))
        words = Path(f"/proc/{self._holder.pid}/cmdline").read_text().split("\0")
        return own.st_ino != its.st_ino and words[0] == "sleep"

    def _connect(self) -> None:
        cable, number = _claim_cable()
        self._cable = cable
        self.gateway, self.address = (f"10.250.{number}.{end}" for end in (1, 2))
        _ip("link", "set", f"{cable}n", "netns", str(self._holder.pid), "name", "cable")
        _ip("address", "add", f"{self.gateway}/30", "dev", cable)
        _ip("link", "set", cable, "up")
        for command in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{self.address}/30", "dev", "cable"),
            ("link", "set", "cable", "up"),
        ):
            subprocess.run([*self.within, "ip", *command], check=True)


def _claim_cable() -> tuple[str, int]:
    """A name for the cable that nobody has: the kernel gives each away only once."""
    for number in range(NETWORKS):
        cable = f"hansajoin{number}"
        ends = ("type", "veth", "peer", "name", f"{cable}n")
        made = subprocess.run(["ip", "link", "add", cable, *ends], capture_output=True)
        if made.returncode == 0:
            return cable, number
    raise AssertionError(f"no free network of {NETWORKS} from 10.250.0.0/30 on")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
