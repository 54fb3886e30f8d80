"""Whatever JSON a server answers with, it is read or refused: nothing else happens."""

import math
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from hansa.core.http import HttpError
from hansa_worlds.agentgym.answers import (
    find_error,
    parse_first,
    parse_session,
    parse_turn,
    parse_words,
)
from hansa_worlds.agentgym.dialects import DIALECTS
from hansa_worlds.remote.wire import LONGEST_ERROR, LONGEST_TEXT, clean

FIELDS = ["observation", "state", "reward", "score", "done", "terminated", "truncated", "error"]
FIELDS += ["id", "env_idx", "available_actions", "task_description", ""]
TEXTS = some.text(some.characters(codec=None), max_size=40) | some.just(
    'You see.\nAvailable actions: ["go", "go", "\x1b[2J", ""]'
)
LEAVES = some.none() | some.booleans() | some.integers() | some.floats() | TEXTS
ANSWERS = some.recursive(
    LEAVES,
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.dictionaries(some.sampled_from(FIELDS) | TEXTS, inner, max_size=8)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("environment", ["alfworld", "babyai", "sciworld", "webarena", "webshop"])
@settings(max_examples=60, deadline=None)
@given(answer=ANSWERS)
def test_a_turn_is_read_or_refused(environment, answer):
    for read in (parse_turn, parse_first):
        try:
            seen = read(answer, DIALECTS[environment])
        except HttpError:
            continue
        seen.text.encode()
        assert "\x1b" not in seen.text + "".join(seen.moves)
        assert len(seen.text) <= LONGEST_TEXT + 10
        assert math.isfinite(seen.reward)
        assert isinstance(seen.done, bool)
        assert all(seen.moves) and len(set(seen.moves)) == len(seen.moves)


@settings(max_examples=60, deadline=None)
@given(answer=ANSWERS)
def test_a_session_and_words_are_read_or_refused(answer):
    with suppress(HttpError):
        found = parse_session(answer, DIALECTS["webshop"])
        assert isinstance(found, int | str) and not isinstance(found, bool)
    with suppress(HttpError):
        assert all(parse_words(answer))
    error = find_error(answer)
    assert error is None or (len(error) <= LONGEST_ERROR and "\n" not in error)


@given(text=some.text(some.characters(codec=None)))
@settings(max_examples=100, deadline=None)
def test_clean_text_stays_as_it_is_when_cleaned_again(text):
    once = clean(text)
    once.encode()
    assert clean(once) == once


@pytest.mark.parametrize(
    ("answer", "text", "moves"),
    [
        (
            {"observation": 'Go.\nAvailable actions: ["turn left", "drop"]'},
            None,
            ["turn left", "drop"],
        ),
        ({"observation": "Available actions: [] "}, None, []),
        ({"observation": "Nothing listed."}, "Nothing listed.", []),
    ],
)
def test_babyai_lists_its_actions_at_the_end_of_its_text(answer, text, moves):
    seen = parse_first(answer, DIALECTS["babyai"])
    assert seen.moves == moves
    assert seen.text == (text or answer["observation"])
