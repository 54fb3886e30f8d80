"""WebShop as text: search a catalogue, open products, choose options, buy the right one."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import cast

from hansa_worlds.base import Move, Observation, Split, Task, World, rng
from hansa_worlds.webshop import players
from hansa_worlds.webshop.catalogue import CatalogueSize, grow
from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.loader import Files, stock
from hansa_worlds.webshop.pages import BACK, BUY, FEATURES, NEXT, PAGES, PREVIOUS
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.reward import reward
from hansa_worlds.webshop.shop import Shop, task

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

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self._seed = str(read.integer("catalogue", 0, 0, 10**9))
        self._shape = CatalogueSize(
            products=read.integer("products", 1_200, 24, 100_000),
            attributes=read.integer("attributes", 4, 1, 6),
            choices=read.integer("choices", 3, 0, 3),
        )
        self._per_page = read.integer("results", 10, 1, 50)
        self.has_rules = read.choice("rule", "none", ("none", "budget")) == "budget"
        self._pages = PAGES[read.choice("text", "full", sorted(PAGES))]
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
        self._home = stock(files, most) if self._from_files else self._grown(self._seed)
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
        shop = self._grown(f"fresh-{draw.randrange(shops)}")
        key = draw.choice(list(shop.products))
        return task(shop, "train", key, draw.randrange(len(shop.goals(key))))

    def snapshot(self) -> object:
        """The episode as it stands: every part is replaced when it changes, none is changed."""
        return dict(vars(self))

    def restore(self, snapshot: object) -> None:
        """Go on from a snapshot of this world."""
        vars(self).clear()
        vars(self).update(cast("dict[str, object]", snapshot))

    def _grown(self, name: str) -> Shop:
        return grow(name, self._shape)

    def _enter(self, shop: Shop) -> None:
        self._shop = shop
        self._found: tuple[str, ...] | None = None
        self._page = 0
        self._open: Product | None = None
        self._detail = ""
        self._read_features = ""
        self._chosen: dict[str, str] = {}

    def group(self, task: Task) -> str:
        """How much the wish names, and whether its price leaves dearer products out."""
        goal = self._wish(task)[1]
        named = len(goal.attributes) + len(goal.options)
        count = str(named) if named < _MANY else f"{_MANY} or more"
        is_tight = goal.most_cents - goal.target.cents <= _TIGHT_CENTS
        return f"named {count}, {'tight' if is_tight else 'loose'} price"

    def _begin(self, task: Task) -> str:
        self._visited: frozenset[str] = frozenset()
        shop, self._goal = self._wish(task)
        self._enter(shop)
        return self._look()

    def _wish(self, task: Task) -> tuple[Shop, ShoppingGoal]:
        place, key, number = task.payload
        shop = self._home if place == self._home.name else self._grown(place)
        return shop, shop.goals(key)[int(number)]

    def _look(self) -> str:
        if self._open:
            if self._detail:
                return self._pages.detail(self._goal, self._open, self._detail)
            return self._pages.item(self._goal, self._open)
        if self._found is None:
            return self._pages.search(self._goal)
        listed = [self._shop.products[key] for key in self._listed()]
        total = len(self._found)
        return self._pages.results(self._goal, listed, self._page, total, self._has_more())

    def _listed(self) -> tuple[str, ...]:
        first = self._page * self._per_page
        return (self._found or ())[first : first + self._per_page]

    def _has_more(self) -> bool:
        return len(self._found or ()) > (self._page + 1) * self._per_page

    def _act(self, action: str) -> Observation:
        action = action.lower()
        if (match := _SEARCH.fullmatch(action)) and match[1].strip():
            self._enter(self._shop)
            self._found = self._shop.find(match[1])
        elif match := _CLICK.fullmatch(action):
            return self._click(match[1].strip())
        else:
            return Observation(self._pages.refused(self._look()))
        return Observation(self._look())

    def _click(self, button: str) -> Observation:
        if button not in self._buttons():
            return Observation(self._pages.refused(self._look()))
        if button == BACK:
            self._enter(self._shop)
        elif self._open:
            return self._click_on_item(self._open, button)
        elif button == NEXT:
            self._page += 1
        elif button == PREVIOUS:
            self._page -= 1
        else:
            self._open, self._chosen = self._shop.products[button], {}
            self._visited |= {button}
        return Observation(self._look())

    def _click_on_item(self, product: Product, button: str) -> Observation:
        if button == PREVIOUS:
            self._open, self._detail = product if self._detail else None, ""
        elif button == BUY:
            earned = reward(product, self._chosen.values(), self._goal)
            self._violations += self.has_rules and product.cents > self._goal.most_cents
            return Observation(self._pages.bought(earned), earned, True)
        elif button in self._pages.details:
            self._detail = button
            self._read_features = product.key if button == FEATURES else self._read_features
        else:
            offering = [name for name, values in product.options.items() if button in values]
            self._chosen = {**self._chosen, **dict.fromkeys(offering, button)}
            return Observation(self._pages.chosen(self._goal, product, button))
        return Observation(self._look())

    def _buttons(self) -> list[str]:
        """What can be clicked on this page, in lower case and each once."""
        if self._open and self._detail:
            return [BACK, PREVIOUS]
        if self._open:
            values = [one for many in self._open.options.values() for one in many]
            return list(dict.fromkeys([BACK, PREVIOUS, *values, *self._pages.details, BUY]))
        if self._found is None:
            return []
        turns = [PREVIOUS] * (self._page > 0) + [NEXT] * self._has_more()
        return [BACK, *turns, *self._listed()]

    def _is_success(self, last: Observation) -> bool:
        return last.reward == 1.0

    def legal(self) -> list[str]:
        """Every button; on the search page the wish, its kind alone, or one of two other kinds."""
        if self._found is None:
            return [f"search[{query}]" for query in self._queries()]
        return [f"click[{button}]" for button in self._buttons()]

    def _queries(self) -> list[str]:
        goal, kinds = self._goal, self._shop.kinds
        first = rng("webshop", "others", goal.instruction).randrange(len(kinds))
        others = [kinds[(first + step) % len(kinds)] for step in range(3)]
        words = [players.plain(text) for text in (goal.query, goal.target.kind, *others)]
        return [word for word in dict.fromkeys(words) if word][:4] or ["anything"]

    def actions(self) -> list[str]:
        """The buttons of this page and of others, and searches for any kind of thing."""
        kinds = (f"search[{players.plain(kind)}]" for kind in self._shop.kinds)
        buttons = (BACK, PREVIOUS, NEXT, *self._pages.details, BUY)
        clicks = (f"click[{button}]" for button in buttons)
        return list(dict.fromkeys([*self.legal(), *clicks, *kinds]))

    def expert(self) -> Move:
        """Search with the instruction's words, open a product that meets them all, buy it."""
        return players.move(self._view())

    def greedy(self, draw: random.Random) -> str:
        """Search with the instruction, open the first result, choose what it names, buy."""
        return players.greedy(self._view())

    def _view(self) -> players.BuyerState:
        return players.BuyerState(
            shop=self._shop,
            goal=self._goal,
            found=self._found,
            page=self._page,
            per_page=self._per_page,
            product=self._open,
            detail=self._detail,
            has_read=self._open is not None and self._read_features == self._open.key,
            has_details=bool(self._pages.details),
            chosen=tuple(self._chosen.values()),
            visited=self._visited,
            turns_left=self.max_turns - self._turns,
        )
