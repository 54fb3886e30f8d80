"""Whether an adapter has fallen, and which one to go back to, as tables."""

import pytest

from hansa.api.spec import Guard
from hansa.api.status import HistoryEntry
from hansa.plan.policy import guard


def entry(round_, outcome="aggregated", **validation):
    return HistoryEntry(round=round_, outcome=outcome, validation=validation)


BASE = entry(0, "base", maze=0.2, wordle=0.2)


@pytest.mark.parametrize(
    ("history", "fields", "back_to"),
    [
        pytest.param([BASE, entry(1, maze=0.5, wordle=0.5)], {}, None, id="a rise is no fall"),
        pytest.param(
            [BASE, entry(1, maze=0.5, wordle=0.5), entry(2, maze=0.3, wordle=0.3)],
            {},
            1,
            id="twenty points below the best",
        ),
        pytest.param(
            [BASE, entry(1, maze=0.5, wordle=0.5), entry(2, maze=0.4, wordle=0.4)],
            {},
            None,
            id="exactly the drop that is allowed",
        ),
        pytest.param(
            [BASE, entry(1, maze=0.5, wordle=0.5), entry(2, maze=0.2, wordle=0.7)],
            {},
            None,
            id="one environment's loss is another's gain in the mean",
        ),
        pytest.param(
            [BASE, entry(1, maze=0.5, wordle=0.5), entry(2, maze=0.2, wordle=0.7)],
            {"scope": "environment"},
            1,
            id="but not where each is judged by itself",
        ),
        pytest.param(
            [entry(0, "base", maze=0.6), entry(1, maze=0.1)], {}, 0, id="back to the base"
        ),
        pytest.param(
            [BASE, entry(1, maze=0.9), entry(2, maze=0.5, wordle=0.5)],
            {},
            None,
            id="who was evaluated by more is the better measure",
        ),
        pytest.param(
            [entry(0, "base", maze=0.9), entry(1, wordle=0.1)], {}, None, id="nothing in common"
        ),
        pytest.param([BASE, entry(1)], {}, None, id="not evaluated yet"),
        pytest.param(
            [BASE, entry(1, "rejected", maze=0.9, wordle=0.1), entry(2, maze=0.3, wordle=0.3)],
            {},
            None,
            id="what was rejected once is no measure",
        ),
        pytest.param(
            [BASE, entry(1, maze=0.1, wordle=0.0)], {"action": "none"}, None, id="switched off"
        ),
    ],
)
def test_a_fall_is_seen_against_the_best_that_the_same_environments_have_played(
    history, fields, back_to
):
    fall = guard.judge(Guard(**fields), history, history[-1].round)
    assert (fall.best.round if fall else None) == back_to


def test_the_message_names_the_fall_and_both_rounds():
    history = [BASE, entry(1, maze=0.5, wordle=0.61), entry(2, maze=0.5, wordle=0.3)]
    fall = guard.judge(Guard(scope="environment", max_drop=0.2), history, 2)
    assert fall.message == (
        "validation success of wordle fell from 61.0% (round 1) to 30.0% (round 2), "
        "more than guard.maxDrop 0.2"
    )


def test_no_guard_and_unknown_rounds_judge_nothing():
    assert guard.judge(None, [BASE], 0) is None
    assert guard.judge(Guard(), [BASE], 7) is None
    assert guard.find_best_adapter(None, [entry(1, maze=1.0)], 1) is None


def test_the_adapter_to_end_with_is_the_best_of_those_that_count():
    history = [
        entry(0, "base", maze=0.9, wordle=0.9),
        entry(1, maze=0.95),
        entry(2, maze=0.4, wordle=0.6),
        entry(3, maze=0.5, wordle=0.5),
        entry(4, "rejected", maze=1.0, wordle=1.0),
    ]
    for last in (3, 4):  # the last may have been judged, or not
        best = guard.find_best_adapter(Guard(), history, last)
        assert best is not None
        assert best.round == 2
    assert guard.find_best_adapter(Guard(), history[:1], 0) is None


def test_who_cannot_judge_the_last_adapter_does_not_make_an_old_one_win():
    history = [
        entry(1, maze=0.2, textcraft=0.2, wordle=0.9),
        entry(2, maze=0.7, textcraft=0.7),  # wordle has left
        entry(3, maze=0.8, textcraft=0.8),
    ]
    best = guard.find_best_adapter(Guard(), history, 3)
    assert best is not None
    assert best.round == 3
