"""WebShop, small: search a catalogue, open a product, choose its color, buy.

The catalogue is grown from a seed. Splits are disjoint by the product that the instruction was
written for; pre-training shops in other catalogues, so it sees the words but not the products.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hansa_client.worlds.base import Observation, Options, Split, Task, World, rng, share

KINDS = ("bag", "chair", "hat", "jacket", "lamp", "mug", "pillow", "rug", "shirt", "towel")
ATTRIBUTES = ("soft", "light", "large", "small", "vintage", "modern", "warm", "cheap", "strong")
COLORS = ("red", "green", "blue", "black", "white", "brown")
PER_KIND = 6
_BUDGETS = (0, 10, 20)
_FRESH_CATALOGUES = 400
_QUERY = re.compile(r"search ?\[(.*)\]")
_CLICK = re.compile(r"click ?\[(.*)\]")

BACK, NEXT, BUY = "back to search", "next >", "buy now"


@dataclass(frozen=True)
class Product:
    """One thing for sale; its colors are what the buyer chooses among."""

    id: str
    kind: str
    attributes: tuple[str, ...]
    colors: tuple[str, ...]
    price: int

    @property
    def title(self) -> str:
        """How the results page names it."""
        return f"{' '.join(self.attributes)} {self.kind}"


@lru_cache(maxsize=_FRESH_CATALOGUES + 8)
def catalogue(seed: str) -> dict[str, Product]:
    """Products by id; the ids are shuffled, so that they say nothing about the product."""
    draw = rng("webshop", "catalogue", seed)
    ids = [f"b{number}" for number in range(1, len(KINDS) * PER_KIND + 1)]
    draw.shuffle(ids)
    products = [
        Product(
            id=ids.pop(),
            kind=kind,
            attributes=tuple(draw.sample(ATTRIBUTES, 2)),
            colors=tuple(draw.sample(COLORS, 3)),
            price=draw.randrange(10, 90, 10),
        )
        for kind in KINDS
        for _ in range(PER_KIND)
    ]
    return {product.id: product for product in sorted(products, key=lambda one: int(one.id[1:]))}


@lru_cache(maxsize=4_096)
def find(seed: str, query: str) -> tuple[Product, ...]:
    """Every product, best match first: its kind counts double, ties go by id."""
    words = query.split()

    def misses(product: Product) -> int:
        hits = sum(word in product.attributes for word in words)
        return -hits - 2 * (product.kind in words)

    return tuple(sorted(catalogue(seed).values(), key=misses))


class WebShop(World):
    """Reward = r_type * (attributes + color + price met) / (#attributes + 2); success is 1.0."""

    name = "webshop"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = Options(options)
        self.seed = str(read.integer("catalogue", 0, 0, 10**9))
        self.shown = read.integer("results", 4, 1, 10)
        self.max_turns = read.integer("max_turns", 10, 1, 100)
        read.finish()
        self.options = dict(options)
        self._seed = self.seed
        self._kind = self._color = ""
        self._attributes: tuple[str, ...] = ()
        self._budget = 0
        self._others: tuple[str, ...] = ()
        self._results: tuple[Product, ...] = ()
        self._page = 0
        self._open: Product | None = None
        self._chosen = ""

    def tasks(self, split: Split) -> Sequence[Task]:
        """Wishes for the split's products, by attributes, color and budget."""
        return _tasks(self.seed, split)

    def fresh(self, seed: int) -> Task:
        """A wish in another catalogue."""
        draw = rng("webshop", "fresh", seed)
        place = f"fresh-{draw.randrange(_FRESH_CATALOGUES)}"
        product = draw.choice(list(catalogue(place).values()))
        wanted = draw.choice(_wishes(product))
        return _task(
            place, "train", product, wanted, draw.choice(product.colors), draw.choice(_BUDGETS)
        )

    def _begin(self, task: Task) -> str:
        self._seed, _, self._kind, wanted, self._color, budget = task.payload
        self._attributes = tuple(wanted.split())
        self._budget = int(budget)
        draw = rng("webshop", "others", task.id)
        self._others = tuple(draw.sample([kind for kind in KINDS if kind != self._kind], 2))
        self._results, self._page, self._open, self._chosen = (), 0, None, ""
        return (
            f"Find a {wanted} {self._kind} in {self._color}, "
            f"price lower than {self._budget} dollars.\n{self._look()}"
        )

    def _look(self) -> str:
        if self._open:
            colors = " ".join(f"[{color}]" for color in self._open.colors)
            return (
                f"[{BACK}] {self._open.title}, {self._open.price} dollars. color: {colors} [{BUY}]"
            )
        if self._results:
            rows = [f"[{one.id}] {one.title}, {one.price} dollars" for one in self._listed()]
            return "\n".join([f"[{BACK}] [{NEXT}]", *rows])
        return "[search]"

    def _listed(self) -> tuple[Product, ...]:
        first = self._page * self.shown
        return self._results[first : first + self.shown]

    def _act(self, action: str) -> Observation:
        action = action.lower()
        if (match := _QUERY.fullmatch(action)) and not self._results:
            self._results, self._page = find(self._seed, match[1].strip()[:100]), 0
        elif match := _CLICK.fullmatch(action):
            return self._click(match[1].strip())
        else:
            return Observation(f"That is no action here. {self._look()}")
        return Observation(self._look())

    def _click(self, button: str) -> Observation:
        if button == BACK and self._results:
            self._results, self._open, self._chosen = (), None, ""
        elif self._open:
            if button == BUY:
                return Observation("Thank you for shopping.", self._reward(self._open), True)
            if button not in self._open.colors:
                return Observation(f"That is no action here. {self._look()}")
            self._chosen = button
            return Observation(f"You chose {button}.")
        elif button == NEXT and self._results[(self._page + 1) * self.shown :]:
            self._page += 1
        elif any(button == product.id for product in self._listed()):
            self._open = catalogue(self._seed)[button]
        else:
            return Observation(f"That is no action here. {self._look()}")
        return Observation(self._look())

    def _reward(self, bought: Product) -> float:
        if bought.kind != self._kind:
            return 0.0
        met = sum(one in bought.attributes for one in self._attributes)
        met += (self._chosen == self._color) + (bought.price < self._budget)
        return met / (len(self._attributes) + 2)

    def _is_success(self, last: Observation) -> bool:
        return last.reward == 1.0

    def legal(self) -> list[str]:
        """Every button; on the search page the wish, its kind alone, or one of two other kinds."""
        if self._open:
            buttons = [BACK, *self._open.colors, BUY]
        elif self._results:
            buttons = [BACK, *(product.id for product in self._listed())]
            if self._results[(self._page + 1) * self.shown :]:
                buttons.append(NEXT)
        else:
            wanted = " ".join(self._attributes)
            queries = [f"{wanted} {self._kind}", self._kind, *self._others]
            return [f"search[{query}]" for query in queries]
        return [f"click[{button}]" for button in buttons]

    def expert(self) -> str:
        """Search with the instruction's words and take the first product that meets them all."""
        if self._open:
            if not self._fits(self._open):
                return f"click[{BACK}]"
            return f"click[{BUY if self._chosen == self._color else self._color}]"
        if self._results:
            for product in self._listed():
                if self._fits(product):
                    return f"click[{product.id}]"
            # A search of other words may list nothing that fits: start again; else look further.
            if self._results == find(self._seed, self._query()):
                return f"click[{NEXT}]"
            return f"click[{BACK}]"
        return f"search[{self._query()}]"

    def _query(self) -> str:
        return f"{' '.join(self._attributes)} {self._kind}"

    def _fits(self, product: Product) -> bool:
        return (
            product.kind == self._kind
            and self._color in product.colors
            and product.price < self._budget
            and all(one in product.attributes for one in self._attributes)
        )


def _wishes(product: Product) -> list[str]:
    one, other = product.attributes
    return [one, other, f"{one} {other}"]


def _task(place: str, split: Split, product: Product, wanted: str, color: str, more: int) -> Task:
    budget = str(product.price + 10 + more)
    words = (place, product.id, product.kind, wanted, color, budget)
    return Task("webshop-" + "-".join(words).replace(" ", "-"), split, words)


@lru_cache(maxsize=64)
def _tasks(place: str, split: Split) -> tuple[Task, ...]:
    products = catalogue(place)
    return tuple(
        _task(place, split, products[id], wanted, color, more)
        for id in share(sorted(products), split, "webshop", place)
        for wanted in _wishes(products[id])
        for color in products[id].colors
        for more in _BUDGETS
    )
