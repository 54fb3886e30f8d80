"""The strategies by their names in spec.aggregation: a new one is one file and one line here."""

from hansa_server.strategies.base import Strategy
from hansa_server.strategies.mean import mean

STRATEGIES: dict[str, Strategy] = {"mean": mean}
