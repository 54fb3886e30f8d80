"""A fault of the operator is its own: logged with a traceback, tried again, never the user's."""

import asyncio
import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hansa.api import constants
from hansa.api.jobs import Event, Plan
from hansa.core.errors import InputError
from hansa.kubernetes.client import ApiError
from hansa_operator import kinds, operate
from hansa_operator.index import Index, Key
from hansa_operator.kinds import KINDS
from hansa_operator.operate import Operator
from hansa_operator.publish import Publisher
from hansa_operator.settings import Settings
from tests.support.builders import NOW
from tests.support.terminal import is_tame
from tests.unit.hansa_operator.objects import live_job, live_pod, make_federation, terminated

KEY = Key("silos", "fed")


class Kube:
    """An API server that keeps one federation and has no Jobs."""

    namespace = "silos"

    def __init__(self) -> None:
        self.federation = make_federation().to_json()
        self.federation["metadata"] |= {"resourceVersion": "1", "generation": 1}
        self.writes = 0
        self.refusal: ApiError | None = None

    def list(self, path: str, **how: Any) -> dict[str, Any]:
        return {"items": [self.federation] if path.endswith("/federations") else []}

    def create(self, path: str, body: dict[str, Any], **how: Any) -> dict[str, Any]:
        return body

    def replace(self, path: str, body: dict[str, Any], **how: Any) -> dict[str, Any]:
        assert path.endswith("/federations/fed/status")
        if self.refusal:
            raise self.refusal
        self.writes += 1
        version = str(int(self.federation["metadata"]["resourceVersion"]) + 1)
        metadata = {**self.federation["metadata"], "resourceVersion": version}
        self.federation = {**self.federation, "metadata": metadata, "status": body["status"]}
        return self.federation

    def condition(self, type_: str) -> dict[str, Any]:
        held = self.federation["status"].get("conditions") or ()
        return next((c for c in held if c["type"] == type_), {})


@pytest.fixture
def kube() -> Kube:
    return Kube()


