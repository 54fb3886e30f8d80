"""The strategies by their names in spec.aggregation: a new one is one file and one line here."""

from hansa.api.aggregation import Aggregation
from hansa_server import plugin
from hansa_server.merge_input import Strategy
from hansa_server.strategies import optimizers
from hansa_server.strategies.fedex import fedex
from hansa_server.strategies.flora import flora
from hansa_server.strategies.half import half
from hansa_server.strategies.krum import krum, multi_krum
from hansa_server.strategies.mean import mean
from hansa_server.strategies.norm_balanced import norm_balanced
from hansa_server.strategies.regmean import regmean
from hansa_server.strategies.robust import median, trimmed_mean
from hansa_server.strategies.svd import svd

STRATEGIES: dict[str, Strategy] = {
    "mean": mean,
    "weighted-mean": mean,
    "svd": svd,
    "flora": flora,
    "fedex": fedex,
    "regmean": regmean,
    "ffa": half,
    "rolora": half,
    "fedavgm": optimizers.fedavgm,
    "fedadagrad": optimizers.fedadagrad,
    "fedadam": optimizers.fedadam,
    "fedyogi": optimizers.fedyogi,
    "trimmed-mean": trimmed_mean,
    "median": median,
    "krum": krum,
    "multi-krum": multi_krum,
    "norm-balanced": norm_balanced,
}
"""`none` is not here: it merges nothing, and the plan makes no aggregator for it."""


def get(settings: Aggregation) -> Strategy:
    """The strategy that the settings name; builtin names win over those of packages."""
    return STRATEGIES.get(settings.strategy) or plugin.get(settings)
