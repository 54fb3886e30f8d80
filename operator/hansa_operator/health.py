"""Health checks and metrics of the operator over HTTP."""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST

from hansa.core.errors import InputError
from hansa_operator.settings import name_variable

STUCK_SECONDS = 120.0
"""A pass that is due and not begun for so long, or a stalled loop: time for a restart."""


class Health:
    """Liveness, noted by the operator's loop and judged on request."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._beat = monotonic()
        self._passed = monotonic()
        self._passes_within = float("inf")
        self._overdue: Callable[[], float] = lambda: 0.0
        self.is_ready = False
        """Whether this replica watches federations, or waits for the Lease."""

    def beat(self) -> None:
        """The event loop turns."""
        self._beat = self._monotonic()

    def note_pass(self) -> None:
        """A pass over a federation has ended, well or not: a restart fixes no API server."""
        self._passed = self._monotonic()

    def expect_passes(self, within_seconds: float, overdue: Callable[[], float]) -> None:
        """From now on a pass must end this often, and none may be overdue."""
        self._passes_within, self._overdue = within_seconds, overdue
        self.note_pass()

    def problem(self) -> str:
        """Why the operator should be restarted; nothing while it lives."""
        age = self._monotonic() - self._passed
        if self._monotonic() - self._beat > STUCK_SECONDS:
            return f"the event loop has been stalled for {self._monotonic() - self._beat:.0f} s"
        if self._overdue() > STUCK_SECONDS and age > STUCK_SECONDS:
            return f"a pass is due since {self._overdue():.0f} s and none ends"
        if age > self._passes_within:
            return f"the last pass was {age:.0f} s ago"
        return ""

    def answer(self) -> str:
        """What /healthz says of a living operator."""
        return f"ok, the last pass was {self._monotonic() - self._passed:.0f} s ago"


def serve(port: int, health: Health, exposition: Callable[[], bytes]) -> ThreadingHTTPServer:
    """Answer /healthz, /readyz and /metrics in threads of their own."""

    class HealthHandler(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._send(200, exposition(), CONTENT_TYPE_LATEST)
            elif path == "/healthz":
                problem = health.problem()
                self._send(500 if problem else 200, (problem or health.answer()).encode())
            elif path == "/readyz":
                ready = health.is_ready and not health.problem()
                self._send(200 if ready else 503, b"ready" if ready else b"not ready")
            else:
                self._send(404, b"got another path, expected /metrics, /healthz or /readyz")

        def _send(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes every few seconds are no news."""

    try:
        server = ThreadingHTTPServer(("", port), HealthHandler)
    except OSError as error:
        raise InputError(
            f"{name_variable('metrics_port')}: got {port} ({error.strerror}), expected a free port"
        ) from None
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server
