"""WebShop's own product files: read by path, checked field by field.

Products come from `items_shuffle*.json` (a list), attributes and generated instructions from
`items_ins*.json` (by asin), people's instructions from `items_human_ins.json` (lists by asin).
Where WebShop draws a price or a bound at random, a seed from the asin draws it here.
"""

import json
import re
import reprlib
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TypeVar

from hansa_worlds.base import rng
from hansa_worlds.errors import OptionError
from hansa_worlds.webshop.goals import ANY_PRICE, ShoppingGoal, to_digits
from hansa_worlds.webshop.pages import BUTTONS, LONGEST_PAGE
from hansa_worlds.webshop.product import Product
from hansa_worlds.webshop.shop import Shop

T = TypeVar("T")

MOST_BYTES = 512 * 1024**2
"""Size of a file at most: it is read whole. WebShop's file of all products is larger."""
MOST_WISHES = 12
"""Instructions per product where they are made from option values: WebShop makes all of them."""
FEWEST_PRODUCTS = 3
"""Products with instructions, so that each split has one."""
LONGEST_TEXT = 1_000
"""Characters of a text that are kept, unless a field has its own limit."""
MOST_ENTRIES = 100
"""Items of a list that are kept: a page shows them all."""
_LONGEST_ASIN, _LONGEST_TITLE, _LONGEST_VALUE = 10, 300, 100
_MOST_OPTIONS = 10
_NO_PRICE = Decimal(100)
_BOUNDS = range(1_000, 100_000, 1_000)
_JSON_KINDS: tuple[tuple[type, str], ...] = ((list, "list"), (dict, "object"), (str, "string"))


@dataclass(frozen=True, kw_only=True)
class Files:
    """Paths from the options; "" for none."""

    products: str = ""
    attributes: str = ""
    instructions: str = ""

    def are_given(self) -> bool:
        """Whether to shop in files; those that are given must make a shop."""
        if not self.products:
            for name in ("attributes", "instructions"):
                if getattr(self, name):
                    raise OptionError(f"options.{name}_file: got a file, but no products_file")
            return False
        if not self.attributes and not self.instructions:
            raise OptionError(
                "options.products_file: got a file without instructions, "
                "expected attributes_file or instructions_file beside it"
            )
        return True


def load_shop(files: Files, most: int) -> Shop:
    """The shop of the files' first `most` products; read again only when a file changes."""
    stamps = tuple(
        _read_stamp(name, getattr(files, name))
        for name in ("products", "attributes", "instructions")
    )
    return _load_shop(files, most, stamps)


