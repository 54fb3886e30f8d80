"""A centre that pools silos is shown what each of them would have been shown."""

from hansa.api.spec import FederationSpec
from hansa.compare.methods import pool_environments


def test_a_centre_keeps_each_silos_own_number_of_demonstrations() -> None:
    silos = [
        {"name": "a", "world": "maze", "options": {}, "demonstrations": 0},
        {"name": "b", "world": "wordle", "demonstrations": 7, "demonstrationsFrom": "/b"},
        {"name": "c", "world": "maze", "demonstrations": None},
    ]
    [centre] = pool_environments({"environments": silos})["environments"]
    assert centre["options"]["worlds"] == [
        {"name": "a", "world": "maze", "demonstrations": 0},
        {"name": "b", "world": "wordle", "demonstrations": 7, "demonstrationsFrom": "/b"},
        {"name": "c", "world": "maze"},
    ]


def test_pooled_silos_keep_an_endpoint_that_all_of_them_have() -> None:
    here = {"url": "http://127.0.0.1:8000", "server": "hansa"}
    there = {**here, "url": "https://there"}
    for second, expected in ((here, here), (there, None)):
        silos = [
            {"name": "a", "world": "maze", "endpoint": here},
            {"name": "b", "world": "wordle", "endpoint": second},
        ]
        made = pool_environments({"exploration": {"engine": "openai"}, "environments": silos})
        assert made["environments"][0].get("endpoint") == expected
        assert made["exploration"]["engine"] == ("openai" if expected else "auto")
        FederationSpec.model_validate(made)
