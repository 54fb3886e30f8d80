"""The words of generated catalogues: few, so that a small model can know them all.

No kind shares a word with another, and no attribute holds another's words: a match is never
an accident of wording.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Department:
    """What the products of one part of the shop have in common."""

    attributes: tuple[str, ...]
    """What may be said of a product; a product has a few of them."""
    options: tuple[str, ...]
    """What the buyer chooses, most telling first."""


@dataclass(frozen=True)
class ProductType:
    """A type of product, and where it stands in the shop."""

    name: str
    department: str
    section: str
    tier: int
    """Its cheapest price in tens of dollars; the dearest is four tens more."""

    @property
    def path(self) -> tuple[str, ...]:
        """From the department down to the kind; two shared steps are the same sort of thing."""
        return (self.department, self.section, self.name)


# fmt: off
DEPARTMENTS = {
    "home": Department(
        attributes=(
            "soft", "vintage", "modern", "washable", "handmade", "sturdy", "eco friendly",
            "easy clean", "space saving", "non slip",
        ),
        options=("color", "size", "pattern"),
    ),
    "furniture": Department(
        attributes=(
            "padded", "adjustable", "foldable", "stackable", "rustic", "modern", "sturdy",
            "solid wood", "easy assemble", "space saving",
        ),
        options=("color", "material", "size"),
    ),
    "clothing": Department(
        attributes=(
            "cotton", "woolen", "waterproof", "breathable", "warm", "lightweight", "stretchy",
            "casual", "slim fit", "quick dry",
        ),
        options=("color", "size", "pattern"),
    ),
    "beauty": Department(
        attributes=(
            "organic", "vegan", "gentle", "moisturizing", "herbal", "cruelty free",
            "fragrance free", "paraben free", "long lasting", "travel size",
        ),
        options=("scent", "pack", "size"),
    ),
    "electronics": Department(
        attributes=(
            "wireless", "portable", "compact", "rechargeable", "durable", "waterproof",
            "fast charging", "noise cancelling", "high speed", "easy install",
        ),
        options=("color", "finish", "pack"),
    ),
    "food": Department(
        attributes=(
            "organic", "vegan", "roasted", "crunchy", "kosher", "sugar free", "gluten free",
            "low calorie", "fair trade", "non gmo",
        ),
        options=("flavor", "pack", "size"),
    ),
}
# fmt: on

OPTIONS = {
    "color": ("red", "green", "blue", "black", "white", "brown", "grey", "pink", "purple", "navy"),
    "size": ("small", "medium", "large", "giant"),
    "pattern": ("plain", "striped", "floral", "checked", "dotted"),
    "material": ("oak", "pine", "steel", "bamboo", "glass"),
    "finish": ("matte", "glossy", "brushed", "clear"),
    "scent": ("rose", "lavender", "coconut", "citrus", "jasmine", "cedar"),
    "flavor": ("vanilla", "lemon", "mint", "cherry", "ginger", "cinnamon"),
    "pack": ("single", "pair", "dozen", "family"),
}

KINDS = tuple(
    ProductType(*row)
    for row in (
        ("mug", "home", "kitchen", 0),
        ("lamp", "home", "lighting", 2),
        ("chair", "furniture", "seating", 4),
        ("shirt", "clothing", "tops", 1),
        ("pillow", "home", "bedding", 1),
        ("hat", "clothing", "accessories", 0),
        ("jacket", "clothing", "tops", 4),
        ("rug", "home", "decor", 4),
        ("towel", "home", "bath", 0),
        ("bag", "clothing", "accessories", 2),
        ("shampoo", "beauty", "hair", 0),
        ("headphones", "electronics", "audio", 3),
        ("tea", "food", "drinks", 0),
        ("sofa", "furniture", "seating", 4),
        ("boots", "clothing", "shoes", 3),
        ("candle", "home", "decor", 0),
        ("soap", "beauty", "bath", 0),
        ("keyboard", "electronics", "computers", 2),
        ("cookies", "food", "snacks", 0),
        ("desk", "furniture", "tables", 4),
        ("scarf", "clothing", "accessories", 1),
        ("blanket", "home", "bedding", 2),
        ("perfume", "beauty", "fragrance", 3),
        ("speaker", "electronics", "audio", 3),
        ("coffee", "food", "drinks", 1),
        ("bookshelf", "furniture", "storage", 4),
        ("dress", "clothing", "tops", 3),
        ("curtain", "home", "decor", 2),
        ("lotion", "beauty", "skin", 1),
        ("charger", "electronics", "phones", 1),
        ("chocolate", "food", "snacks", 0),
        ("stool", "furniture", "seating", 2),
        ("sneakers", "clothing", "shoes", 3),
        ("bottle", "home", "kitchen", 1),
        ("toothbrush", "beauty", "bath", 0),
        ("camera", "electronics", "photo", 4),
        ("honey", "food", "pantry", 1),
        ("bench", "furniture", "seating", 3),
        ("gloves", "clothing", "accessories", 0),
        ("mirror", "home", "decor", 3),
        ("lip balm", "beauty", "skin", 0),
        ("tripod", "electronics", "photo", 2),
        ("popcorn", "food", "snacks", 0),
        ("wardrobe", "furniture", "storage", 4),
        ("sandals", "clothing", "shoes", 2),
        ("wall clock", "home", "decor", 2),
        ("face mask", "beauty", "skin", 0),
        ("usb cable", "electronics", "phones", 0),
        ("olive oil", "food", "pantry", 1),
        ("nightstand", "furniture", "storage", 3),
        ("sweater", "clothing", "tops", 2),
        ("frying pan", "home", "kitchen", 2),
        ("hair brush", "beauty", "hair", 0),
        ("mouse", "electronics", "computers", 1),
        ("cereal", "food", "pantry", 0),
        ("belt", "clothing", "accessories", 1),
        ("picture frame", "home", "decor", 1),
        ("jam", "food", "pantry", 0),
        ("socks", "clothing", "shoes", 0),
        ("lunch box", "home", "kitchen", 1),
    )
)
"""A catalogue takes as many as it has room for, from the front: the plain ones come first."""

PLACES = ("work", "school", "parties", "camping", "weekends", "guests", "holidays", "gifts")
"""What a product is good for; it is never asked for."""
PRAISE = (
    "Just as shown.",
    "A good buy.",
    "I would buy it again.",
    "Came late but works well.",
    "Not what I hoped for.",
    "My friends like it too.",
)
RATINGS = ("3.0", "3.5", "4.0", "4.5", "5.0")
