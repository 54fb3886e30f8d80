"""A shop: its products, the search over them, and the wishes written for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from hansa_worlds.base import Split, Task, share
from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.search import SearchIndex, terms

Writer = Callable[[Product], tuple[ShoppingGoal, ...]]


class Shop:
    """Shared by every world that shops in it, and never changed after it was made."""

    def __init__(self, name: str, products: Iterable[Product], wishes: Writer) -> None:
        self.name = name
        self.products = {product.key: product for product in products}
        self.kinds = sorted({product.kind for product in self.products.values()})
        self._keys = list(self.products)
        self._index = SearchIndex(product.searched for product in self.products.values())
        self._write = wishes
        self._goals: dict[str, tuple[ShoppingGoal, ...]] = {}

    def find(self, query: str) -> tuple[str, ...]:
        """Keys of the products for a query, best first."""
        return _find(self, terms(query))

    def goals(self, key: str) -> tuple[ShoppingGoal, ...]:
        """The wishes for a product; written once, when they are first asked for."""
        if key not in self._goals:
            self._goals[key] = self._write(self.products[key])
        return self._goals[key]

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """The split's wishes: every product's first, then every product's second, and so on."""
        return _tasks(self, split)

    def look_up(self, looked_up: tuple[str, ...]) -> tuple[str, ...]:
        """Search without remembering."""
        return tuple(self._keys[number] for number in self._index.find(looked_up))

    def wished_for(self) -> list[str]:
        """Keys of the products that any wish was written for."""
        return [key for key in self._keys if self.goals(key)]

    def __deepcopy__(self, _memo: object) -> Shop:
        return self


def task(shop: Shop, split: Split, key: str, number: int) -> Task:
    """The task of a product's wish."""
    return Task(f"webshop-{shop.name}-{key}-{number}", split, (shop.name, key, str(number)))


@lru_cache(maxsize=8_192)
def _find(shop: Shop, looked_up: tuple[str, ...]) -> tuple[str, ...]:
    return shop.look_up(looked_up)


@lru_cache(maxsize=64)
def _tasks(shop: Shop, split: Split) -> tuple[Task, ...]:
    keys = share(sorted(shop.wished_for()), split, "webshop", shop.name)
    numbered = [(number, key) for key in keys for number in range(len(shop.goals(key)))]
    return tuple(task(shop, split, key, number) for number, key in sorted(numbered))
