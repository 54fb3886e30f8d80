"""Health checks judge an operator by its passes, over real HTTP."""

from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from hansa.core.errors import InputError
from hansa_operator.health import STUCK_SECONDS, Health, serve


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_operator_without_federations_is_healthy_for_ever() -> None:
    clock = Clock()
    health = Health(clock)
    clock.now += 100_000
    health.beat()
    assert health.problem() == ""


def test_a_stalled_event_loop_is_a_problem() -> None:
    clock = Clock()
    health = Health(clock)
    clock.now += STUCK_SECONDS + 1
    assert "stalled" in health.problem()


def test_no_pass_within_two_resyncs_is_a_problem() -> None:
    clock = Clock()
    health = Health(clock)
    health.expect_passes(660, lambda: 0.0)
    clock.now += 661
    health.beat()
    assert health.problem() == "the last pass was 661 s ago"
    health.note_pass()
    assert health.problem() == ""


def test_passes_that_are_due_and_never_begin_are_a_problem() -> None:
    clock = Clock()
    health = Health(clock)
    health.expect_passes(float("inf"), lambda: STUCK_SECONDS + 80)
    clock.now += STUCK_SECONDS + 80
    health.beat()
    assert "due since 200 s" in health.problem()


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_the_answers_over_http() -> None:
    health = Health()
    server = serve(0, health, lambda: b"hansa_round 1\n")
    port = server.server_address[1]
    assert ask(port, "/readyz") == (503, "not ready")
    health.is_ready = True
    assert ask(port, "/readyz") == (200, "ready")
    assert ask(port, "/healthz")[0] == 200
    assert ask(port, "/metrics?x=1") == (200, "hansa_round 1\n")
    assert ask(port, "/")[0] == 404
    with pytest.raises(InputError, match=r"HANSA_METRICS_PORT: got .* expected a free port"):
        serve(port, health, lambda: b"")
    server.shutdown()
