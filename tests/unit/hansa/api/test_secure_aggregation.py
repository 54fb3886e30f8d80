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


def first(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda made: made["environments"][0].update(fields)


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


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a strategy that looks at each update": (
        aggregation(strategy="median"),
        "aggregation.strategy: got median, expected one of mean, weighted-mean, ffa, rolora,",
    ),
    "moments of each silo's inputs": (aggregation(strategy="regmean"), "strategy: got regmean"),
    "a strategy of a package": (aggregation(strategy="theirs"), "strategy: got theirs"),
    "a step that compares updates": (
        aggregation(serverStep="auto"),
        "aggregation.serverStep: got auto, expected a number with aggregation.secure",
    ),
    "a key to seal to": (
        aggregation(sealTo="x25519:" + "A" * 43),
        "aggregation.sealTo: got a key, expected none with aggregation.secure",
    ),
    "a bound on one update's length": (
        aggregation(maxUpdateNorm=2.0),
        "aggregation.maxUpdateNorm: got 2, expected none given with aggregation.secure",
    ),
    "a bound by the median": (aggregation(maxNormRatio=2.0), "aggregation.maxNormRatio: got 2"),
    "a bound on weights": (
        aggregation(strategy="weighted-mean", options={"maxWeightRatio": 2.0}),
        "aggregation.options.maxWeightRatio: got 2",
    ),
    "two silos": (
        lambda made: made["environments"].pop(),
        "environments: got 2, expected at least 3 with aggregation.secure",
    ),
    "a minimum of two": (
        lambda made: made.update(participation={"minimumUpdates": 2}),
        "participation.minimumUpdates: got 2, expected at least 3 with aggregation.secure",
    ),
    "a silo without a key": (
        lambda made: made["environments"][1].pop("maskingKey"),
        r"environments\[1\].maskingKey: got nothing, expected the silo's public key",
    ),
    "two silos with one key": (
        lambda made: first(maskingKey=made["environments"][1]["maskingKey"])(made),
        r"environments\[1\].maskingKey: got the key of a, expected another",
    ),
    "no store": (lambda made: made.pop("storage") and made.update(storage=None), "storage: got"),
    "a silo without a private store": (
        lambda made: made["environments"][2].pop("experienceStorage"),
        r"environments\[2\].experienceStorage: got nothing, expected a store of the silo's own",
    ),
    "a silo that only seals its experience": (
        first(experienceStorage=None, experienceKeySecret={"name": "own"}),
        r"environments\[0\].experienceStorage: got nothing, expected a store of the silo's own",
    ),
    "a private store that is the shared one": (
        first(experienceStorage={"s3": {"bucket": "shared", "prefix": "mine"}}),
        r"environments\[0\].experienceStorage.s3.bucket: got shared, where updates are exchanged",
    ),
    "a longest change of nothing": (aggregation(secure={"clipNorm": 0}), "clipNorm"),
    "a key that signs": (first(maskingKey="ed25519:" + "A" * 43), "maskingKey"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_masks_cannot_do_is_refused_in_one_sentence(case: str) -> None:
    change, sentence = REFUSED[case]
    with pytest.raises(ValidationError, match=sentence):
        spec(change)


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
