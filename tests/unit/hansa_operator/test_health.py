"""Health checks judge an operator by its passes, over real HTTP."""

from math import inf
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from hansa.core.errors import InputError
from hansa_operator.health import STUCK_SECONDS, Health, serve


@pytest.mark.parametrize(
    "within, overdue, passed, beats, problem",
    [
        pytest.param(None, 0.0, 100_000, True, "", id="without federations it is healthy for ever"),
        pytest.param(None, 0.0, STUCK_SECONDS + 1, False, "stalled", id="a stalled event loop"),
        pytest.param(660, 0.0, 661, True, "the last pass was 661 s ago", id="no pass in time"),
        pytest.param(inf, 200, 200, True, "due since 200 s", id="passes that never begin"),
    ],
)
def test_what_is_a_problem(
    within: float | None, overdue: float, passed: float, beats: bool, problem: str
) -> None:
    now = [1000.0]
    health = Health(lambda: now[0])
    if within:
        health.expect_passes(within, lambda: overdue)
    now[0] += passed
    if beats:
        health.beat()
    assert problem in health.problem() and bool(problem) == bool(health.problem())
    if within == 660:
        health.note_pass()
        assert health.problem() == ""


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
