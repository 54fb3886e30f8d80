"""The players of webshop: an expert that knows the catalogue, and a greedy one."""

from functools import lru_cache
from typing import TYPE_CHECKING

from hansa_worlds.base import Move
from hansa_worlds.webshop import reward
from hansa_worlds.webshop.goals import ANY_PRICE, ShoppingGoal
from hansa_worlds.webshop.pages import BACK, BUY, FEATURES, NEXT, PREVIOUS
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.search import list_stems, split_words
from hansa_worlds.webshop.shop import Shop

if TYPE_CHECKING:
    from hansa_worlds.webshop.world import WebShop

_LONGEST_QUERY = 300


@lru_cache(maxsize=4_096)
def _find_aims(shop: Shop, goal: ShoppingGoal, found: tuple[str, ...]) -> list[int]:
    """Ranks of the found products that are worth buying."""
    products = (shop.products[key] for key in found)
    return [rank for rank, product in enumerate(products) if _would_do(product, goal)]


def _would_do(product: Product, goal: ShoppingGoal) -> bool:
    """Whether a product is worth buying; the one that the wish was written for always is."""
    return product is goal.target or reward.could_meet(product, goal)


def to_query(text: str) -> str:
    """Text as a query: words only, so that no bracket ends the action early."""
    return " ".join(split_words(text))[:_LONGEST_QUERY].strip()


def choose_move(view: "WebShop") -> Move:
    """The expert's next move; it knows the whole catalogue, its thoughts only what pages show."""
    if view.product:
        return _move_on_item(view, view.product)
    return _move_on_search(view) if view.found is None else _move_on_results(view, view.found)


def _move_on_search(view: "WebShop") -> Move:
    goal = view.goal
    queries = (
        goal.query,
        f"{goal.query} {' '.join(goal.options)}",
        goal.target.kind,
        goal.target.title,
        f"{goal.target.title} {goal.target.description}",
    )
    # Most often the wish's own words find it at once: then the others are not looked up.
    plainly = [to_query(query) for query in queries]
    best = next((one for one in plainly if _rank_query(view, one) == 0), "")
    best = best or min(plainly, key=lambda query: _rank_query(view, query))
    return Move(f"I look for {best}.", f"search[{best}]")


def _rank_query(view: "WebShop", query: str) -> int:
    """The page on which a query's first fitting product stands; far away when there is none."""
    aims = _find_aims(view.shop, view.goal, view.shop.find(query))
    return aims[0] // view.per_page if aims else len(view.shop.products)


