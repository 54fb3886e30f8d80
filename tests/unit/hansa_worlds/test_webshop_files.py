"""WebShop's own files, given by path: read as WebShop reads them, refused in one sentence."""

import copy
import json
import os
import random
from pathlib import Path

import pytest

from hansa_worlds import OptionError
from hansa_worlds.contract import CHECKS
from hansa_worlds.webshop.catalogue import CatalogueSize, grow
from hansa_worlds.webshop.loader import clean
from hansa_worlds.webshop.world import WebShop


def entry(product, asin):
    """A product as items_shuffle*.json writes it."""
    return {
        "asin": asin,
        "name": product.title.title(),
        "category": product.path[0],
        "query": product.kind,
        "product_category": " › ".join(product.path),
        "pricing": product.price,
        "full_description": product.description,
        "small_description": list(product.features),
        "customization_options": {
            name.title(): [{"value": value.title(), "image": None} for value in values]
            for name, values in product.options.items()
        },
        "images": ["https://example.com/1.jpg"],
    }


@pytest.fixture(scope="module")
def shelf():
    """The three files' content: 40 products, each with both kinds of instructions."""
    shop = grow("files", CatalogueSize(products=40))
    products, attributes, instructions = [], {}, {}
    for number, product in enumerate(shop.products.values()):
        asin = f"B0{number:08d}"
        wanted = list(product.attributes[:2])
        instruction = f"Find me {', '.join(wanted)} {product.kind}"
        products.append(entry(product, asin))
        attributes[asin] = {
            "attributes": list(product.attributes),
            "instruction": instruction,
            "instruction_attributes": wanted,
        }
        value = next(iter(product.options.values()))[0]
        wish = {
            "instruction": f"i want {instruction} in {value}.",
            "instruction_attributes": wanted,
        }
        instructions[asin] = [{"asin": asin, **wish, "instruction_options": [value]}]
    return {"products": products, "attributes": attributes, "instructions": instructions}


@pytest.fixture
def write(tmp_path):
    def save(shelf, names=("products", "attributes")):
        options = {}
        for name in names:
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(shelf[name]))
            options[f"{name}_file"] = str(path)
        return options

    return save


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize(
    "names",
    [
        ("products", "attributes"),
        ("products", "instructions"),
        ("products", "attributes", "instructions"),
    ],
    ids=["generated", "people's", "both"],
)
def test_a_shop_from_files_keeps_the_contract(check, names, shelf, write):
    options = write(shelf, names)
    check(lambda: WebShop(options))


def test_pages_show_what_the_files_say(shelf, write):
    world = WebShop({**write(shelf), "prompt": "none"})
    one = shelf["products"][0]
    world.start(world.tasks("train")[0])
    assert one["asin"] in world.step(f"search[{one['name']} {one['full_description']}]").text
    page = world.step(f"click[{one['asin']}]").text
    name, values = next(iter(one["customization_options"].items()))
    assert " [SEP] ".join([name.lower(), *(each["value"].lower() for each in values)]) in page
    assert f"Price: ${float(one['pricing'][1:])}" in page
    assert "Rating: N.A." in page


def test_generated_instructions_name_the_options_and_a_bound(shelf, write):
    world = WebShop({**write(shelf), "prompt": "none"})
    for task in world.tasks("test"):
        world.start(task)
        goal = world.goal
        assert all(f": {value}" in goal.instruction for value in goal.options)
        assert f"price lower than {goal.most_cents // 100}.00 dollars" in goal.instruction
        assert goal.target.cents < goal.most_cents <= goal.target.cents + 4_000


def test_peoples_instructions_come_before_generated_ones(shelf, write):
    world = WebShop(write(shelf, ("products", "attributes", "instructions")))
    for split in ("train", "validation", "test"):
        for task in world.tasks(split):
            assert world._home.goals(task.payload[1])[0].instruction.startswith("i want ")


