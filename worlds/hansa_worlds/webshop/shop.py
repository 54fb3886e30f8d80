"""A shop: its products, the search over them, and the wishes written for each."""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache

from hansa_worlds.base import Split, Task, share
from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.search import SearchIndex, list_terms

Writer = Callable[[Product], tuple[ShoppingGoal, ...]]


class Shop:
    """Shared by every world that shops in it, and never changed after it was made."""

    def __init__(self, name: str, products: Iterable[Product], wishes: Writer) -> None:
        self.name = name
        self.products = {product.key: product for product in products}
        self.kinds = sorted({product.kind for product in self.products.values()})
        self._keys = list(self.products)
        self._index = SearchIndex(product.searched for product in self.products.values())
        self.goals = cache(lambda key: wishes(self.products[key]))
        """The wishes for a product by its key; written when they are first asked for."""
        self.tasks = cache(self._list_tasks)
        """A split's wishes: every product's first, then every product's second, and so on."""

    def find(self, query: str) -> tuple[str, ...]:
        """Keys of the products for a query, best first."""
        return _find(self, list_terms(query))

    def _list_tasks(self, split: Split) -> tuple[Task, ...]:
        wished_for = sorted(key for key in self._keys if self.goals(key))
        keys = share(wished_for, split, "webshop", self.name)
        numbered = [(number, key) for key in keys for number in range(len(self.goals(key)))]
        return tuple(make_task(self, split, key, number) for number, key in sorted(numbered))


def make_task(shop: Shop, split: Split, key: str, number: int) -> Task:
    """The task of a product's wish."""
    return Task(f"webshop-{shop.name}-{key}-{number}", split, (shop.name, key, str(number)))


@lru_cache(maxsize=8_192)
def _find(shop: Shop, looked_up: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(shop._keys[number] for number in shop._index.find(looked_up))
