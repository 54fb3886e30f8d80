"""WebShop's reward: how much of a wish a purchase meets, from 0 to 1.

    r_type * (attributes met + options met + price met) / (#attributes + #options + 1)

Where WebShop compares spellings by a fuzzy ratio above 85, two texts are alike here when the
words of one are all among the other's, plurals and order aside; a ratio of 100 in WebShop.
"""

from collections.abc import Iterable
from functools import lru_cache

from hansa_worlds.webshop.goals import ShoppingGoal
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.search import list_stems, split_words

_NAMES = (
    "beige black blue bronze brown copper coral gold gray green grey ivory khaki maroon navy "
    "olive orange peach pink purple red silver tan teal turquoise violet white yellow"
)
_COLORS = frozenset(_NAMES.split())


def compute_reward(bought: Product, chosen: Iterable[str], goal: ShoppingGoal) -> float:
    """What buying this product with these options earns; exactly 1.0 when everything is met."""
    values = list(chosen)
    met = sum(has_attribute(bought, wanted) for wanted in goal.attributes)
    met += sum(any(is_same_option(one, wanted) for one in values) for wanted in goal.options)
    met += bought.cents <= goal.most_cents
    whole = len(goal.attributes) + len(goal.options) + 1
    return score_type(bought, goal.target) * met / whole


def score_type(bought: Product, wanted: Product) -> float:
    """Whether it is the right kind of thing: 1, or 0.5, 0.1 and 0 as titles drift apart."""
    shared = len(wanted.nouns & bought.nouns)
    titles = shared / len(wanted.nouns) if wanted.nouns else 0.2
    if titles == 0.0:
        return 0.0
    if titles < 0.1:
        return 0.1
    same_kind = bool(wanted.kind) and bought.kind == wanted.kind
    same_place = len(set(bought.path) & set(wanted.path)) >= 2
    return 1.0 if same_kind or same_place or titles > 0.2 else 0.5


def has_attribute(product: Product, wanted: str) -> bool:
    """Whether the product has the attribute, or says so in title, features or description."""
    if any(are_alike(one, wanted) for one in product.attributes):
        return True
    return any(wanted.lower() in text for text in product.small_print)


def is_same_option(chosen: str, wanted: str) -> bool:
    """Whether the choice is the one asked for; of a color's name its first color counts."""
    return chosen == wanted or are_alike(_reduce_color(chosen), _reduce_color(wanted))


def are_alike(one: str, other: str) -> bool:
    """Whether the words of one text are all among the other's."""
    left, right = list_stems(one), list_stems(other)
    return bool(left) and bool(right) and (left <= right or right <= left)


def could_meet(product: Product, goal: ShoppingGoal) -> bool:
    """Whether buying this product can earn 1.0, with the right choices."""
    return (
        product.cents <= goal.most_cents
        and score_type(product, goal.target) == 1.0
        and all(find_matching(product, wanted) for wanted in goal.options)
        and all(has_attribute(product, wanted) for wanted in goal.attributes)
    )


def find_matching(product: Product, wanted: str) -> str | None:
    """The product's value that is the one asked for: an equal one before one that is alike."""
    values = [value for many in product.options.values() for value in many]
    if wanted in values:
        return wanted
    return next((value for value in values if is_same_option(value, wanted)), None)


@lru_cache(maxsize=16_384)
def _reduce_color(value: str) -> str:
    return next((word for word in split_words(value) if word in _COLORS), value)
