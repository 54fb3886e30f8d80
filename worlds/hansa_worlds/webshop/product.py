"""What is for sale: a product, as the pages show it and the reward judges it."""

from dataclasses import dataclass
from functools import cached_property

from hansa_worlds.webshop.search import STOP_WORDS, list_stems, split_words, stem

NOT_RATED = "N.A."


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """One thing for sale; equal only to itself, since a shop holds each once."""

    id: str
    """As the results page names it; clicked in any case."""
    title: str
    kind: str
    """The words that people search for it with: WebShop's query."""
    path: tuple[str, ...]
    """Its place in the shop, from the department down."""
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    """Values to choose among, by the option's name; all in lower case."""
    cents: int
    """What it costs."""
    price: str
    """The price as pages show it."""
    summary: str
    """Everything but price and options in one line, for the short pages."""
    description: str = ""
    features: tuple[str, ...] = ()
    reviews: tuple[str, ...] = ()
    rating: str = NOT_RATED

    @property
    def key(self) -> str:
        """What a click names it by."""
        return self.id.lower()

    @cached_property
    def dollars(self) -> int:
        """The price, rounded up: what the short pages say."""
        return -(-self.cents // 100)

    @cached_property
    def nouns(self) -> frozenset[str]:
        """The title's words that name the thing.

        WebShop takes the nouns that a language model marks; here they are the words that are no
        attribute, no option's value, no number and no stop word.
        """
        described = [*self.attributes, *(one for many in self.options.values() for one in many)]
        adjectives = {word for text in described for word in list_stems(text)} - list_stems(
            self.kind
        )
        named = (stem(word) for word in split_words(self.title) if not word.isdigit())
        return frozenset(one for one in named if one not in adjectives | STOP_WORDS)

    @cached_property
    def small_print(self) -> tuple[str, str, str]:
        """Title, features and description in lower case: where attributes are looked for too."""
        return self.title.lower(), " ".join(self.features).lower(), self.description.lower()

    @property
    def searched(self) -> str:
        """What the search engine reads: not the options, which are found on the page alone."""
        return " ".join((self.title, self.kind, *self.features, self.description))
