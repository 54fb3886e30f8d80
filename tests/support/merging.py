"""Merging adapters that a test has in memory, as the contract suite of strategies does it."""

from typing import Any

from hansa.api.strategies import BUILTIN
from hansa_server.contract.merging import ContractMerge as ContractMerge
from hansa_server.contract.merging import describe_moments as describe_moments
from hansa_server.contract.merging import draw as draw
from hansa_server.contract.merging import draw_moments as draw_moments
from hansa_server.contract.merging import encode_reversed as encode_reversed
from hansa_server.contract.merging import make_shapes as make_shapes
from hansa_server.contract.merging import read as read
from hansa_server.contract.merging import run as run
from hansa_server.contract.merging import write as write

STRATEGIES = [name for name, entry in BUILTIN.items() if entry.code]
"""All that merge."""


def options_of(strategy: str, **given: Any) -> dict[str, Any]:
    """Those of the options that the strategy reads, as a manifest has them."""
    fields = BUILTIN[strategy].options.model_fields
    return {fields[name].alias or name: given[name] for name in given if name in fields}
