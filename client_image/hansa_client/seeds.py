"""Seeds: every random choice follows from (spec.seed, environment, round, purpose)."""

import hashlib

import numpy as np

BITS = 63
"""Bits of a seed: what torch, numpy and random all take as a non-negative integer."""


def derive(seed: int, environment: str, round_: int, purpose: str) -> int:
    """The seed of one purpose; sha256 keeps neighbouring rounds and environments unrelated."""
    text = f"{seed}/{environment}/{round_}/{purpose}"
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - BITS)


def derive_episode_seed(seed: int, task: str, sample: int) -> int:
    """The seed of one episode, so that it does not depend on the others in its batch."""
    return derive(seed, task, sample, "episode")


def make_generator(seed: int) -> np.random.Generator:
    """Random numbers of a seed; Philox is counter-based and the same on every machine."""
    return np.random.Generator(np.random.Philox(key=seed))
