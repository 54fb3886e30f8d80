"""The rules of the webshop world, one sentence each."""

import re

from hansa_worlds.webshop.world import WebShop

SMALL = {"products": 60, "attributes": 2, "choices": 1, "results": 4, "text": "short"}


def begin(options=None, index=0):
    """A world at the start of a test task, and what it says there."""
    world = WebShop({"prompt": "none", **(options or {})})
    return world, world.start(world.tasks("test")[index]).text


def opened(options=None, index=0):
    """A world on the page of the product that the wish was written for, and that product."""
    world, _ = begin(options, index)
    product = world.goal.target
    world.step(f"search[{product.title} {product.description}]")
    seen = world.step(f"click[{product.id}]")
    assert product.title in seen.text or product.summary in seen.text
    return world, product


def buttons(world):
    return [action.removeprefix("click[").removesuffix("]") for action in world.legal()]


class TestPages:
    def test_the_first_page_holds_the_instruction_and_a_search_bar(self):
        world, text = begin()
        assert text == f"WebShop [SEP] Instruction: [SEP] {world.goal.instruction} [SEP] Search"

    def test_results_are_listed_by_ten_with_id_title_and_price(self):
        world, _ = begin()
        parts = world.step(f"search[{world.goal.query}]").text.split(" [SEP] ")
        assert parts[:2] == ["Instruction:", world.goal.instruction]
        assert parts[2:5] == ["Back to Search", "Page 1 (Total results: 50)", "Next >"]
        rows = [parts[5 + at : 8 + at] for at in range(0, 30, 3)]
        assert len(parts) == 35
        for id, title, price in rows:
            product = world.shop.products[id]
            assert (title, price) == (product.title, product.price)
            assert re.fullmatch(r"\$\d\d?\.\d\d", price)

    def test_pages_are_turned_until_the_results_end(self):
        world, _ = begin()
        seen = [world.step("search[mug]").text]
        while "next >" in buttons(world):
            seen.append(world.step("click[Next >]").text)
        assert len(set(seen)) == len(seen) == 2  # 20 mugs
        assert "Page 2" in seen[-1]
        assert "< Prev" in seen[-1]
        assert "Next >" not in seen[-1]
        assert world.step("click[< Prev]").text == seen[0]

    def test_a_search_for_nothing_known_finds_nothing(self):
        world, _ = begin()
        assert "(Total results: 0)" in world.step("search[xyzzy]").text
        assert world.legal() == ["click[back to search]"]
        assert world.step("click[back to search]").text.endswith("[SEP] Search")

    def test_an_item_shows_options_price_rating_and_its_pages(self):
        world, product = opened()
        text = world._look()
        for name, values in product.options.items():
            assert " [SEP] ".join([name, *values]) in text
        end = ["Description", "Features", "Reviews", "Buy Now"]
        lines = [product.title, f"Price: {product.price}", f"Rating: {product.rating}", *end]
        assert text.endswith(" [SEP] ".join(lines))

    def test_pages_below_an_item_lead_back_to_it(self):
        world, product = opened()
        item = world._look()
        texts = {
            "Description": product.description,
            "Features": " [SEP] ".join(product.features),
            "Reviews": " [SEP] ".join(product.reviews),
        }
        for name, text in texts.items():
            assert world.step(f"click[{name}]").text.endswith(f"< Prev [SEP] {text}")
            assert buttons(world) == ["back to search", "< prev"]
            assert world.step("click[< prev]").text == item

    def test_previous_on_an_item_leads_to_the_same_results(self):
        world, _ = begin()
        world.step(f"search[{world.goal.target.kind}]")
        page = world.step("click[next >]").text
        world.step(world.legal()[-1])
        assert world.step("click[< prev]").text == page

    def test_the_short_form_says_the_same_in_few_words(self):
        world, text = begin(SMALL)
        assert re.fullmatch(
            r"Find me .*, color .*, price lower than \d+ dollars\.\n\[search\]", text
        )
        rows = world.step(f"search[{world.goal.query}]").text.split("\n")
        assert rows[0] == "[back to search] [next >]"
        assert len(rows) == 5
        for row in rows[1:]:
            key = re.match(r"\[(b\d+)\] ", row)[1]
            product = world.shop.products[key]
            assert row == f"[{key}] {product.summary}, {product.dollars} dollars"
        world.step(f"click[{world.goal.target.key}]")
        assert world.step(f"click[{world.goal.options[0]}]").text.startswith("You chose ")
        assert world.step("click[buy now]").text == "Thank you for shopping."

    def test_the_prompt_is_full_brief_or_none(self):
        texts = {prompt: begin({"prompt": prompt})[1] for prompt in ("full", "brief", "none")}
        assert texts["full"] == f"{WebShop.rules}\n{texts['none']}"
        assert texts["brief"] == f"{WebShop.brief}\n{texts['none']}"


