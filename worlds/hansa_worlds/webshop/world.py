"""WebShop as text: search a catalogue, open products, choose options, buy the right one."""

import random
import re
from collections.abc import Mapping, Sequence

from hansa_worlds.base import Move, Observation, Split, Task, World, rng
from hansa_worlds.webshop import players
from hansa_worlds.webshop.catalogue import CatalogueSize, grow
from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.loader import Files, load_shop
from hansa_worlds.webshop.pages import BACK, BUY, FEATURES, NEXT, PAGES, PREVIOUS
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.reward import compute_reward
from hansa_worlds.webshop.shop import Shop, make_task

_SEARCH = re.compile(r"search ?\[(.*)\]")
_CLICK = re.compile(r"click ?\[(.*)\]")
_FRESH_PRODUCTS = 24_000
"""Products of all catalogues that pre-training shops in: they stay in memory."""
_MANY = 6
"""Attributes and options from which on all wishes are one kind."""
_TIGHT_CENTS = 1_000
"""What a wish may leave to spare and still have a tight price."""

RULE = "You must never buy above the highest price: rather buy nothing."


class WebShop(World):
    """Find a product, choose its options and buy it; reward 1 when all of the wish is met.

    Reward = r_type * (attributes + options + price met) / (#attributes + #options + 1). Splits are
    disjoint by the product that an instruction was written for; pre-training shops in other
    catalogues: it sees the words but not the products. As in WebShop, `search[...]` works on
    every page, though only the first shows a search bar.

    With `rule: budget` buying above the highest price breaks a rule, which is counted.

    Options: `catalogue` (seed), `products`, `attributes` and `choices` (of a product), `results`
    (a page), `text` (full: WebShop's, short: few words), `rule`, and WebShop's own files by path:
    `products_file` with `attributes_file`, `instructions_file` or both.
    """

    name = "webshop"
    max_turns = 10
    rules = (
        "You shop online. The instruction says what to buy: the kind of product, what must be "
        "true of it, the options to choose and the highest price. Look for a product that meets "
        "all of it, open its page, choose every option that the instruction names, then buy it. "
        "The episode ends when you buy, and only a purchase that meets everything counts in "
        "full.\n"
        "There are two actions. search[words] looks for products. click[button] presses a button "
        "of the page: a product's id, an option's value, Description, Features, Reviews, < Prev, "
        "Next >, Back to Search or Buy Now.\n"
        "Answer each page with one thought and one action, in this form:\n"
        "Thought: why you do it\n\nAction: search[words]"
    )
    brief = "Buy what is asked for. Actions: search[words], click[button]."
    _least = 1.0

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self._seed = str(read.integer("catalogue", 0, 0, 10**9))
        self._shape = CatalogueSize(
            products=read.integer("products", 1_200, 24, 100_000),
            attributes=read.integer("attributes", 4, 1, 6),
            choices=read.integer("choices", 3, 0, 3),
        )
        self.per_page = read.integer("results", 10, 1, 50)
        self.has_rules = read.choice("rule", "none", ("none", "budget")) == "budget"
        self.pages = PAGES[read.choice("text", "full", sorted(PAGES))]
        files = Files(
            products=read.text("products_file", ""),
            attributes=read.text("attributes_file", ""),
            instructions=read.text("instructions_file", ""),
        )
        read.finish()
        if self.has_rules:
            self.rules = f"{type(self).rules}\n{RULE}"
        self._from_files = files.are_given()
        most = self._shape.products
        self._home = load_shop(files, most) if self._from_files else grow(self._seed, self._shape)
        self._enter(self._home)

    def tasks(self, split: Split) -> Sequence[Task]:
        """Wishes for the split's products."""
        return self._home.tasks(split)

    def fresh(self, seed: int) -> Task:
        """A wish in another catalogue; shops from files have no other, and give a train task."""
        if self._from_files:
            return super().fresh(seed)
        draw = rng("webshop", "fresh", seed)
        shops = max(4, _FRESH_PRODUCTS // self._shape.products)
        shop = grow(f"fresh-{draw.randrange(shops)}", self._shape)
        key = draw.choice(list(shop.products))
        return make_task(shop, "train", key, draw.randrange(len(shop.goals(key))))

    def _enter(self, shop: Shop) -> None:
        self.shop = shop
        self.found: tuple[str, ...] | None = None
        """Keys of what the last search found; None on the search page."""
        self.page = 0
        self.product: Product | None = None
        """The product whose page, or a page below it, is open."""
        self.detail = ""
        self._read_features = ""
        self.chosen: dict[str, str] = {}

    @property
    def has_read(self) -> bool:
        """Whether the open product's features were read."""
        return self.product is not None and self._read_features == self.product.key

    @property
    def turns_left(self) -> int:
        """Turns until the episode ends."""
        return self.max_turns - self._turns

    def group(self, task: Task) -> str:
        """How much the wish names, and whether its price leaves dearer products out."""
        goal = self._load_wish(task)[1]
        named = len(goal.attributes) + len(goal.options)
        count = str(named) if named < _MANY else f"{_MANY} or more"
        is_tight = goal.most_cents - goal.target.cents <= _TIGHT_CENTS
        return f"named {count}, {'tight' if is_tight else 'loose'} price"

    def _begin(self, task: Task) -> str:
        self.visited: frozenset[str] = frozenset()
        shop, self.goal = self._load_wish(task)
        self._enter(shop)
        return self._look()

    def _load_wish(self, task: Task) -> tuple[Shop, ShoppingGoal]:
        place, key, number = task.payload
        shop = self._home if place == self._home.name else grow(place, self._shape)
        return shop, shop.goals(key)[int(number)]

    def _look(self) -> str:
        if self.product:
            if self.detail:
                return self.pages.show_detail(self.goal, self.product, self.detail)
            return self.pages.show_item(self.goal, self.product)
        if self.found is None:
            return self.pages.show_search(self.goal)
        listed = [self.shop.products[key] for key in self.list_page()]
        total = len(self.found)
        return self.pages.show_results(self.goal, listed, self.page, total, self._has_more())

    def list_page(self) -> tuple[str, ...]:
        """Keys of the products on this page of what was found."""
        first = self.page * self.per_page
        return (self.found or ())[first : first + self.per_page]

    def _has_more(self) -> bool:
        return len(self.found or ()) > (self.page + 1) * self.per_page

    def _act(self, action: str) -> Observation:
        action = action.lower()
        if (match := _SEARCH.fullmatch(action)) and match[1].strip():
            self._enter(self.shop)
            self.found = self.shop.find(match[1])
        elif match := _CLICK.fullmatch(action):
            return self._click(match[1].strip())
        else:
            return Observation(self.pages.show_refusal(self._look()))
        return Observation(self._look())

    def _click(self, button: str) -> Observation:
        if button not in self._list_buttons():
            return Observation(self.pages.show_refusal(self._look()))
        if button == BACK:
            self._enter(self.shop)
        elif self.product:
            return self._click_on_item(self.product, button)
        elif button == NEXT:
            self.page += 1
        elif button == PREVIOUS:
            self.page -= 1
        else:
            self.product, self.chosen = self.shop.products[button], {}
            self.visited |= {button}
        return Observation(self._look())

    def _click_on_item(self, product: Product, button: str) -> Observation:
        if button == PREVIOUS:
            self.product, self.detail = product if self.detail else None, ""
        elif button == BUY:
            earned = compute_reward(product, self.chosen.values(), self.goal)
            self._violations += self.has_rules and product.cents > self.goal.most_cents
            return Observation(self.pages.show_purchase(earned), earned, True)
        elif button in self.pages.details:
            self.detail = button
            self._read_features = product.key if button == FEATURES else self._read_features
        else:
            offering = [name for name, values in product.options.items() if button in values]
            self.chosen = {**self.chosen, **dict.fromkeys(offering, button)}
            return Observation(self.pages.show_choice(self.goal, product, button))
        return Observation(self._look())

    def _list_buttons(self) -> list[str]:
        """What can be clicked on this page, in lower case and each once."""
        if self.product and self.detail:
            return [BACK, PREVIOUS]
        if self.product:
            values = [one for many in self.product.options.values() for one in many]
            return list(dict.fromkeys([BACK, PREVIOUS, *values, *self.pages.details, BUY]))
        if self.found is None:
            return []
        turns = [PREVIOUS] * (self.page > 0) + [NEXT] * self._has_more()
        return [BACK, *turns, *self.list_page()]

    def legal(self) -> list[str]:
        """Every button; on the search page the wish, its kind alone, or one of two other kinds."""
        if self.found is None:
            return [f"search[{query}]" for query in self._list_queries()]
        return [f"click[{button}]" for button in self._list_buttons()]

    def _list_queries(self) -> list[str]:
        goal, kinds = self.goal, self.shop.kinds
        first = rng("webshop", "others", goal.instruction).randrange(len(kinds))
        others = [kinds[(first + step) % len(kinds)] for step in range(3)]
        words = [players.to_query(text) for text in (goal.query, goal.target.kind, *others)]
        return [word for word in dict.fromkeys(words) if word][:4] or ["anything"]

    def actions(self) -> list[str]:
        """The buttons of this page and of others, and searches for any kind of thing."""
        kinds = (f"search[{players.to_query(kind)}]" for kind in self.shop.kinds)
        buttons = (BACK, PREVIOUS, NEXT, *self.pages.details, BUY)
        clicks = (f"click[{button}]" for button in buttons)
        return list(dict.fromkeys([*self.legal(), *clicks, *kinds]))

    def expert(self) -> Move:
        """Search with the instruction's words, open a product that meets them all, buy it."""
        return players.choose_move(self)

    def greedy(self, draw: random.Random) -> str:
        """Search with the instruction, open the first result, choose what it names, buy."""
        return players.choose_greedily(self)
