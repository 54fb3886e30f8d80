"""Kinds of tasks leave a silo few, short, and never as names of tasks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hansa.api.task_kinds import (
    LONGEST_NAME,
    MOST_KINDS,
    MOST_NAMES,
    Name,
    Rates,
    public_names,
    rates,
)

NAME: TypeAdapter[str] = TypeAdapter(Name)
RATES: TypeAdapter[dict[str, int]] = TypeAdapter(Rates)


@given(st.sets(st.text(max_size=120), max_size=MOST_NAMES))
def test_whatever_a_world_calls_its_kinds_what_leaves_is_few_and_plain(names: set[str]) -> None:
    called = public_names(names, 10_000)
    assert called.keys() == names - {""}
    assert len(set(called.values())) <= MOST_KINDS
    for name in called.values():
        assert NAME.validate_python(name) == name


def test_few_short_names_stay_as_they_are() -> None:
    names = [f"depth {number:02d}" for number in range(MOST_KINDS)]
    assert public_names(reversed(names), 1000) == {name: name for name in names}  # type: ignore[arg-type]


def test_of_many_kinds_neighbours_are_one_under_the_first_name() -> None:
    names = [f"level {number:02d} {'x' * 20}" for number in range(40)]
    called = public_names(names, 1000)
    assert called[names[0]] == called[names[3]] != called[names[4]]
    assert called[names[0]] == f"level 00 {'x' * 18} +3"
    assert len(called[names[0]]) == LONGEST_NAME


@pytest.mark.parametrize("most, tasks", [(200, 100_000), (25, 100), (3, 15)])
def test_where_there_are_nearly_as_many_kinds_as_tasks_nothing_is_told(
    most: int, tasks: int
) -> None:
    names = [f"task {number}" for number in range(most + 1)]
    assert public_names(names, tasks) == {}
    assert public_names(names[:most], tasks).keys() == set(names[:most])


def test_an_empty_name_is_no_kind() -> None:
    assert public_names({""}, 100) == {}
    assert public_names({"", "far"}, 100) == {"far": "far"}


@pytest.mark.attack(
    by="a silo",
    does="names kinds of tasks without end, or by hostile text",
    result="the report or update is malformed; metrics have at most 12 kinds per environment",
)
@pytest.mark.parametrize(
    "rates",
    [
        {f"kind {number}": 5000 for number in range(MOST_KINDS + 1)},
        {"k" * (LONGEST_NAME + 1): 5000},
        {'near"} 1\n': 5000},
        {"": 5000},
        {"far": 10_001},
    ],
    ids=["too many", "too long", "no plain text", "empty", "more than all"],
)
def test_rates_of_a_liar_are_refused(rates: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        RATES.validate_python(rates)


def test_no_line_ends_hide_behind_a_name() -> None:
    with pytest.raises(ValidationError):
        NAME.validate_python("far\n")
    assert re.fullmatch(r"[ -~]+", public_names({"zwölf\nWege"}, 100)["zwölf\nWege"])


def test_a_round_without_kinds_has_no_rates() -> None:
    assert rates({}) is None
    assert rates({"far": [0, 0]}) is None
