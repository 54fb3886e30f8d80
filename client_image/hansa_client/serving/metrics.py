"""Metrics of a server, for Prometheus."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TURNS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What a server counts; one registry each, so that two servers can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "hansa_serve_requests",
            "Requests answered, by path and HTTP status.",
            ["path", "status"],
        )
        self.tokens = counter(
            "hansa_serve_tokens",
            "Tokens of chat completions, by model; kind is prompt or completion.",
            ["model", "kind"],
        )
        self.seconds = histogram(
            "hansa_serve_request_seconds",
            "Time from a chat request's body to the end of its answer.",
            buckets=_SECONDS,
        )
        self.batch = histogram(
            "hansa_serve_batch_turns", "Turns that share a forward pass.", buckets=_TURNS
        )
        self.active = gauge("hansa_serve_active_turns", "Turns being written.")
        self.waiting = gauge("hansa_serve_waiting_turns", "Turns that wait for a slot.")
        self.slots = gauge("hansa_serve_slots", "Turns that can be written at a time.")
        self.cancelled = counter(
            "hansa_serve_cancelled_turns", "Turns whose client left before their end."
        )

    def format_exposition(self) -> bytes:
        """All of them in Prometheus's text format."""
        return generate_latest(self.registry)
