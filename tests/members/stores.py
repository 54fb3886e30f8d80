"""The store between the parties, with a door for each of them, and a silo's private one."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store import access_grants
from tests.support.faults import FaultyProxy


class Exchange(LocalStore):
    """SeaweedFS with identities that have what `hansa policy` prints, and nothing else.

    It listens on 127.0.0.1, which no party reaches; each has a door at its own cable.
    """

    def __init__(self, folder: Path, identities: list[str], doors: dict[str, str]) -> None:
        """`doors` are addresses of this machine by party."""
        super().__init__(folder, identities)
        self.policies: dict[str, str] = {}
        """What `hansa policy` printed, by identity."""
        self._addresses = doors
        self.doors: dict[str, FaultyProxy] = {}
        """Where each party comes in, by its name."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        super().__enter__()
        for party, address in self._addresses.items():
            door = FaultyProxy(self.s3.endpoint or "", address)
            self.doors[party] = self._stack.enter_context(door)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
        super().__exit__(*error)

    def _build_identities(self) -> dict[str, Any]:
        named: dict[str, list[access_grants.Grant]] = {name: [] for name in self.policies}
        document = access_grants.seaweedfs_identities(named, self.credentials, RUNNER)
        for policy in document["policies"]:
            policy["content"] = self.policies[policy["name"]]
        return document

    def grant(self, policies: dict[str, str]) -> None:
        """Give identities these policies, and no others."""
        self.policies = policies
        self._write_identities()
        self.restart()

    def place(self, party: str, prefix: str) -> dict[str, Any]:
        """storage.s3 as a party has it: the same bucket by its own address."""
        endpoint = self.doors[party].endpoint
        return {"endpoint": endpoint, "bucket": self.s3.bucket, "prefix": prefix}

    @contextmanager
    def away(self) -> Iterator[None]:
        """Die, and come back at the same address with the same objects."""
        for door in self.doors.values():
            door.down()
        assert self.pid
        os.kill(self.pid, signal.SIGKILL)
        yield
        self.ensure()
        for door in self.doors.values():
            door.up()

    def objects(self) -> dict[str, bytes]:
        """All that is in the bucket, as its owner sees it."""
        store = self.store()
        return {key: store.get(key) for key in store.list("")}


class Private(LocalStore):
    """A silo's own store, which only its cluster's cable leads to."""

    def __init__(self, folder: Path, silo: str, address: str, prefixes: Iterable[str]) -> None:
        """`address` is this machine's on that cable; each federation has a prefix."""
        super().__init__(folder, [silo])
        self._silo, self._address, self._prefixes = silo, address, tuple(prefixes)

    def __enter__(self) -> Self:
        super().__enter__()
        self.door = FaultyProxy(self.s3.endpoint or "", self._address)
        self.door.up()
        return self

    def __exit__(self, *error: Any) -> None:
        self.door.down()
        super().__exit__(*error)

    def _build_identities(self) -> dict[str, Any]:
        """The silo and the owner: `weed` may skip policies after one without a statement."""
        places = [self.s3.model_copy(update={"prefix": prefix}) for prefix in self._prefixes]
        own = [
            grant for place in places for grant in access_grants.private_grants(place, self._silo)
        ]
        return access_grants.seaweedfs_identities({self._silo: own}, self.credentials, RUNNER)

    def place(self, prefix: str) -> dict[str, Any]:
        """storage.s3 as the silo has it."""
        return {"endpoint": self.door.endpoint, "bucket": self.s3.bucket, "prefix": prefix}