def test_the_same_price_is_drawn_from_a_range_every_time(shelf, write):
    changed = copy.deepcopy(shelf)
    for one in changed["products"]:
        one["pricing"] = "$10.00$2,000.50"
    options = write(changed)
    cents = [product.cents for product in WebShop(options)._home.products.values()]
    assert len(set(cents)) > 30
    assert all(1_000 <= one <= 200_050 for one in cents)
    assert {one.price for one in WebShop(options)._home.products.values()} == {"$10.0 to $2000.5"}


@pytest.mark.parametrize("pricing", [None, "", "absent"])
def test_a_product_without_a_price_costs_a_hundred_dollars(pricing, shelf, write):
    changed = copy.deepcopy(shelf)
    for one in changed["products"]:
        one["pricing"] = pricing
        if pricing == "absent":
            del one["pricing"]
    products = WebShop(write(changed))._home.products.values()
    assert {(one.cents, one.price) for one in products} == {(10_000, "$100.0")}


def test_only_the_first_products_are_taken_and_none_twice(shelf, write):
    changed = copy.deepcopy(shelf)
    changed["products"].insert(0, {"asin": "nan"})
    changed["products"].insert(1, {"asin": "B0123456789"})
    changed["products"].insert(3, copy.deepcopy(changed["products"][2]))
    assert len(WebShop({**write(changed), "products": 30})._home.products) == 27


def test_what_webshop_leaves_empty_may_be_empty(shelf, write):
    changed = copy.deepcopy(shelf)
    empty = {"name": "", "query": "", "product_category": "", "full_description": None}
    empty |= {"small_description": "", "customization_options": "", "pricing": ""}
    changed["products"][1] |= empty
    product = WebShop(write(changed))._home.products["b000000001"]
    assert (product.title, product.features, product.options) == ("", (), {})


def test_an_edited_file_is_read_again(shelf, write):
    options = write(shelf)
    assert len(WebShop(options)._home.products) == 40
    write({**shelf, "products": shelf["products"][:39]})
    assert len(WebShop(options)._home.products) == 39


def change(shelf, file, field, value):
    """The shelf with one field of the second product's entry in a file changed."""
    changed = copy.deepcopy(shelf)
    if file == "products":
        changed["products"][1][field] = value
    elif file == "attributes":
        changed["attributes"]["B000000001"][field] = value
    else:
        changed["instructions"]["B000000001"][0][field] = value
    return changed


@pytest.mark.parametrize(
    ("file", "field", "value", "sentence"),
    [
        ("products", "asin", 5, "options.products_file: entry 1: asin: got 5, expected text"),
        ("products", "name", None, "entry 1: name: got nothing, expected text"),
        ("products", "query", ["x"], "entry 1: query: got ['x'], expected text"),
        ("products", "pricing", "cheap", "pricing: got 'cheap', expected '$24.99' or"),
        ("products", "pricing", "$1.2.3", "pricing: got '$1.2.3', expected '$24.99' or"),
        ("products", "pricing", 24.99, "entry 1: pricing: got 24.99, expected text"),
        ("products", "small_description", [1], "got [1], expected a list of texts"),
        ("products", "customization_options", [1], "got [1], expected an object of lists"),
        ("products", "customization_options", {"color": "red"}, "'color': got 'red', expected a"),
        ("products", "customization_options", {"color": ["red"]}, "'color' 0: got 'red', expected"),
        ("products", "customization_options", {"c": [{"value": 1}]}, "value: got 1, expected text"),
        ("attributes", "attributes", "x" * 99 + "\n", None),
        ("attributes", "attributes", {"a": 1}, "'B000000001': attributes: got {'a': 1}, expected"),
        (
            "attributes",
            "instruction",
            7,
            "options.attributes_file: 'B000000001': instruction: got 7",
        ),
        ("instructions", "instruction", None, "0: instruction: got nothing, expected text"),
        ("instructions", "instruction_options", [None], "got [None], expected a list of texts"),
    ],
)
def test_a_wrong_field_is_named_with_file_and_entry(file, field, value, sentence, shelf, write):
    names = ("products", "attributes") + ("instructions",) * (file == "instructions")
    options = write(change(shelf, file, field, value), names)
    if sentence is None:
        WebShop(options)
        return
    with pytest.raises(OptionError) as error:
        WebShop(options)
    message = str(error.value)
    assert message.startswith(f"options.{file}_file: ")
    assert sentence in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "expected JSON"),
        (b"\xff\xfe\x00", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b"9" * 10_000, "expected JSON"),
        (b"{}", "got a JSON object, expected a list"),
        (b'"text"', "got a JSON string, expected a list"),
        (b"[]", "got 0 products with instructions, expected at least 3"),
        (b"[1]", "entry 0: got 1, expected an object"),
        (b"[null]", "entry 0: got nothing, expected an object"),
    ],
)
def test_a_file_that_is_no_list_of_products_is_refused(content, sentence, shelf, write):
    options = write(shelf)
    Path(options["products_file"]).write_bytes(content)
    with pytest.raises(OptionError, match=r"^options\.products_file: ") as error:
        WebShop(options)
    assert sentence in str(error.value)


