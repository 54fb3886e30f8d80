"""What probes say of the newest adapter, as gauges: by environment, and as most confirm."""

from collections.abc import Iterator

from hansa.api.status import FederationStatus
from hansa.plan.policy import drift
from hansa_operator import metric_table as table
from hansa_operator.metric_table import Metric

METRICS = (table.PROBE_VIOLATIONS, table.PROBE_DRIFT, table.PROBE_FORGOTTEN)


def of(status: FederationStatus) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
    """Each gauge with its labels after the common ones, and its value."""
    for line in status.environments:
        for probe, share in line.probes.violations.items() if line.probes else ():
            yield table.PROBE_VIOLATIONS, (line.name, probe), share
    for probe, rise in drift.rises(status).items():
        yield table.PROBE_DRIFT, (probe,), rise
    entry = drift.in_force(status)
    for probe, nats in entry.probes.forgotten.items() if entry and entry.probes else ():
        yield table.PROBE_FORGOTTEN, (probe,), nats