def _move_on_results(view: "WebShop", found: tuple[str, ...]) -> Move:
    aims = _find_aims(view.shop, view.goal, found)
    if not aims:
        return Move("Nothing here fits, so I search again.", f"click[{BACK}]")
    nearest = min(aims, key=lambda rank: abs(rank // view.per_page - view.page))
    away = nearest // view.per_page - view.page
    product = _find_detour(view, found, aims, abs(away)) or view.shop.products[found[nearest]]
    if product.key in view.list_page():
        return Move(_praise(view, product), f"click[{product.key}]")
    if away > 0:
        return Move("Nothing on this page fits, so I look further.", f"click[{NEXT}]")
    return Move("Nothing on this page fits, so I look back.", f"click[{PREVIOUS}]")


def _find_detour(
    view: "WebShop", found: tuple[str, ...], aims: list[int], away: int
) -> Product | None:
    """A product that looks right but is not, when there are turns enough to find that out.

    An expert that never opened a wrong one would teach to guess what no page shows.
    """
    spare = view.turns_left - away - 2 - len(view.goal.options)
    for rank, key in enumerate(found):
        product = view.shop.products[key]
        if rank in aims or key not in view.list_page() or key in view.visited:
            continue
        if aims[0] // view.per_page == view.page and rank > aims[0]:
            return None
        if _looks_right(view, product) and _estimate_cost(view, product) <= spare:
            return product
    return None


def _looks_right(view: "WebShop", product: Product) -> bool:
    """Whether what the results page shows of a product speaks for it."""
    goal = view.goal
    if product.cents > goal.most_cents or reward.score_type(product, goal.target) < 1.0:
        return False
    if not view.pages.details:
        return all(reward.has_attribute(product, wanted) for wanted in goal.attributes)
    title = list_stems(product.title)
    return any(list_stems(wanted) <= title for wanted in goal.attributes)


def _estimate_cost(view: "WebShop", product: Product) -> int:
    """Turns to find out that a product does not fit: its page shows it, or the page below."""
    return 2 if _find_lacking(view, product) or not view.pages.details else 4


def _find_lacking(view: "WebShop", product: Product) -> str:
    """A wanted option value that the product lacks, or ""."""
    return next((one for one in view.goal.options if not reward.find_matching(product, one)), "")


def _praise(view: "WebShop", product: Product) -> str:
    if not view.pages.details:
        return f"{product.key} may fit."
    bound = "" if view.goal.most_cents >= ANY_PRICE else ", which is not too dear"
    return f"{product.key} may fit and costs {product.price}{bound}, so I open it."


def _move_on_item(view: "WebShop", product: Product) -> Move:
    unsaid = _find_unsaid(view, product)
    if view.detail:
        verdict = "is" if reward.has_attribute(product, unsaid) else "is not"
        thought = f"It {verdict} {unsaid}, so I go back." if unsaid else "I go back to the product."
        return Move(thought, f"click[{PREVIOUS}]")
    chosen = view.chosen.values()
    missing = [
        wanted
        for wanted in view.goal.options
        if not any(reward.is_same_option(one, wanted) for one in chosen)
    ]
    values = [value for one in missing if (value := reward.find_matching(product, one))]
    would_do = _would_do(product, view.goal)
    turns = len(values) + 3 if would_do else len(view.goal.options) + 5
    # Reading costs two turns, and it teaches to check what the title leaves open.
    is_open = bool(unsaid) and not view.has_read and not view.chosen
    is_likely = would_do or (not _find_lacking(view, product) and _looks_right(view, product))
    if is_open and view.turns_left >= turns and is_likely:
        return Move(f"The title does not say {unsaid}, so I read on.", f"click[{FEATURES}]")
    if not would_do:
        return _leave(view, product)
    if values:
        return Move(f"It must be {values[0]}.", f"click[{values[0]}]")
    return Move("Everything is as asked for, so I buy it.", f"click[{BUY}]")


def _leave(view: "WebShop", product: Product) -> Move:
    lacking = _find_lacking(view, product)
    why = f"It does not come in {lacking}" if lacking else "This does not fit"
    elsewhere = bool(_find_aims(view.shop, view.goal, view.found or ()))
    return Move(f"{why}, so I go back.", f"click[{PREVIOUS if elsewhere else BACK}]")


def _find_unsaid(view: "WebShop", product: Product) -> str:
    """An attribute that is asked for and not in the title; the one that fails before others."""
    if not view.pages.details:
        return ""
    said = list_stems(product.title)
    open_ = [one for one in view.goal.attributes if not list_stems(one) <= said]
    return min(open_, key=lambda one: reward.has_attribute(product, one), default="")


def choose_greedily(view: "WebShop") -> str:
    """The greedy buyer's next action: the first result, with the options that were named."""
    if view.product:
        return f"click[{PREVIOUS if view.detail else _choose_button(view, view.product)}]"
    if view.found is None:
        return f"search[{to_query(view.goal.instruction)}]"
    listed = view.found[view.page * view.per_page :]
    return f"click[{listed[0] if listed else BACK}]"


def _choose_button(view: "WebShop", product: Product) -> str:
    asked = list_stems(view.goal.instruction)
    for values in product.options.values():
        named = [value for value in values if list_stems(value) and list_stems(value) <= asked]
        if named and not any(
            reward.are_alike(one, value) for one in view.chosen.values() for value in named
        ):
            return named[0]
    return BUY