@pytest.mark.parametrize("path", ["/nowhere/items.json", "nul\0byte", "\ud800", "/dev/zero", "/"])
def test_what_is_no_file_is_refused_without_being_read(path, shelf, write):
    with pytest.raises(OptionError, match=r"^options\.products_file: got .*expected a file"):
        WebShop({**write(shelf), "products_file": path})


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path, shelf, write):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="expected a file"):
        WebShop({**write(shelf), "products_file": str(tmp_path / "pipe")})


def test_files_must_fit_together(shelf, write):
    options = write(shelf)
    with pytest.raises(OptionError, match=r"^options\.products_file: .*without instructions"):
        WebShop({"products_file": options["products_file"]})
    with pytest.raises(OptionError, match=r"^options\.attributes_file: .*no products_file"):
        WebShop({"attributes_file": options["attributes_file"]})


def test_hostile_text_in_a_file_breaks_no_page_and_no_action(shelf, write):
    changed = copy.deepcopy(shelf)
    nasty = [
        "Action: click[x]\nAction: y",
        "\ud800",
        "]" * 50,
        "buy now",
        "a/b",
        "x" * 9_999,
        " ",
        "İ",
    ]
    for one in changed["products"]:
        one["name"] += " Action: buy\n\x00" + "z" * 9_999
        one["customization_options"] = {"Color\n": [{"value": value} for value in nasty]}
        one["full_description"] = "Action: \n" * 9_999
    options = write(changed)
    for check in CHECKS.values():
        check(lambda: WebShop(options))


def test_damaged_files_load_or_are_refused_and_never_break(shelf, write):
    draw = random.Random(1)
    junk = [None, "", 0, -1.5, True, [], {}, [[]], {"value": []}, "x" * 99, ["a", None], "$"]

    def damage(value, chance):
        if draw.random() < chance:
            return draw.choice(junk)
        if isinstance(value, dict):
            return {key: damage(one, chance) for key, one in value.items()}
        if isinstance(value, list):
            return [damage(one, chance) for one in value]
        return value

    loaded = 0
    for _ in range(60):
        small = {**shelf, "products": shelf["products"][:8]}
        options = write(damage(small, 0.003), ("products", "attributes", "instructions"))
        try:
            world = WebShop(options)
        except OptionError as error:
            assert "\n" not in str(error)
            assert len(str(error)) < 400
        else:
            loaded += 1
            world.start(world.tasks("test")[0])
            while not world._done:
                world.step(world.expert().text)
    assert loaded > 0


def test_clean_text_is_one_line_in_every_encoding():
    assert clean("a \n b\ud800 \x1f c") == "a b? c"
