"""WebShop's reward: what a purchase earns, and when it is everything."""

import pytest

from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.reward import (
    compute_reward,
    could_meet,
    find_matching,
    has_attribute,
    is_same_option,
    score_type,
)


def product(**changes):
    fields = {
        "id": "b1",
        "title": "soft cotton shirt",
        "summary": "soft cotton shirt",
        "kind": "shirt",
        "path": ("clothing", "tops", "shirt"),
        "attributes": ("soft", "cotton", "quick dry"),
        "options": {"color": ("red", "navy"), "size": ("small", "large")},
        "cents": 2_499,
        "price": "$24.99",
        "description": "A shirt for work.",
        "features": ("quick dry, good for camping",),
    }
    return Product(**{**fields, **changes})


def goal(**changes):
    fields = {
        "target": product(),
        "instruction": "",
        "short": "",
        "attributes": ("soft", "quick dry"),
        "options": ("red", "large"),
        "most_cents": 3_000,
    }
    return ShoppingGoal(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "chosen", "expected"),
    [
        pytest.param({}, ["red", "large"], 1.0, id="all met"),
        pytest.param({}, ["large", "red"], 1.0, id="in any order"),
        pytest.param({}, ["navy", "large"], 4 / 5, id="wrong color"),
        pytest.param({}, [], 3 / 5, id="nothing chosen"),
        pytest.param({"cents": 3_001}, ["red", "large"], 4 / 5, id="too dear"),
        pytest.param({"cents": 3_000}, ["red", "large"], 1.0, id="exactly the bound"),
        pytest.param(
            {"attributes": ("soft",), "features": ()}, ["red", "large"], 4 / 5, id="one attribute"
        ),
        pytest.param(
            {"title": "soft mug", "kind": "mug", "path": ("home", "kitchen", "mug")},
            ["red", "large"],
            0.0,
            id="another kind of thing",
        ),
    ],
)
def test_reward_is_the_share_of_what_was_asked_for(changes, chosen, expected):
    assert compute_reward(product(**changes), chosen, goal()) == expected


def test_a_wish_without_options_or_bound_counts_attributes_and_price():
    assert compute_reward(product(), [], goal(options=(), most_cents=10**12)) == 1.0
    assert compute_reward(product(), [], goal(options=(), attributes=("vegan",))) == 1 / 2


class TestType:
    """WebShop's table: query, two shared categories, or a fifth of the title's nouns."""

    def score(self, title, **changes):
        other = {"kind": "other", "path": ("x", "y", "z"), "attributes": (), "options": {}}
        bought = product(title=title, **{**other, **changes})
        six = "alpha beta gamma delta epsilon zeta"
        return score_type(bought, product(title=six, attributes=(), options={}))

    def test_a_title_with_none_of_the_nouns_is_worth_nothing_whatever_else_fits(self):
        assert self.score("one two", kind="shirt") == 0.0

    def test_a_sixth_of_the_nouns_is_half_right(self):
        assert self.score("alpha") == 0.5

    def test_a_third_of_the_nouns_is_right(self):
        assert self.score("alpha beta") == 1.0

    def test_the_same_query_makes_up_for_the_title(self):
        assert self.score("alpha", kind="shirt") == 1.0

    def test_two_shared_categories_make_up_for_the_title(self):
        assert self.score("alpha", path=("tops", "clothing")) == 1.0
        assert self.score("alpha", path=("tops", "tops", "other")) == 0.5

    def test_one_noun_in_eleven_is_almost_nothing(self):
        wanted = product(title=" ".join("bcdefghjkmn"), attributes=(), options={})
        bought = product(title="b", kind="other", path=(), attributes=(), options={})
        assert score_type(bought, wanted) == 0.1

    def test_a_title_without_nouns_asks_for_the_query_or_the_category(self):
        wanted = product(title="for the 12", attributes=(), options={})
        assert score_type(product(), wanted) == 1.0
        assert score_type(product(title="a b", kind="other", path=()), wanted) == 0.5


@pytest.mark.parametrize(
    ("has", "wanted", "expected"),
    [
        ("essential oil", "essential oils", True),
        ("natural ingredients", "natural", True),
        ("tea bag", "tea tree", False),
        ("dry skin", "quick dry", False),
        ("", "soft", False),
    ],
)
def test_an_attribute_is_met_by_the_same_words_in_any_number(has, wanted, expected):
    bare = {"title": "x", "features": (), "description": ""}
    assert has_attribute(product(attributes=(has,), **bare), wanted) is expected


@pytest.mark.parametrize("place", ["title", "description", "features"])
def test_an_attribute_may_stand_in_the_small_print(place):
    fields = {"title": "Shirt", "features": (), "description": ""}
    fields[place] = ("Made of Tea Tree",) if place == "features" else "Made of Tea Tree"
    assert has_attribute(product(attributes=(), **fields), "tea tree")


@pytest.mark.parametrize(
    ("chosen", "wanted", "expected"),
    [
        ("pack of 12", "pack of 12", True),
        ("powder snow", "cool powder snow", True),
        ("dark navy stripes", "navy", True),
        ("red stripes", "blue stripes", False),
        ("size: 5", "5", True),
        ("!", "!", True),
        ("!", "?", False),
    ],
)
def test_options_are_compared_by_words_and_colors_by_the_first_color(chosen, wanted, expected):
    assert is_same_option(chosen, wanted) is expected


def test_what_could_meet_a_wish_must_offer_every_value():
    assert could_meet(product(), goal())
    assert not could_meet(product(options={"color": ("red",)}), goal())
    assert not could_meet(product(cents=5_000), goal())


def test_an_equal_value_is_taken_before_one_that_is_alike():
    offers = product(options={"size": ("x large", "large")})
    assert find_matching(offers, "large") == "large"
    assert find_matching(offers, "huge") is None
