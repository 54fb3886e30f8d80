"""Who shops: an expert that knows the catalogue, and a greedy one that takes the first result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hansa_worlds.base import Move
from hansa_worlds.webshop.goals import ANY_PRICE, ShoppingGoal
from hansa_worlds.webshop.pages import BACK, BUY, FEATURES, NEXT, PREVIOUS
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.reward import (
    alike,
    could_meet,
    has_attribute,
    matching,
    same_option,
    type_score,
)
from hansa_worlds.webshop.search import stems, words
from hansa_worlds.webshop.shop import Shop

_LONGEST_QUERY = 300


@dataclass(frozen=True, kw_only=True)
class BuyerState:
    """Where a buyer stands."""

    shop: Shop
    goal: ShoppingGoal
    found: tuple[str, ...] | None
    """Keys of what the last search found; None on the search page."""
    page: int
    per_page: int
    product: Product | None
    """The product whose page, or a page below it, is open."""
    detail: str
    has_read: bool
    """Whether the open product's features were read."""
    has_details: bool
    """Whether products have pages below their own; if not, their line says everything."""
    chosen: tuple[str, ...]
    visited: frozenset[str]
    """Keys of the products that were opened in this episode."""
    turns_left: int

    def listed(self, found: tuple[str, ...]) -> tuple[str, ...]:
        """What the page at hand shows of what was found."""
        return found[self.page * self.per_page : (self.page + 1) * self.per_page]

    def aims(self, found: tuple[str, ...]) -> list[int]:
        """Ranks of the products that would do; the one that the wish was written for always."""
        return _aims(self.shop, self.goal, found)

    def would_do(self, product: Product) -> bool:
        """Whether the product is worth buying."""
        return product is self.goal.target or could_meet(product, self.goal)


@lru_cache(maxsize=4_096)
def _aims(shop: Shop, goal: ShoppingGoal, found: tuple[str, ...]) -> list[int]:
    products = (shop.products[key] for key in found)
    return [
        rank
        for rank, product in enumerate(products)
        if product is goal.target or could_meet(product, goal)
    ]


def plain(text: str) -> str:
    """Text as a query: words only, so that nothing in it can end the action early."""
    return " ".join(words(text))[:_LONGEST_QUERY].strip()


def move(view: BuyerState) -> Move:
    """The expert's next move; it knows what products hide, and says only what pages show."""
    if view.product:
        return _on_item(view, view.product)
    return _on_search(view) if view.found is None else _on_results(view, view.found)


def _on_search(view: BuyerState) -> Move:
    goal = view.goal
    queries = (
        goal.query,
        f"{goal.query} {' '.join(goal.options)}",
        goal.target.kind,
        goal.target.title,
        f"{goal.target.title} {goal.target.description}",
    )
    # Most often the wish's own words find it at once: then the others are not looked up.
    plainly = [plain(query) for query in queries]
    best = next((one for one in plainly if _rank(view, one) == 0), "")
    best = best or min(plainly, key=lambda query: _rank(view, query))
    return Move(f"I look for {best}.", f"search[{best}]")


def _rank(view: BuyerState, query: str) -> int:
    """The page on which a query's first fitting product stands; far away when there is none."""
    aims = view.aims(view.shop.find(query))
    return aims[0] // view.per_page if aims else len(view.shop.products)


