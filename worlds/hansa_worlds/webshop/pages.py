"""How the shop's pages read: WebShop's text, and a short form for small models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.product import Product

BACK, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
DESCRIPTION, FEATURES, REVIEWS = "description", "features", "reviews"
BUTTONS = frozenset({BACK, PREVIOUS, NEXT, BUY, DESCRIPTION, FEATURES, REVIEWS})

LONGEST_PAGE = 4_000
"""Characters of a description, a list of features or reviews that are shown."""


class Pages(Protocol):
    """A way to write the pages; one object serves every episode."""

    details: ClassVar[tuple[str, ...]]
    """Pages below a product's own."""

    def search(self, goal: ShoppingGoal) -> str:
        """The page with the instruction and the search bar."""

    def results(
        self, goal: ShoppingGoal, listed: Sequence[Product], page: int, total: int, more: bool
    ) -> str:
        """A page of what was found."""

    def item(self, goal: ShoppingGoal, product: Product) -> str:
        """A product's own page."""

    def chosen(self, goal: ShoppingGoal, product: Product, value: str) -> str:
        """What follows the choice of an option's value."""

    def detail(self, goal: ShoppingGoal, product: Product, name: str) -> str:
        """A page below a product's own."""

    def refused(self, page: str) -> str:
        """What follows an action that is none on this page."""

    def bought(self, reward: float) -> str:
        """The last page."""


class Full:
    """WebShop's text mode: what a browser shows, joined by [SEP], the instruction on each page.

    As there, a refused action and a choice both show the page as it was.
    """

    details: ClassVar[tuple[str, ...]] = (DESCRIPTION, FEATURES, REVIEWS)

    def search(self, goal: ShoppingGoal) -> str:
        """The page with the instruction and the search bar."""
        return _joined(["WebShop", "Instruction:", goal.instruction, "Search"])

    def results(
        self, goal: ShoppingGoal, listed: Sequence[Product], page: int, total: int, more: bool
    ) -> str:
        """A page of what was found."""
        lines = [*_top(goal), f"Page {page + 1} (Total results: {total})"]
        lines += ["< Prev"] * (page > 0) + ["Next >"] * more
        for product in listed:
            lines += [product.id, product.title, product.price]
        return _joined(lines)

    def item(self, goal: ShoppingGoal, product: Product) -> str:
        """A product's own page."""
        lines = [*_top(goal), "< Prev"]
        for name, values in product.options.items():
            lines += [name, *values]
        lines += [product.title, f"Price: {product.price}", f"Rating: {product.rating}"]
        return _joined([*lines, "Description", "Features", "Reviews", "Buy Now"])

    def chosen(self, goal: ShoppingGoal, product: Product, value: str) -> str:
        """What follows the choice of an option's value."""
        return self.item(goal, product)

    def detail(self, goal: ShoppingGoal, product: Product, name: str) -> str:
        """A page below a product's own."""
        texts = {
            DESCRIPTION: (product.description,),
            FEATURES: product.features,
            REVIEWS: product.reviews,
        }
        return _joined([*_top(goal), "< Prev", _joined(texts[name])[:LONGEST_PAGE]])

    def refused(self, page: str) -> str:
        """What follows an action that is none on this page."""
        return page

    def bought(self, reward: float) -> str:
        """The last page."""
        lines = [
            "Thank you for shopping with us!",
            "Your score (min 0.0, max 1.0)",
            f"{reward:.2f}",
        ]
        return _joined(lines)


class Short:
    """The same shop in few words: the instruction once, and nothing that no wish is about."""

    details: ClassVar[tuple[str, ...]] = ()

    def search(self, goal: ShoppingGoal) -> str:
        """The page with the instruction and the search bar."""
        return f"{goal.short}\n[search]"

    def results(
        self, goal: ShoppingGoal, listed: Sequence[Product], page: int, total: int, more: bool
    ) -> str:
        """A page of what was found."""
        buttons = [BACK] + [PREVIOUS] * (page > 0) + [NEXT] * more
        rows = [f"[{one.key}] {one.summary}, {one.dollars} dollars" for one in listed]
        return "\n".join([_buttons(buttons), *rows])

    def item(self, goal: ShoppingGoal, product: Product) -> str:
        """A product's own page."""
        text = f"{product.summary}, {product.dollars} dollars."
        rows = [f"{name}: {_buttons(values)}" for name, values in product.options.items()]
        return " ".join([_buttons([BACK, PREVIOUS]), text, *rows, f"[{BUY}]"])

    def chosen(self, goal: ShoppingGoal, product: Product, value: str) -> str:
        """What follows the choice of an option's value."""
        return f"You chose {value}."

    def detail(self, goal: ShoppingGoal, product: Product, name: str) -> str:
        """A page below a product's own; there is none."""
        return self.item(goal, product)

    def refused(self, page: str) -> str:
        """What follows an action that is none on this page."""
        return f"That is no action here. {page}"

    def bought(self, reward: float) -> str:
        """The last page."""
        return "Thank you for shopping."


PAGES: dict[str, Pages] = {"full": Full(), "short": Short()}


def _top(goal: ShoppingGoal) -> list[str]:
    return ["Instruction:", goal.instruction, "Back to Search"]


def _joined(texts: Iterable[str]) -> str:
    return " [SEP] ".join(texts)


def _buttons(names: Iterable[str]) -> str:
    return " ".join(f"[{name}]" for name in names)
