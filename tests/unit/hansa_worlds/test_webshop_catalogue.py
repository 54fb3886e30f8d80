"""Catalogues that are grown, the search over them, and the wishes written for their products."""

import hashlib
import re

import pytest

from hansa_worlds.webshop import words
from hansa_worlds.webshop.catalogue import CatalogueSize, grow
from hansa_worlds.webshop.reward import are_alike, could_meet, has_attribute, score_type
from hansa_worlds.webshop.search import MOST_RESULTS, MOST_WORDS, SearchIndex, list_terms, stem
from hansa_worlds.webshop.world import WebShop

SHOP = grow("0", CatalogueSize())
SMALL = CatalogueSize(products=60, attributes=2, choices=1)


class TestCatalogue:
    def test_there_are_more_than_a_thousand_different_products(self):
        assert len(SHOP.products) == 1_200
        assert len(SHOP.kinds) == len(words.KINDS) == 60
        names = {(one.summary, one.price, str(one.options)) for one in SHOP.products.values()}
        assert len(names) > 1_190

    def test_a_product_has_attributes_options_a_price_and_text(self):
        for product in SHOP.products.values():
            assert len(set(product.attributes)) == 4
            assert len(product.options) == 3
            assert all(len(set(values)) >= 3 for values in product.options.values())
            assert re.fullmatch(r"\$\d\d?\.\d\d", product.price)
            assert product.cents % 1_000 != 0
            assert product.description
            assert len(product.features) == 4

    def test_a_catalogue_is_the_same_on_every_machine(self):
        """Change a word or a draw, and every result measured before is of another world."""
        lines = [
            f"{one.id} {one.title} {one.price} {one.options} {one.features} {one.reviews} "
            f"{goal.instruction} {SHOP.find(goal.query)}"
            for one in SHOP.products.values()
            for goal in SHOP.goals(one.key)
        ]
        lines += [task.id for task in WebShop({}).tasks("test")]
        assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == "b634e6e04788aaf7"

    def test_another_seed_sells_other_things(self):
        other = grow("1", CatalogueSize())
        assert {one.summary for one in other.products.values()} != {
            one.summary for one in SHOP.products.values()
        }

    def test_a_small_catalogue_has_few_kinds_and_short_ids(self):
        small = grow("0", SMALL)
        assert len(small.kinds) == 10
        assert sorted(small.products) == sorted(f"b{number}" for number in range(1, 61))
        assert {len(one.options) for one in small.products.values()} == {1}

    def test_the_words_are_few(self):
        said = set()
        for product in SHOP.products.values():
            texts = (product.searched, *product.options, *product.reviews)
            values = (value for many in product.options.values() for value in many)
            for text in (*texts, *values, *(goal.instruction for goal in SHOP.goals(product.key))):
                said.update(re.findall(r"[A-Za-z]+", text))
        assert len(said) < 320

    def test_no_match_is_an_accident_of_wording(self):
        kinds = [kind.name.split() for kind in words.KINDS]
        flat = [word for name in kinds for word in name]
        assert len(set(map(stem, flat))) == len(flat)
        for department in words.DEPARTMENTS.values():
            for one in department.attributes:
                assert sum(are_alike(one, other) for other in department.attributes) == 1
        for values in words.OPTIONS.values():
            for one in values:
                assert sum(are_alike(one, other) for other in values) == 1
        for product in list(SHOP.products.values())[::7]:
            pool = {one for each in words.DEPARTMENTS.values() for one in each.attributes}
            assert {one for one in pool if has_attribute(product, one)} == set(product.attributes)
            assert product.nouns == {stem(word) for word in product.kind.split()}

    def test_only_the_same_kind_is_the_right_type(self):
        first = {product.kind: product for product in SHOP.products.values()}
        for one in first.values():
            for other in first.values():
                assert score_type(one, other) == (1.0 if one is other else 0.0)


