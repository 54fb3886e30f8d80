"""How the shop's pages read: WebShop's text, and a short form for small models."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.product import Product

BACK, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
DESCRIPTION, FEATURES, REVIEWS = "description", "features", "reviews"
BUTTONS = frozenset({BACK, PREVIOUS, NEXT, BUY, DESCRIPTION, FEATURES, REVIEWS})

LONGEST_PAGE = 4_000
"""Characters of a description, a list of features or reviews that are shown."""


class Pages:
    """WebShop's text mode: what a browser shows, joined by [SEP], the instruction on each page.

    As there, a refused action and a choice both show the page as it was.
    """

    details: ClassVar[tuple[str, ...]] = (DESCRIPTION, FEATURES, REVIEWS)
    """Pages below a product's own."""

    def show_search(self, goal: ShoppingGoal) -> str:
        """The page with the instruction and the search bar."""
        return _join(["WebShop", "Instruction:", goal.instruction, "Search"])

    def show_results(
        self, goal: ShoppingGoal, listed: Sequence[Product], page: int, total: int, more: bool
    ) -> str:
        """A page of what was found."""
        lines = [*_list_top(goal), f"Page {page + 1} (Total results: {total})"]
        lines += ["< Prev"] * (page > 0) + ["Next >"] * more
        for product in listed:
            lines += [product.id, product.title, product.price]
        return _join(lines)

    def show_item(self, goal: ShoppingGoal, product: Product) -> str:
        """A product's own page."""
        lines = [*_list_top(goal), "< Prev"]
        for name, values in product.options.items():
            lines += [name, *values]
        lines += [product.title, f"Price: {product.price}", f"Rating: {product.rating}"]
        return _join([*lines, "Description", "Features", "Reviews", "Buy Now"])

    def show_choice(self, goal: ShoppingGoal, product: Product, value: str) -> str:
        """What follows the choice of an option's value."""
        return self.show_item(goal, product)

    def show_detail(self, goal: ShoppingGoal, product: Product, name: str) -> str:
        """A page below a product's own."""
        texts = {
            DESCRIPTION: (product.description,),
            FEATURES: product.features,
            REVIEWS: product.reviews,
        }
        return _join([*_list_top(goal), "< Prev", _join(texts[name])[:LONGEST_PAGE]])

    def show_refusal(self, page: str) -> str:
        """The answer to an action that is invalid on this page."""
        return page

    def show_purchase(self, reward: float) -> str:
        """The last page."""
        lines = [
            "Thank you for shopping with us!",
            "Your score (min 0.0, max 1.0)",
            f"{reward:.2f}",
        ]
        return _join(lines)


class ShortPages(Pages):
    """The same shop in few words: the instruction once, and only what instructions ask for."""

    details: ClassVar[tuple[str, ...]] = ()

    def show_search(self, goal: ShoppingGoal) -> str:
        """The page with the instruction and the search bar."""
        return f"{goal.short}\n[search]"

    def show_results(
        self, goal: ShoppingGoal, listed: Sequence[Product], page: int, total: int, more: bool
    ) -> str:
        """A page of what was found."""
        buttons = [BACK] + [PREVIOUS] * (page > 0) + [NEXT] * more
        rows = [f"[{one.key}] {one.summary}, {one.dollars} dollars" for one in listed]
        return "\n".join([_format_buttons(buttons), *rows])

    def show_item(self, goal: ShoppingGoal, product: Product) -> str:
        """A product's own page."""
        text = f"{product.summary}, {product.dollars} dollars."
        rows = [f"{name}: {_format_buttons(values)}" for name, values in product.options.items()]
        return " ".join([_format_buttons([BACK, PREVIOUS]), text, *rows, f"[{BUY}]"])

    def show_choice(self, goal: ShoppingGoal, product: Product, value: str) -> str:
        """What follows the choice of an option's value."""
        return f"You chose {value}."

    def show_refusal(self, page: str) -> str:
        """The answer to an action that is invalid on this page."""
        return f"That is no action here. {page}"

    def show_purchase(self, reward: float) -> str:
        """The last page."""
        return "Thank you for shopping."


PAGES: dict[str, Pages] = {"full": Pages(), "short": ShortPages()}


def _list_top(goal: ShoppingGoal) -> list[str]:
    return ["Instruction:", goal.instruction, "Back to Search"]


def _join(texts: Iterable[str]) -> str:
    return " [SEP] ".join(texts)


def _format_buttons(names: Iterable[str]) -> str:
    return " ".join(f"[{name}]" for name in names)
