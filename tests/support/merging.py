"""Merging adapters that a test has in memory, as the contract suite of strategies does it."""

from hansa_server.contract.merging import ContractMerge as ContractMerge
from hansa_server.contract.merging import described as described
from hansa_server.contract.merging import draw as draw
from hansa_server.contract.merging import draw_moments as draw_moments
from hansa_server.contract.merging import read as read
from hansa_server.contract.merging import reversed_file as reversed_file
from hansa_server.contract.merging import run as run
from hansa_server.contract.merging import shapes_of as shapes_of
from hansa_server.contract.merging import write as write