class TestWishes:
    def test_every_wish_can_be_met_by_its_product(self):
        for key, product in SHOP.products.items():
            for goal in SHOP.goals(key):
                assert goal.target is product
                assert could_meet(product, goal)

    def test_an_instruction_names_everything_that_counts(self):
        for key in list(SHOP.products)[::5]:
            for goal in SHOP.goals(key):
                for text in (goal.instruction, goal.short):
                    lines = [*goal.attributes, *goal.options, goal.target.kind]
                    assert all(re.search(rf"\b{word}\b", text) for word in lines)
                    assert f" {goal.most_cents // 100} dollars" in text

    def test_wishes_differ_and_are_worded_in_several_ways(self):
        lines = [goal.instruction for key in SHOP.products for goal in SHOP.goals(key)]
        assert len(lines) == 4_800
        assert len({text.split()[0:2][-1] for text in lines}) >= 3
        for key in SHOP.products:
            wishes = {(g.attributes, g.options, g.most_cents) for g in SHOP.goals(key)}
            assert len(wishes) == 4

    def test_no_split_wishes_for_anothers_product(self):
        world = WebShop({})
        splits = [
            {task.payload[1] for task in world.tasks(split)}
            for split in ("train", "validation", "test")
        ]
        assert [len(split) for split in splits] == [720, 180, 300]
        assert len(set().union(*splits)) == 1_200

    def test_the_first_tasks_are_for_different_products(self):
        tasks = WebShop({}).tasks("test")[:200]
        assert len({task.payload[1] for task in tasks}) == 200

    @pytest.mark.parametrize("attributes", [1, 2, 3, 6])
    @pytest.mark.parametrize("choices", [0, 1, 2])
    def test_every_shape_has_wishes_for_every_product(self, attributes, choices):
        shop = grow("0", CatalogueSize(products=24, attributes=attributes, choices=choices))
        for key, product in shop.products.items():
            assert len(shop.goals(key)) >= 3
            assert len(product.attributes) == attributes
            assert all(len(goal.options) == choices for goal in shop.goals(key))

    def test_pre_training_shops_elsewhere(self):
        world = WebShop({"products": 60})
        assert all(world.fresh(seed).payload[0].startswith("fresh-") for seed in range(50))


class TestSearch:
    def test_rare_words_count_more_than_common_ones(self):
        index = SearchIndex(["soft mug", "soft rug", "soft hat", "hard hat"])
        assert index.find(list_terms("soft rug"))[0] == 1
        assert index.find(list_terms("hard")) == [3]

    def test_ties_keep_the_order_of_the_catalogue(self):
        assert SearchIndex(["red mug", "red mug", "red mug"]).find(list_terms("mug red")) == [
            0,
            1,
            2,
        ]

    def test_repetition_order_and_plurals_do_not_matter(self):
        assert list_terms("Mugs red red MUG") == list_terms("red mug")
        assert [stem(word) for word in ("dresses", "boots", "parties", "glass", "bus", "s")] == [
            "dress",
            "boot",
            "party",
            "glass",
            "bus",
            "s",
        ]

    def test_at_most_fifty_products_are_found(self):
        assert len(SHOP.find("soft warm organic wireless")) == MOST_RESULTS

    def test_a_long_query_is_cut(self):
        assert len(list_terms(" ".join(f"w{number}x" for number in range(1_000)))) == MOST_WORDS
        assert list_terms("a" * 1_000) == ("a" * 40,)

    def test_an_empty_catalogue_and_an_empty_query_find_nothing(self):
        assert SearchIndex([]).find(list_terms("mug")) == []
        assert SearchIndex(["mug"]).find(list_terms("[] !")) == []

    def test_the_wish_finds_its_product_early(self):
        ranks = []
        for task in WebShop({}).tasks("test")[:100]:
            goal = SHOP.goals(task.payload[1])[int(task.payload[2])]
            ranks.append(SHOP.find(goal.query).index(goal.target.key))
        assert sum(rank < 10 for rank in ranks) >= 95
