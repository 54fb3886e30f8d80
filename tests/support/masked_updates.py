"""Masked federations in one line, and aggregators that find somebody missing."""

from typing import Any

from hansa.api.assignment import AggregatorReport
from hansa.crypto.keys import format_public_key

FIVE = ("a", "b", "c", "d", "e")


def key(name: str) -> str:
    """A public key for a silo; none that anybody could use."""
    return format_public_key("x25519", name.encode().ljust(32, b"."))


def masked(*names: str, **secure: Any) -> dict[str, Any]:
    """Fields of a spec whose silos mask their updates."""
    return {
        "aggregation": {"secure": secure},
        "environments": [
            {
                "name": name,
                "world": "maze",
                "maskingKey": key(name),
                "experienceStorage": {"s3": {"bucket": f"{name}-private"}},
            }
            for name in names or FIVE
        ],
    }


def dropped_out(round_: int, *remaining: int) -> AggregatorReport:
    """The report of an aggregator that found somebody missing."""
    return AggregatorReport(
        round=round_, manifest="", adapter="", bytes=0, members=[], remaining=list(remaining)
    )