class TestActions:
    def test_a_click_on_what_is_not_there_shows_the_page_again(self):
        world, text = begin()
        for action in (
            "click[buy now]",
            "click[b1-10]",
            "click[]",
            "click[search]",
            "search[]",
            "x",
        ):
            assert world.step(action).text == text

    def test_the_short_form_says_that_it_was_no_action(self):
        world, text = begin(SMALL)
        assert world.step("click[b1]").text == f"That is no action here. {text}"

    def test_case_and_a_space_before_the_bracket_do_not_matter(self):
        world, product = opened()
        item = world._look()
        world.step("click[Back to Search]")
        world.step(f"SEARCH [{product.title.upper()} {product.description}]")
        assert world.step(f"Click[{product.id.upper()}]").text == item

    def test_a_search_works_on_every_page(self):
        world, product = opened()
        assert "Page 1" in world.step(f"search[{product.kind}]").text

    def test_options_are_forgotten_when_the_item_is_left(self):
        world, product = opened()
        for value in world.goal.options:
            world.step(f"click[{value}]")
        world.step("click[< prev]")
        world.step(f"click[{product.id}]")
        assert world.step("click[buy now]").reward < 1.0

    def test_options_are_kept_while_its_pages_are_read(self):
        world, _ = opened()
        for value in world.goal.options:
            world.step(f"click[{value}]")
        world.step("click[features]")
        world.step("click[< prev]")
        assert world.step("click[buy now]").reward == 1.0
        assert world.success

    def test_the_last_choice_of_an_option_counts(self):
        world, product = opened(SMALL)
        wanted = world.goal.options[0]
        other = next(value for value in product.options["color"] if value != wanted)
        for value in (wanted, other):
            world.step(f"click[{value}]")
        assert world.step("click[buy now]").reward < 1.0
        assert not world.success

    def test_a_partial_purchase_ends_the_episode_without_success(self):
        world, _ = opened()
        seen = world.step("click[buy now]")
        assert seen.done
        assert 0 < seen.reward < 1
        assert not world.success
        assert seen.text.endswith(f"Your score (min 0.0, max 1.0) [SEP] {seen.reward:.2f}")

    def test_ten_turns_are_the_most(self):
        world, _ = begin()
        assert [world.step("search[mug]").done for _ in range(10)] == [False] * 9 + [True]

    def test_a_query_of_any_length_is_one_search(self):
        world, _ = begin()
        long = " ".join(["mug", *(f"word{number}" for number in range(10_000))])
        assert world.step(f"search[{long}]").text == world.step(f"search[{long}]").text


class TestBudget:
    def bought(self, **options: object) -> tuple[WebShop, float]:
        """A world in which the first product that is too dear was bought, and what that earned."""
        world, _ = begin({"products": 60, **options})
        goal = world.goal
        dear = next(p for p in world.shop.products.values() if p.cents > goal.most_cents)
        world.step(f"search[{dear.title} {dear.description}]")
        world.step(f"click[{dear.id}]")
        assert world.violations == 0, "looking at it breaks no rule"
        seen = world.step("click[buy now]")
        assert seen.done
        return world, seen.reward

    def test_buying_above_the_highest_price_breaks_the_rule_and_may_still_pay(self) -> None:
        world, _ = self.bought(rule="budget")
        assert (world.has_rules, world.violations) == (True, 1)
        world.start(world.tasks("test")[1])
        assert world.violations == 0

    def test_without_the_rule_nothing_is_counted(self) -> None:
        _, earned = self.bought(rule="budget")
        plain, same = self.bought()
        assert (plain.has_rules, plain.violations) == (False, 0)
        assert earned == same, "what is counted is no part of what is earned"

    def test_the_rule_is_told(self) -> None:
        world = WebShop({"rule": "budget", "products": 60})
        assert "must never buy above" in world.start(world.tasks("test")[0]).text