def _read_stamp(name: str, path: str) -> tuple[int, int]:
    if not path:
        return (0, 0)
    try:
        found = Path(path).stat()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no path"
        raise OptionError(f"options.{name}_file: got {path!r}, expected a file ({why})") from None
    if not stat.S_ISREG(found.st_mode):
        raise OptionError(f"options.{name}_file: got {path!r}, expected a file")
    if found.st_size > MOST_BYTES:
        raise OptionError(
            f"options.{name}_file: got {found.st_size} bytes, expected at most {MOST_BYTES}"
        )
    return (found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _load_shop(files: Files, most: int, _stamps: tuple[tuple[int, int], ...]) -> Shop:
    known = dict(_read_by_asin("attributes", files.attributes))
    source = (
        dict(_read_by_asin("instructions", files.instructions)) if files.instructions else known
    )
    write = _read_instructions if files.instructions else _make_instructions
    products = list(_read_products(files.products, most, known))
    wishes = {
        product.key: tuple(write(product, source[product.id]) if product.id in source else ())
        for product in products
    }
    wished_for = sum(map(bool, wishes.values()))
    if wished_for < FEWEST_PRODUCTS:
        raise OptionError(
            f"options.products_file: got {wished_for} products with instructions, "
            f"expected at least {FEWEST_PRODUCTS}"
        )
    return Shop("files", products, lambda product: wishes[product.key])


def _read_by_asin(name: str, path: str) -> "Iterator[tuple[str, JsonEntry]]":
    if not path:
        return
    for asin, value in _read_json(name, path, dict, "an object").items():
        yield asin, JsonEntry(f"options.{name}_file: {asin[:20]!r}", value)


def _read_json(name: str, path: str, kind: type[T], fits: str) -> T:
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise OptionError(
            f"options.{name}_file: got {path!r}, expected a file ({error.strerror})"
        ) from None
    except (ValueError, RecursionError):
        raise OptionError(f"options.{name}_file: got {path!r}, expected JSON") from None
    if not isinstance(found, kind):
        came = next((word for each, word in _JSON_KINDS if isinstance(found, each)), "number")
        raise OptionError(f"options.{name}_file: got a JSON {came}, expected {fits}")
    return found


def _read_products(path: str, most: int, known: "Mapping[str, JsonEntry]") -> Iterator[Product]:
    found: list[object] = _read_json("products", path, list, "a list")
    seen: set[str] = set()
    for number, value in enumerate(found[:most]):
        entry = JsonEntry(f"options.products_file: entry {number}", value)
        asin = entry.text("asin")
        # As WebShop does: broken ids are left out, and so is what is listed again.
        if asin == "nan" or not 0 < len(asin) <= _LONGEST_ASIN or asin.lower() in seen:
            continue
        seen.add(asin.lower())
        yield _make_product(entry, asin, known.get(asin))


def _make_product(entry: "JsonEntry", asin: str, known: "JsonEntry | None") -> Product:
    title = entry.text("name", longest=_LONGEST_TITLE)
    cents, price = _read_price(entry, asin)
    return Product(
        id=asin,
        title=title,
        summary=title[:120],
        kind=entry.text("query", "").lower(),
        path=tuple(step.strip() for step in entry.text("product_category", "").split("›")),
        attributes=known.texts("attributes") if known else (),
        options=_read_options(entry),
        cents=cents,
        price=price,
        description=entry.text("full_description", "", LONGEST_PAGE),
        features=entry.texts("small_description"),
    )


def _read_price(entry: "JsonEntry", asin: str) -> tuple[int, str]:
    """The price in cents and as pages show it; "$10.0 to $20.0" is a random price between."""
    text = entry.text("pricing", "")
    if not text:
        return int(_NO_PRICE * 100), f"${float(_NO_PRICE)}"
    try:
        amounts = [Decimal(re.sub(r"[^0-9.]", "", part[:20])) for part in text.split("$")[1:3]]
    except InvalidOperation:
        amounts = []
    if not amounts:
        raise entry.make_error("pricing", text, "'$24.99' or '$10.00$20.00'")
    low, high = sorted(int(amount * 100) for amount in (amounts[0], amounts[-1]))
    cents = rng("webshop", "price", asin).randint(low, high)
    return cents, " to ".join(f"${float(amount)}" for amount in amounts)


def _read_options(entry: "JsonEntry") -> dict[str, tuple[str, ...]]:
    found = {}
    for name, values in entry.lists("customization_options"):
        texts = (value.text("value", "").replace("/", " | ").lower() for value in values)
        cleaned = dict.fromkeys(clean(text, _LONGEST_VALUE) for text in texts)
        # A value that reads as a button of the page could never be chosen.
        kept = tuple(value for value in cleaned if value and value not in BUTTONS)
        if kept:
            found[name[:_LONGEST_VALUE].lower()] = kept
    return dict(list(found.items())[:_MOST_OPTIONS])


def _read_instructions(product: Product, entry: "JsonEntry") -> Iterator[ShoppingGoal]:
    """People's instructions; those without attributes are left out, as in WebShop."""
    for number, one in enumerate(entry.entries()):
        attributes = one.texts("instruction_attributes")
        if attributes:
            instruction = one.text("instruction").strip(".")
            yield _make_goal(
                product, instruction, attributes, one.texts("instruction_options"), number
            )


def _make_instructions(product: Product, entry: "JsonEntry") -> Iterator[ShoppingGoal]:
    """The generated instruction with values of every option; a few of all combinations."""
    instruction, attributes = entry.text("instruction", ""), entry.texts("instruction_attributes")
    if not instruction or not attributes:
        return
    values = list(product.options.values())
    sizes = [len(many) for many in values]
    draw = rng("webshop", "wishes", product.id)
    numbers = {draw.randrange(prod(sizes)) for _ in range(MOST_WISHES)}
    if prod(sizes) <= MOST_WISHES:
        numbers = set(range(prod(sizes)))
    for number in sorted(numbers):
        options = tuple(
            many[one] for many, one in zip(values, to_digits(number, sizes), strict=True)
        )
        named = zip(product.options, options, strict=True)
        suffix = ", and ".join(f"{name}: {value}" for name, value in named)
        yield _make_goal(
            product,
            f"{instruction} with {suffix}" if suffix else instruction,
            attributes,
            options,
            number,
        )


def _make_goal(
    product: Product,
    instruction: str,
    attributes: tuple[str, ...],
    options: tuple[str, ...],
    number: int,
) -> ShoppingGoal:
    """The instruction with a bound on the price: the higher of two of the next four tens."""
    bounds = [bound for bound in _BOUNDS if bound > product.cents][:4]
    most = ANY_PRICE
    if len(bounds) >= 2:
        most = max(rng("webshop", "bound", product.id, number).sample(bounds, 2))
        instruction = f"{instruction}, and price lower than {most // 100}.00 dollars"
    return ShoppingGoal(
        target=product,
        instruction=instruction,
        short=instruction,
        attributes=tuple(one.lower() for one in attributes),
        options=tuple(one.lower() for one in options),
        most_cents=most,
    )


class JsonEntry:
    """A JSON object that should have certain fields; null is absent, and "" an empty list."""

    def __init__(self, where: str, value: object) -> None:
        self._where = where
        self._value = value

    def text(self, field: str, default: str | None = None, longest: int = LONGEST_TEXT) -> str:
        """A field's text on one line; without a default it must be there."""
        value = self._get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.make_error(field, value, "text")
        return clean(value, longest)

    def texts(self, field: str) -> tuple[str, ...]:
        """A field's list of texts; a single text is a list of one."""
        value = self._get(field)
        if value is None or value == "":
            return ()
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.make_error(field, value, "a list of texts")
        return tuple(text for one in found[:MOST_ENTRIES] if (text := clean(one)))

    def lists(self, field: str) -> "Iterator[tuple[str, list[JsonEntry]]]":
        """A field's lists of entries, by name; a list that is null is left out."""
        value = self._get(field)
        if value is None or value == "":
            return
        if not isinstance(value, dict):
            raise self.make_error(field, value, "an object of lists")
        for name, items in list(value.items())[:MOST_ENTRIES]:
            if items is None:
                continue
            where = f"{self._where}: {field}: {name[:20]!r}"
            if not isinstance(items, list):
                raise OptionError(f"{where}: got {_format_value(items)}, expected a list")
            kept = items[:MOST_ENTRIES]
            yield clean(name), [JsonEntry(f"{where} {at}", item) for at, item in enumerate(kept)]

    def entries(self) -> "list[JsonEntry]":
        """The value itself as a list of entries."""
        if not isinstance(self._value, list):
            raise OptionError(f"{self._where}: got {_format_value(self._value)}, expected a list")
        kept = self._value[:MOST_ENTRIES]
        return [JsonEntry(f"{self._where} {at}", item) for at, item in enumerate(kept)]

    def make_error(self, field: str, value: object, fits: str) -> OptionError:
        """What to raise for a field that does not fit."""
        return OptionError(f"{self._where}: {field}: got {_format_value(value)}, expected {fits}")

    def _get(self, field: str) -> object:
        if not isinstance(self._value, dict):
            raise OptionError(
                f"{self._where}: got {_format_value(self._value)}, expected an object"
            )
        value: object = self._value.get(field)
        return value


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text on one line that every encoding can hold."""
    return " ".join(text[:longest].split()).encode("utf-8", "replace").decode()


def _format_value(value: object) -> str:
    return "nothing" if value is None else reprlib.repr(value)  # shortened, however large it is