@pytest.fixture
def operator(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setattr(operate, "connect", lambda **how: kube)
    made = Operator(Settings(metrics_port=0))
    made._lease = SimpleNamespace(is_held=True)  # type: ignore[assignment]
    made._index.see_owner(constants.KIND, kube.federation)
    return made


def pass_over(operator: Operator) -> None:
    asyncio.run(operator._pass(KEY))


def break_the_plan(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def plan(federation: Any, observed: Any, now: datetime) -> Plan:
        raise error

    monkeypatch.setattr(kinds, "plan", plan)


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a figure of the plan"),
        KeyError("maze"),
        AttributeError("no such thing"),
        TypeError("of another kind"),
        ValueError("of no use"),
        RuntimeError("anything else"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_in_the_plan_is_shown_as_the_operators_own(
    operator: Operator, kube: Kube, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    pass_over(operator)
    phase = kube.federation["status"]["phase"]
    break_the_plan(monkeypatch, error)
    pass_over(operator)
    shown = kube.condition("Progressing")
    assert (shown["status"], shown["reason"]) == ("False", "OperatorError")
    assert type(error).__name__ in shown["message"]
    assert "delete" not in shown["message"]
    assert kube.condition("Accepted")["status"] == "True"
    assert kube.federation["status"]["phase"] == phase


def test_a_fault_is_logged_with_its_traceback_and_tried_again_later_each_time(
    operator: Operator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HANSA_LOG", "json")
    break_the_plan(monkeypatch, ZeroDivisionError("a figure of the plan"))
    for _ in range(3):
        pass_over(operator)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    faults = [line for line in lines if line["event"] == "fault"]
    assert [line["again_in"] for line in faults] == [1.0, 2.0, 4.0]
    assert all("test_faults.py" in line["traceback"] for line in faults)
    assert all("ZeroDivisionError: a figure of the plan" in line["traceback"] for line in faults)


def test_a_fault_that_stays_is_written_into_the_status_once(
    operator: Operator, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_the_plan(monkeypatch, ZeroDivisionError("a figure of the plan"))
    for _ in range(3):
        pass_over(operator)
    assert kube.writes == 1


def test_a_federation_goes_on_once_the_fault_is_gone(
    operator: Operator, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        break_the_plan(broken, ZeroDivisionError("a figure of the plan"))
        pass_over(operator)
    pass_over(operator)
    assert kube.condition("Progressing")["reason"] == "RoundOpen"


def test_a_fault_that_cannot_be_shown_is_logged_all_the_same(
    operator: Operator,
    kube: Kube,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    break_the_plan(monkeypatch, ZeroDivisionError("a figure of the plan"))
    kube.refusal = ApiError(422, "Invalid", "unknown reason")
    pass_over(operator)
    assert "ZeroDivisionError: a figure of the plan" in capsys.readouterr().err


WRITTEN_BY_HAND = {
    "nonsense was accepted": ({"accepted": {"rounds": "many"}}, "status.accepted: "),
    "accepted environments that are a list": (
        {"accepted": {"rounds": 1, "environments": []}},
        "status.accepted: ",
    ),
    "a round of another kind": ({"round": "three"}, "status.round: "),
    "a moment at the end of time": (
        {"failed": None, "history": [{"round": 1, "outcome": "empty", "openedAt": "9999-12-31"}]},
        "status.history[0].openedAt: ",
    ),
    "a moment without a time zone": (
        {"history": [{"round": 1, "outcome": "empty", "openedAt": "2026-01-01T00:00:00"}]},
        "status.history[0].openedAt: ",
    ),
}


@pytest.mark.parametrize("case", WRITTEN_BY_HAND)
def test_a_stored_status_that_is_none_is_told_by_its_field(
    operator: Operator, kube: Kube, case: str
) -> None:
    status, start = WRITTEN_BY_HAND[case]
    with pytest.raises(InputError) as refused:
        KINDS[constants.KIND].read({**kube.federation, "status": status})
    assert refused.value.message.startswith(start)
    kube.federation = {**kube.federation, "status": status}
    kube.federation["metadata"]["resourceVersion"] = "9"
    operator._index.see_owner(constants.KIND, kube.federation)
    pass_over(operator)
    shown = kube.condition("Accepted")
    assert (shown["status"], shown["reason"]) == ("False", "Invalid")
    assert "delete the federation and apply it again" in shown["message"]


HOSTILE = "\x1b[2J\u202e\ud800"


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="leaves 4,000 `[` or half a character as a Pod's last words",
    result="shown or left out; the operator's pass continues",
)
def test_an_event_with_half_a_character_is_told_and_steers_no_terminal(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(kube, "create", lambda path, body: lines.append(body))
    events = [Event(reason="JobFailed", message=HOSTILE), Event(reason="Resumed", message="on")]
    publisher = Publisher(kube, Index(), "here")  # type: ignore[arg-type]
    publisher.tell(make_federation(), events, NOW)
    assert [event["message"] for event in lines] == ["\\u001b[2J\\u202e\\ud800", "on"]
    assert all(is_tame(json.dumps(event, ensure_ascii=False)) for event in lines)


@pytest.mark.parametrize(
    "words", ["[" * 4000, '{"event":"stopped","message":' + "[" * 900 + "]" * 900 + "}", HOSTILE]
)
def test_a_federation_goes_on_whatever_a_pod_said_last(
    operator: Operator, kube: Kube, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    job = live_job("client", ("Failed", "BackoffLimitExceeded"))
    pod = live_pod(terminated(42, f"stopped - {words}\n{words}"), phase="Failed")
    there = {"federations": [kube.federation], "jobs": [job], "pods": [pod]}
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(kube, "list", lambda path, **_: {"items": there[path.split("/")[-1]]})
    monkeypatch.setattr(kube, "create", lambda path, body, **_: lines.append(body) or body)
    for _ in range(3):
        pass_over(operator)
    shown = kube.condition("Progressing")
    assert (shown["status"], shown["reason"]) == ("False", "TooFewUpdates")
    assert {"RoundOpened", "JobFailed", "RoundFailed"} <= {event.get("reason") for event in lines}
    assert is_tame(json.dumps([kube.federation, lines], ensure_ascii=False))
