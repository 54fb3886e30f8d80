"""Catalogues generated from a seed: the same on every machine."""

import random
from dataclasses import dataclass
from functools import lru_cache

from hansa_worlds.base import rng
from hansa_worlds.webshop import words
from hansa_worlds.webshop.goals import write_goals
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.shop import Shop

PER_KIND = 6
"""Products of a kind in a small catalogue; a large one has all kinds, and more of each."""
SHELF = 60
"""Ids count to this before a second number follows: few words name many products."""
_TIERS = 5
_ENDINGS = (450, 495, 499, 750, 795, 799)
"""Cents above the tens of dollars: never a round ten, so no price equals a bound."""
_FEWEST_WISHES = 4
_WISHES = 1_800
"""Wishes of a small catalogue, shared among its products: enough to measure with."""


@dataclass(frozen=True, kw_only=True)
class CatalogueSize:
    """How large a catalogue is, and how much there is to a product."""

    products: int = 1_200
    attributes: int = 4
    """What can be said of each product."""
    choices: int = 3
    """Options to choose for each product, at most."""


@lru_cache(maxsize=512)
def grow(name: str, shape: CatalogueSize) -> Shop:
    """The shop of a name; what it sells follows from the name and the shape alone."""
    draw = rng("webshop", "catalogue", name)
    names = _make_ids(shape.products)
    draw.shuffle(names)
    kinds = words.KINDS[: max(1, shape.products // PER_KIND)]
    products = [
        _make_product(draw, id, kinds[number % len(kinds)], shape)
        for number, id in enumerate(names)
    ]
    count = max(_FEWEST_WISHES, _WISHES // shape.products)
    return Shop(name, products, lambda product: write_goals(product, count, name))


def _make_ids(count: int) -> list[str]:
    """b1 to b60, or b1-10, b2-10 and so on, whose parts are few words."""
    if count <= SHELF:
        return [f"b{number + 1}" for number in range(count)]
    return [f"b{number % SHELF + 1}-{10 + number // SHELF}" for number in range(count)]


def _make_product(
    draw: random.Random, id: str, kind: words.ProductType, shape: CatalogueSize
) -> Product:
    department = words.DEPARTMENTS[kind.department]
    attributes = tuple(draw.sample(department.attributes, shape.attributes))
    shown = attributes[: -(-len(attributes) // 2)]
    cents = 1_000 * (kind.tier + draw.randrange(_TIERS)) + draw.choice(_ENDINGS)
    one, other = draw.sample(words.PLACES, 2)
    return Product(
        id=id,
        title=f"{' '.join(shown)} {kind.name}",
        summary=f"{' '.join(attributes)} {kind.name}",
        kind=kind.name,
        path=kind.path,
        attributes=attributes,
        options={
            name: tuple(draw.sample(words.OPTIONS[name], draw.randint(3, 4)))
            for name in department.options[: shape.choices]
        },
        cents=cents,
        price=f"${cents // 100}.{cents % 100:02d}",
        description=f"A {kind.name} for {one} and {other}.",
        features=tuple(f"{each}, good for {draw.choice(words.PLACES)}" for each in attributes),
        reviews=tuple(draw.sample(words.PRAISE, draw.randrange(3))),
        rating=draw.choice(words.RATINGS),
    )
