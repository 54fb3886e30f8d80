"""What a federation between clusters leaves in its bucket."""

from collections.abc import Iterator

import pytest

from hansa.api import bucket_keys
from tests.members.parties import Apart, Join
from tests.support.small import FILES

NAME = "apart"


@pytest.fixture(scope="module")
def joined(federations: dict[str, Apart]) -> Iterator[Join]:
    """All three at work, until the coordinator's end."""
    apart = federations[NAME]
    apart.coordinate()
    apart.serve()
    with apart.join() as join:
        apart.at.hq.finish(NAME)
        yield join
    apart.end()


@pytest.fixture(scope="module")
def apart(federations: dict[str, Apart], joined: Join) -> Apart:
    """The federation, which has come to its end."""
    return federations[NAME]


def result(apart: Apart) -> dict[str, bytes]:
    """The newest global adapter as the bucket has it."""
    number = int(apart.at.hq.status(apart.name)["adapter"]["round"])
    folder, store = bucket_keys.global_folder(apart.name, number), apart.at.exchange.store()
    return {file: store.get(f"{folder}{file}") for file in FILES}
