"""Seeds differ by everything they are derived from, and by nothing else."""

import pytest

from hansa_client import seeds


def test_a_seed_is_the_same_on_every_machine() -> None:
    assert seeds.derive(7, "maze", 3, "explore") == 3418697543311784182


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((8, "maze", 3, "explore"), id="seed"),
        pytest.param((7, "wordle", 3, "explore"), id="environment"),
        pytest.param((7, "maze", 4, "explore"), id="round"),
        pytest.param((7, "maze", 3, "train"), id="purpose"),
    ],
)
def test_a_seed_changes_with_each_of_its_parts(other: tuple[int, str, int, str]) -> None:
    assert seeds.derive(*other) != seeds.derive(7, "maze", 3, "explore")


def test_seeds_fit_torch_and_numpy() -> None:
    found = [seeds.derive(7, "maze", round_, "train") for round_ in range(200)]
    assert all(0 <= seed < 2**63 for seed in found)
    assert len(set(found)) == 200


def test_a_generator_repeats_itself() -> None:
    first, second = seeds.make_generator(5).random(4), seeds.make_generator(5).random(4)
    assert first.tolist() == second.tolist()