def _on_results(view: BuyerState, found: tuple[str, ...]) -> Move:
    aims = view.aims(found)
    if not aims:
        return Move("Nothing here fits, so I search again.", f"click[{BACK}]")
    nearest = min(aims, key=lambda rank: abs(rank // view.per_page - view.page))
    away = nearest // view.per_page - view.page
    product = _detour(view, found, aims, abs(away)) or view.shop.products[found[nearest]]
    if product.key in view.listed(found):
        return Move(_praise(view, product), f"click[{product.key}]")
    if away > 0:
        return Move("Nothing on this page fits, so I look further.", f"click[{NEXT}]")
    return Move("Nothing on this page fits, so I look back.", f"click[{PREVIOUS}]")


def _detour(view: BuyerState, found: tuple[str, ...], aims: list[int], away: int) -> Product | None:
    """A product that looks right but is not, when there are turns enough to find that out.

    An expert that never opened a wrong one would teach to guess what no page shows.
    """
    spare = view.turns_left - away - 2 - len(view.goal.options)
    for rank, key in enumerate(found):
        product = view.shop.products[key]
        if rank in aims or key not in view.listed(found) or key in view.visited:
            continue
        if aims[0] // view.per_page == view.page and rank > aims[0]:
            return None
        if _looks_right(view, product) and _cost(view, product) <= spare:
            return product
    return None


def _looks_right(view: BuyerState, product: Product) -> bool:
    """Whether what the results page shows of a product speaks for it."""
    goal = view.goal
    if product.cents > goal.most_cents or type_score(product, goal.target) < 1.0:
        return False
    if not view.has_details:
        return all(has_attribute(product, wanted) for wanted in goal.attributes)
    title = stems(product.title)
    return any(stems(wanted) <= title for wanted in goal.attributes)


def _cost(view: BuyerState, product: Product) -> int:
    """Turns to find out that a product will not do: its own page tells, or the one below."""
    return 2 if _lacking(view, product) or not view.has_details else 4


def _lacking(view: BuyerState, product: Product) -> str:
    """An option's value that is asked for and not offered."""
    return next((one for one in view.goal.options if not matching(product, one)), "")


def _praise(view: BuyerState, product: Product) -> str:
    if not view.has_details:
        return f"{product.key} may fit."
    bound = "" if view.goal.most_cents >= ANY_PRICE else ", which is not too dear"
    return f"{product.key} may fit and costs {product.price}{bound}, so I open it."


def _on_item(view: BuyerState, product: Product) -> Move:
    unsaid = _unsaid(view, product)
    if view.detail:
        verdict = "is" if has_attribute(product, unsaid) else "is not"
        thought = f"It {verdict} {unsaid}, so I go back." if unsaid else "I go back to the product."
        return Move(thought, f"click[{PREVIOUS}]")
    missing = [one for one in view.goal.options if not _is_chosen(view, one)]
    values = [value for one in missing if (value := matching(product, one))]
    would_do = view.would_do(product)
    turns = len(values) + 3 if would_do else len(view.goal.options) + 5
    # Reading costs two turns, and it teaches to check what the title leaves open.
    is_open = bool(unsaid) and not view.has_read and not view.chosen
    if is_open and view.turns_left >= turns and (would_do or _is_undecided(view, product)):
        return Move(f"The title does not say {unsaid}, so I read on.", f"click[{FEATURES}]")
    if not would_do:
        return _leave(view, product)
    if values:
        return Move(f"It must be {values[0]}.", f"click[{values[0]}]")
    return Move("Everything is as asked for, so I buy it.", f"click[{BUY}]")


def _is_undecided(view: BuyerState, product: Product) -> bool:
    return not _lacking(view, product) and _looks_right(view, product)


def _leave(view: BuyerState, product: Product) -> Move:
    lacking = _lacking(view, product)
    why = f"It does not come in {lacking}" if lacking else "This does not fit"
    elsewhere = bool(view.aims(view.found or ()))
    return Move(f"{why}, so I go back.", f"click[{PREVIOUS if elsewhere else BACK}]")


def _is_chosen(view: BuyerState, wanted: str) -> bool:
    return any(same_option(one, wanted) for one in view.chosen)


def _unsaid(view: BuyerState, product: Product) -> str:
    """An attribute that is asked for and not in the title; the one that fails before others."""
    if not view.has_details:
        return ""
    said = stems(product.title)
    open_ = [one for one in view.goal.attributes if not stems(one) <= said]
    return min(open_, key=lambda one: has_attribute(product, one), default="")


def greedy(view: BuyerState) -> str:
    """The greedy buyer's next action: the first result, with the options that were named."""
    if view.product:
        return f"click[{PREVIOUS if view.detail else _choice(view, view.product)}]"
    if view.found is None:
        return f"search[{plain(view.goal.instruction)}]"
    listed = view.found[view.page * view.per_page :]
    return f"click[{listed[0] if listed else BACK}]"


def _choice(view: BuyerState, product: Product) -> str:
    asked = stems(view.goal.instruction)
    for values in product.options.values():
        named = [value for value in values if stems(value) and stems(value) <= asked]
        if named and not any(alike(one, value) for one in view.chosen for value in named):
            return named[0]
    return BUY
