"""One Federation as it changes: a watch that outlives timeouts, restarts and lost connections."""

import time
from collections.abc import Callable, Iterator

from hansa.kubernetes.client import ApiError, Data
from hansa.kubernetes.errors import Absent, ClusterError
from hansa.kubernetes.federations import Federations

WATCH_SECONDS = 240
PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each new try while the cluster does not answer; the last one again and again."""


def follow(
    federations: Federations,
    name: str,
    *,
    deadline: float = float("inf"),
    lost: Callable[[str], None] = lambda why: None,
) -> Iterator[Data | None]:
    """The object now and after every change; None once it is deleted, and then no more.

    Ends silently at `deadline` (of time.monotonic). The first read must succeed; later a cluster
    that does not answer is asked again until it does, and `lost` gets why, once for each gap.
    """
    newest = federations.get(name)
    yield newest
    silent = 0
    while time.monotonic() < deadline:
        try:
            if silent:
                newest = federations.get(name)
                yield newest
            for change in _watch_changes(federations, newest, deadline):
                silent = 0
                if change is None:
                    yield None
                    return
                newest = change
                yield newest
            time.sleep(PAUSES[0])  # the apiserver ended the watch, as it does from time to time
        except Absent:
            yield None
            return
        except (ApiError, ClusterError) as error:
            # 410: the watch must start again from a fresh read.
            if isinstance(error, ApiError) and not (error.may_pass or error.status == 410):
                raise federations.explain(error, name) from error
            if silent == 1:  # the first gap is often only a watch that grew too old
                lost(error.message)
            time.sleep(min(PAUSES[min(silent, len(PAUSES) - 1)], _remaining_seconds(deadline)))
            silent += 1


def _watch_changes(federations: Federations, start: Data, deadline: float) -> Iterator[Data | None]:
    """Changes after `start`, until the apiserver ends the watch or time is up."""
    seconds = min(WATCH_SECONDS, max(1, round(_remaining_seconds(deadline))))
    events = federations.kube.watch(
        federations.path(federations.namespace),
        resource_version=start["metadata"]["resourceVersion"],
        timeout_seconds=seconds,
        fieldSelector=f"metadata.name={start['metadata']['name']}",
    )
    for event in events:
        if event["type"] == "DELETED":
            yield None
            return
        if event["type"] != "BOOKMARK":
            yield event["object"]


def _remaining_seconds(deadline: float) -> float:
    return max(0.0, min(deadline - time.monotonic(), 1e6))
