"""What is to be bought: instructions in plain words, written for one product each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from hansa_worlds.base import rng
from hansa_worlds.webshop.product import Product

ANY_PRICE = 10**12
"""The bound of an instruction that names none, in cents."""

_TEMPLATES = (
    "Find me {attributes} {kind} with {options}, and price lower than {dollars} dollars",
    "I need {attributes} {kind}, {options}, for less than {dollars} dollars",
    "I am looking for {kind} that is {attributes}. I want {options}, under {dollars} dollars",
    "Please buy {attributes} {kind} for me, {options}, and spend less than {dollars} dollars",
)
_WITHOUT_OPTIONS = (
    "Find me {attributes} {kind}, price lower than {dollars} dollars",
    "I need {attributes} {kind} for less than {dollars} dollars",
)
_SHORT = "Find me {attributes} {kind}, {options}, price lower than {dollars} dollars."
_SHORT_WITHOUT_OPTIONS = "Find me {attributes} {kind}, price lower than {dollars} dollars."
_TENS_ABOVE = (0, 1, 2)
"""How far the bound may lie above the next ten dollars: a dearer product may be too dear."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShoppingGoal:
    """A wish; whatever meets it will do, be it the product that it was written for or not."""

    target: Product
    instruction: str
    short: str
    """The instruction for those who read slowly."""
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    """Values that must be chosen."""
    most_cents: int

    @property
    def query(self) -> str:
        """What a buyer would search for first."""
        return f"{' '.join(self.attributes)} {self.target.kind}".strip()


def write_goals(product: Product, count: int, seed: str) -> tuple[ShoppingGoal, ...]:
    """As many different wishes for a product as there are, up to `count`."""
    # Half of the attributes, or one more: enough that most products fail, not the title's all.
    half = max(1, len(product.attributes) // 2)
    wanted = [one for size in (half, half + 1) for one in combinations(product.attributes, size)]
    values = list(product.options.values())
    sizes = [len(wanted), len(_TENS_ABOVE), *map(len, values)]
    draw = rng("webshop", "goals", seed, product.id)
    numbers = draw.sample(range(prod(sizes)), min(count, prod(sizes)))
    goals = []
    for number in numbers:
        subset, tens, *chosen = to_digits(number, sizes)
        options = tuple(many[one] for many, one in zip(values, chosen, strict=True))
        dollars = (product.cents // 1_000 + 1 + _TENS_ABOVE[tens]) * 10
        goals.append(_make_goal(product, wanted[subset], options, dollars, draw.random()))
    return tuple(goals)


def to_digits(number: int, sizes: Sequence[int]) -> list[int]:
    """A number as one index for each size: every combination has one number."""
    found = []
    for size in sizes:
        number, digit = divmod(number, size)
        found.append(digit)
    return found


def _make_goal(
    product: Product, wanted: tuple[str, ...], options: tuple[str, ...], dollars: int, chance: float
) -> ShoppingGoal:
    templates = _TEMPLATES if options else _WITHOUT_OPTIONS
    named = dict(zip(product.options, options, strict=True))
    words = {"kind": product.kind, "dollars": dollars}
    return ShoppingGoal(
        target=product,
        instruction=templates[int(chance * len(templates))].format(
            attributes=", ".join(wanted),
            options=", and ".join(f"{name}: {value}" for name, value in named.items()),
            **words,
        ),
        short=(_SHORT if options else _SHORT_WITHOUT_OPTIONS).format(
            attributes=" ".join(wanted),
            options=", ".join(f"{name} {value}" for name, value in named.items()),
            **words,
        ),
        attributes=wanted,
        options=options,
        most_cents=dollars * 100,
    )
