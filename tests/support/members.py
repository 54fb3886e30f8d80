"""A silo and an order for it, as tests of members start from."""

from typing import Any

from hansa.api.assignment import Assignment
from hansa.api.member_spec import MemberSpec

KEY = "ed25519:" + "A" * 43
AGREED: dict[str, Any] = {
    "seed": 7,
    "rounds": 3,
    "model": {"source": "builtin:tiny", "sha256": "b" * 64},
    "adapter": {"rank": 8, "shapes": "d" * 64},
    "settings": {},
}


def member(**changes: Any) -> MemberSpec:
    """A silo that plays maze in the federation `five`."""
    given = {
        "federation": {
            "name": "five",
            "run": "a" * 64,
            "environment": "clinic",
            "publicKeys": [KEY],
        },
        "storage": {"s3": {"endpoint": "https://ours", "bucket": "shared", "prefix": "five"}},
        "publicKeys": [KEY],
        "world": "maze",
        "agreed": AGREED,
        **changes,
    }
    return MemberSpec.model_validate(given)


def order(**changes: Any) -> Assignment:
    """What the coordinator asks `clinic` for in round 1."""
    given = {
        "role": "client",
        "federation": "five",
        "seed": AGREED["seed"],
        "model": AGREED["model"],
        "adapter": AGREED["adapter"],
        "settings": AGREED["settings"],
        "round": 1,
        "start": {"round": 0},
        "storage": {"bucket": "shared", "prefix": "five"},
        "environments": ["clinic", "other"],
        "environment": "clinic",
        **changes,
    }
    return Assignment.model_validate(given)
