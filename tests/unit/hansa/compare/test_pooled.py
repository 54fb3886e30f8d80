"""A centre that pools silos is shown what each of them would have been shown."""

from hansa.compare.methods import pooled


def test_a_centre_keeps_each_silos_own_number_of_demonstrations() -> None:
    silos = [
        {"name": "a", "world": "maze", "options": {}, "demonstrations": 0},
        {"name": "b", "world": "wordle", "demonstrations": 7, "demonstrationsFrom": "/b"},
        {"name": "c", "world": "maze", "demonstrations": None},
    ]
    [centre] = pooled({"environments": silos})["environments"]
    assert centre["options"]["worlds"] == [
        {"name": "a", "world": "maze", "demonstrations": 0},
        {"name": "b", "world": "wordle", "demonstrations": 7, "demonstrationsFrom": "/b"},
        {"name": "c", "world": "maze"},
    ]
