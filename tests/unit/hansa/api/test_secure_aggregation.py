"""Specs whose silos mask their updates: what they need, and what masks cannot do."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from hansa.api.spec import FederationSpec
from hansa.api.strategies import BUILTIN
from hansa.cli.validate import list_notes
from tests.support.builders import make_federation, make_spec
from tests.support.masked_updates import masked


def spec(change: Callable[[dict[str, Any]], Any]) -> FederationSpec:
    """A masked federation of three, changed in one thing."""
    fields = copy.deepcopy(masked("a", "b", "c"))
    fields["storage"] = {"s3": {"bucket": "shared", "prefix": "run"}}
    change(fields)
    return make_spec(**fields)


def aggregation(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda made: made["aggregation"].update(fields)


def test_three_silos_with_keys_and_private_stores_of_their_own_may_mask() -> None:
    made = spec(lambda made: None)
    assert made.aggregation.secure is not None
    assert (made.aggregation.secure.clip_norm, made.aggregation.secure.on_dropout) == (
        1.0,
        "remask",
    )


@pytest.mark.parametrize("strategy", [name for name, e in BUILTIN.items() if e.is_sum])
def test_strategies_that_need_only_the_sum_go_with_masks(strategy: str) -> None:
    assert spec(aggregation(strategy=strategy)).aggregation.strategy == strategy


def test_a_silo_elsewhere_has_its_key_here_and_its_secret_there() -> None:
    elsewhere = {
        "exchange": {"publicKeys": ["ed25519:" + "A" * 43]},
        "model": {"sha256": "a" * 64},
        "adapter": {"shapes": "b" * 64},
    }

    def move(made: dict[str, Any]) -> None:
        made.update(elsewhere)
        silo = made["environments"][0]
        del silo["world"], silo["experienceStorage"]
        silo["member"] = {"publicKeys": ["ed25519:" + "B" * 43]}

    assert spec(move).environments[0].masking_key

    def name_its_secret(made: dict[str, Any]) -> None:
        move(made)
        made["environments"][0]["maskingSecret"] = {"name": "own"}

    with pytest.raises(ValidationError, match=r"maskingSecret: got a value, expected none"):
        spec(name_its_secret)


def test_masks_without_a_guard_are_warned_of_since_nobody_sees_who_ruins_a_round() -> None:
    open_ = make_federation(**masked("a", "b", "c"))
    assert any("one hostile silo can ruin a round unnamed" in note for note in list_notes(open_))
    guarded = make_federation(**masked("a", "b", "c"), guard={})
    assert not any("unnamed" in note for note in list_notes(guarded))
    assert not any("unnamed" in note for note in list_notes(make_federation()))
