"""What `hansa join` prints of its conditions: a trouble once, and once that it is over."""

from hansa.local.join import _list_changed_conditions
from tests.support.clinic import Clinic, working
from tests.support.clinic_failures import fail


def test_a_trouble_is_printed_once_and_so_is_its_end() -> None:
    troubles: dict[str, str] = {}
    clinic = working()
    assert _list_changed_conditions(clinic.silo, troubles) == [], "all is well"
    fail(clinic, 44, trouble="Unreachable", message="no answer")
    assert _list_changed_conditions(clinic.silo, troubles) == [
        "Connected False: Unreachable: no answer; it is retried"
    ]
    assert _list_changed_conditions(clinic.silo, troubles) == []
    clinic.now = clinic.wake_at
    clinic.turn().post()
    [line] = _list_changed_conditions(clinic.silo, troubles)
    assert line.startswith("Connected True: Listening: ")


def test_a_refused_order_is_printed_with_its_sentence() -> None:
    clinic = Clinic().turn().post()
    clinic.order(veto="most", path="rounds", message="rounds: got 9, allowed at most 3")
    assert _list_changed_conditions(clinic.silo, {}) == [
        "Allowed False: Refused: order 1 refused: rounds: got 9, allowed at most 3"
    ]
