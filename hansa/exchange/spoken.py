"""A public key's fingerprint as words, to be read out over the phone.

Eight words are the first 64 bits of the key's sha256. They protect against a key that was exchanged
on its way: who wants another key with the same words tries about 2^64 keys. They do not protect
who compares fewer words, or takes them from where the key itself came from.
"""

import hashlib

_TEXT = """
acorn album amber anchor ankle april arch arrow atlas attic autumn award badge bamboo banana
banjo barrel basket beach beaver bell berry bicycle biscuit blanket blossom bonnet border bottle
bridge bronze brush bubble butter cabin cactus camera canyon captain carpet carrot castle cedar
celery cement chalk cherry chimney cinema circle clay clock cloud coconut coffee comet compass
copper coral cotton cousin coyote cradle cricket crown curtain cushion dagger dairy desert
diamond dinner doctor dolphin donkey dragon drum eagle easel echo elbow elephant emerald empire
engine evening fabric falcon farmer feather fence fern fiddle flame forest fossil fountain fox
frost galaxy garden garlic ginger giraffe glacier glove gold granite grape guitar hammer hamster
harbor harvest helmet heron honey horizon horse hotel iceberg igloo island ivory jacket jaguar
jasmine jewel jungle juniper kangaroo kayak kitchen kite knight ladder lake lantern laundry leaf
lemon leopard library lighthouse lily lizard lobster locket magnet mango marble meadow metal
mirror moon morning mosaic mushroom music napkin needle nephew north nutmeg oasis ocean octopus
olive onion opera orange orchard oyster palace panda paper parsley peacock peanut pelican pencil
piano picnic pigeon pillow pirate planet plum poem pony potato pottery prairie pumpkin puzzle
pyramid quarry queen quilt rabbit radio rainbow raven ribbon river robin ruby sailor salad
saturn scarf school season shadow silver sister spider spring squirrel stable statue summer
sunset swallow teapot temple tennis thunder tiger tomato tower tractor trumpet tulip tunnel
turtle umbrella valley velvet village vinegar violin volcano waffle wagon walnut water whale
window winter wolf yellow yogurt zebra zigzag zipper
"""
WORDS = tuple(_TEXT.split())
"""One for each value of a byte; any two differ in at least two letters."""
COUNT = 8
"""Words of a fingerprint."""


def fingerprint(key: bytes) -> str:
    """The words of a key's 32 bytes."""
    return " ".join(WORDS[byte] for byte in hashlib.sha256(key).digest()[:COUNT])
