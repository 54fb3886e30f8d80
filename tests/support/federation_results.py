"""What a federation between clusters leaves in its bucket."""

from hansa.api import bucket_keys
from tests.members.parties import Apart
from tests.support.small import FILES


def result(apart: Apart) -> dict[str, bytes]:
    """The newest global adapter as the bucket has it."""
    number = int(apart.at.hq.status(apart.name)["adapter"]["round"])
    folder, store = bucket_keys.global_folder(apart.name, number), apart.at.exchange.store()
    return {file: store.get(f"{folder}{file}") for file in FILES}
